"""How long the automatic recipe trains its large networks, in model steps."""

import math

import numpy as np

from multistep.data import Episodes
from multistep.selection.budget import Budget
from multistep.training import Fit

FIRST_STEPS = 1_600_000
"""Model steps of the first fit of the large network, where no budget says otherwise."""
MEMBERS, MEMBER_STEPS = 3, 5_300_000
"""Networks of the longer fit to noisy episodes, and model steps of each: with more they learn the noise, and
another network is worth more."""
CLEAN_MEMBERS, CLEAN_MEMBER_STEPS = 2, 12_000_000
"""The same where there is no noise to learn."""
REPEATS = 4
"""There the last horizon is gone through again, at most so often, while that is of use."""
PASSES = 1000
"""No fit takes more model steps than so many for each step of the training episodes."""
STEPS_PER_SECOND = 100_000
"""Model steps that any machine takes: for the first fit of a budget in seconds, before there is a
measurement."""
OVERHEAD = 0.2
"""Share of a budget in seconds for compilation and judging in the end."""


def first_steps(train: Episodes, budget: Budget) -> int:
    """Of the quick fit."""
    most = budget.model_steps or (budget.seconds or math.inf) * STEPS_PER_SECOND
    return int(min(FIRST_STEPS, PASSES * train.num_steps / 4, 0.4 * most))


def second_steps(
    train: Episodes, budget: Budget, rough: Fit | None, is_clean: bool = False, spent: float = 0.0
) -> int:
    """Of the longer one: what is left of the budget.

    **Arguments:**

    - `train`: the episodes.
    - `budget`: of everything.
    - `rough`: the quick fit, whose speed says what a budget of time is in steps; none: a guess is made.
    - `is_clean`: whether there is no noise to learn.
    - `spent`: seconds that everything before has taken.
    """
    first = first_steps(train, budget)
    if budget.model_steps:
        return min(budget.model_steps - first, PASSES * train.num_steps)
    if budget.seconds is None:
        noisy, clean = MEMBERS * MEMBER_STEPS, CLEAN_MEMBERS * CLEAN_MEMBER_STEPS
        return min(clean if is_clean else noisy, PASSES * train.num_steps)
    if rough is None:
        return int((1 - OVERHEAD) * budget.seconds * STEPS_PER_SECOND) - first
    usual = float(np.median([epoch.seconds for epoch in rough.history])) * len(rough.history)
    left = (1 - OVERHEAD) * budget.seconds - spent
    return max(0, int(left * first / usual))
