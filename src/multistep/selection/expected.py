"""`expected_seconds`: how long the automatic recipe takes on this machine, before it starts."""

import math
from dataclasses import replace

from multistep.data import Episodes, pooled, spread
from multistep.dynamics import AbstractMemory, Lags, NoMemory
from multistep.selection.automatic import FEW, FOLDS, SMALL, Automatic
from multistep.selection.budget import Budget
from multistep.selection.lags import ENOUGH, ChosenMemory, quick_recipes
from multistep.selection.plant import is_small, num_folds, num_units, num_weights, small_recipe
from multistep.training import GaussNewton, QuasiNewton, Score, seconds_of
from multistep.training.normal_equations import DAMPINGS
from multistep.training.quasi_newton import SMALL_NETWORK
from multistep.training.work import SHARE, product_speed

PREPARING = 6.0
"""Seconds for the programs of one network with one horizon, if they were never compiled here."""
SMALL_SLOWER = 3.0
"""So many times as long take the few units of a small network as their share of a large one's work."""
ROUNDS_SHARE = 0.6
"""Of the rounds that there may be."""


def expected_seconds(recipe: Automatic, train: Episodes, valid: Episodes, score: Score) -> float:
    """About how long the fit takes; its budget, if that is one of time and less.

    **Arguments:**

    - `recipe`: with the memory and the budget that it will have.
    - `train`, `valid`: the episodes.
    - `score`: the judge's, which says how long rollouts are.
    """
    most = Budget.parse(recipe.budget).seconds or math.inf
    pool = pooled(train, valid)
    with_small, crossed = "small" not in recipe.without, "cross_fitting" not in recipe.without
    if isinstance(recipe.memory, ChosenMemory):
        tried = quick_recipes(train, valid, score, recipe.memory.most, crossed=crossed)
        if not tried:  # of so many outputs there are no small networks
            return expected_seconds(replace(recipe, memory=Lags(1)), train, valid, score)
        quick = sum(_small_seconds(each, spread(pool, ENOUGH)) for each in tried.values())
        largest = max(tried, key=lambda memory: memory.num_past, default=recipe.memory)
        return min(most, quick + _plant_seconds(largest, pool, score, crossed))
    if not isinstance(recipe.memory, NoMemory) and with_small and is_small(recipe.memory, train):
        return min(most, _plant_seconds(recipe.memory, pool, score, crossed))
    seconds = seconds_of(recipe.most_steps(train), recipe.network, train)
    if with_small and train.num_steps <= SMALL:
        small = QuasiNewton()
        passes = small.starts * (small.adam_steps + small.rounds * small.iterations)
        seconds += SMALL_SLOWER * seconds_of(2 * passes * train.num_steps, SMALL_NETWORK, train)
    is_crossed = crossed and pool.num_steps <= FEW and len(pool) > 2
    return min(most, (FOLDS + 2) * seconds if is_crossed else seconds)


def _plant_seconds(memory: AbstractMemory, pool: Episodes, score: Score, crossed: bool) -> float:
    folds = num_folds(pool, memory.num_past) if crossed else 0
    units = num_units(pool.num_steps)
    return _small_seconds(small_recipe(memory, units, score, pool, folds, Budget()), pool)


def _small_seconds(recipe: GaussNewton, pool: Episodes) -> float:
    """Most of an iteration is the product of all slopes with each other; and programs are to be made."""
    weights = num_weights(recipe.network, pool)
    steps = ROUNDS_SHARE * recipe.most_steps(pool) / (1 + len(DAMPINGS))
    work = 6.0 * steps * pool.state_size * weights**2
    return SMALL_SLOWER * work / (SHARE * product_speed()) + len(recipe.horizons) * PREPARING
