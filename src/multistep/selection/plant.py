"""`fit_plant`: a line and a small network by Gauss-Newton, for outputs and inputs with a memory of them."""

import math
from collections.abc import Collection
from dataclasses import dataclass, replace

import jax
import numpy as np

from multistep.data import Episodes, pooled, spread
from multistep.dynamics import (
    AbstractArchitecture,
    AbstractDynamics,
    AbstractMemory,
    LimitedConfig,
    LineConfig,
    ShallowConfig,
)
from multistep.errors import InputError
from multistep.evaluation import FreeRunR2, R2Bar
from multistep.selection.budget import Budget
from multistep.selection.tried import Tried
from multistep.training import Fit, GaussNewton, LeastSquares, Outcome, Score
from multistep.training.normal_equations import flat_weights
from multistep.types import Key

FEW = 20_000
"""Steps of episodes up to which each of them judges once, and the model is fitted to all of them."""
MOST = 40_000
"""Steps of episodes that a small network is fitted to at most, spread over all."""
MOST_FOLDS = 5
LEAST_FOLD = 4
"""Pasts that fit into what a fold holds out at least."""
RIDGES = (1e-2, 1e-4)
"""Tried where data are few."""
STARTS = 4
ROLLOUTS = 5
"""At least, from as many places."""
RIDGE, MORE_STARTS = 1e-8, 2
"""Where there are more data."""
MOST_WORK = 1e10
"""Multiplications of an iteration, steps times weights squared: where one start takes more, it is the only
one."""
SHORT, LONG, LONGER, LONGEST = 50, 300, 2000, 20_000
"""Steps of the rollouts at first, then, and where few whole records are to be simulated."""
MOST_WEIGHTS = 800
"""Of a small network: an iteration solves for all of them at once."""
NOT_HERE = ("refit", "smoothing")
"""Steps of the automatic recipe that have no part in this."""


def fit_plant(
    memory: AbstractMemory,
    train: Episodes,
    valid: Episodes,
    *,
    key: Key,
    score: Score,
    budget: Budget,
    without: Collection[str] = (),
    notes: tuple[str, ...] = (),
) -> Fit:
    """A line and a small network with this memory: the better one.

    **Arguments:**

    - `memory`: lags, or a hidden state.
    - `train`, `valid`: episodes; where they are few, each of them judges once.
    - `key`: for random weights.
    - `score`: the judge's.
    - `budget`: what it may spend.
    - `without`: what is left out, by name.
    - `notes`: what there is to say of the memory.
    """
    if strange := sorted(set(without) & set(NOT_HERE)):
        raise InputError(f"With lags or a hidden state there is no {strange[0]}: leave it out of --without.")
    pool = pooled(train, valid)
    folds = 0 if "cross_fitting" in without else num_folds(pool, memory.num_past)
    small = small_recipe(memory, num_units(pool.num_steps), score, pool, folds, budget)
    if "growing" in without:
        small = replace(small, horizons=small.horizons[-1:])
    if "averaging" in without:
        small = replace(small, starts=1)
    judge = OnBoth(score, train) if isinstance(score, FreeRunR2) and not folds else score
    fitted = small.fit(train if folds else spread(train, MOST), valid, key=key, score=judge)
    best = fitted.best_epoch
    parts, judged = {"small": fitted}, {"small": -math.inf if best is None else best.score}
    if "linear" not in without:
        line = LeastSquares(memory.around(LimitedConfig(LineConfig())))
        line_fit = line.fit(pool if folds else train, valid, key=key, score=score)
        parts = {"linear": line_fit} | parts
        # The small network before its first iteration is this line, judged in the same way.
        judged["linear"] = fitted.history[0].score
    if fitted.outcome is Outcome.INTERRUPTED:
        notes = (*notes, "It was interrupted.")
    tried = Tried(parts, judged, score, valid, None, notes, crossed=bool(folds))
    more = ("Fitted to all episodes, those of the validation too.",) if folds else ()
    found = tried.fit(pool if folds else valid, *more)
    is_whole = fitted.outcome is not Outcome.INTERRUPTED
    return found if is_whole else replace(found, outcome=Outcome.INTERRUPTED)


@dataclass(frozen=True)
class OnBoth:
    """The lower of two scores, on the validation episodes and on those of the training: a simulator must not
    run away on either, and the records that validate may be too short to show it."""

    score: Score
    train: Episodes

    def __call__(self, model: AbstractDynamics, valid: Episodes) -> float:
        return min(self.score(model, valid), self.score(model, self.train))


def small_recipe(
    memory: AbstractMemory, units: int, score: Score, pool: Episodes, folds: int, budget: Budget
) -> GaussNewton:
    """How a small network with this memory is fitted.

    **Arguments:**

    - `memory`: lags, or a hidden state.
    - `units`: of its one layer.
    - `score`: the judge's, which says how long the rollouts are that matter.
    - `pool`: all episodes that there are.
    - `folds`: of the cross-fitting; 0: validation episodes judge.
    - `budget`: what it may spend.
    """
    is_whole, longest = isinstance(score, FreeRunR2), min(LONGEST, int(pool.lengths.max()))
    reach = score.horizon if isinstance(score, R2Bar) else longest if is_whole else LONG
    horizons = (SHORT, max(LONG, reach))
    if is_whole and not folds:
        horizons = (*(each for each in (SHORT, LONG, LONGER) if each < longest), longest)
    network = memory.around(LimitedConfig(ShallowConfig(units)))
    work = min(pool.num_steps, MOST) * num_weights(network, pool) ** 2
    more_starts = MORE_STARTS if work <= MOST_WORK else 1
    recipe = GaussNewton(
        network,
        horizons=horizons,
        judged=reach,
        least_rollouts=ROLLOUTS,
        starts=STARTS if folds else more_starts,
        ridges=RIDGES if folds else (RIDGE,),
        folds=folds,
        rounds=GaussNewton().rounds if folds else 2 * GaussNewton().rounds,
        seconds=budget.seconds,
    )
    if budget.model_steps is None:
        return recipe
    one = replace(recipe, rounds=1).most_steps(pool)
    return replace(recipe, rounds=int(np.clip(budget.model_steps // one, 1, recipe.rounds)))


def num_folds(pool: Episodes, num_past: int) -> int:
    """Parts in which the episodes judge in turn; 0 where there are enough of them to keep some for that, or
    too few."""
    if pool.num_steps > FEW:
        return 0
    long = pool.lengths[pool.lengths > num_past]  # the others cannot be started in
    folds = min(MOST_FOLDS, max(len(long), int(long.sum()) // (LEAST_FOLD * num_past)))
    return folds if folds > 1 else 0


def num_units(num_steps: int) -> int:
    """Units of the small network: more, the more data there are."""
    return int(np.clip(round(num_steps**0.5 / 8), 5, 16))


def is_small(memory: AbstractMemory, pool: Episodes) -> bool:
    """Whether a small network with this memory has few enough weights to solve for all of them at once."""
    return num_weights(memory.around(ShallowConfig(num_units(pool.num_steps))), pool) <= MOST_WEIGHTS


def num_weights(network: AbstractArchitecture, pool: Episodes) -> int:
    """How many are trained."""
    sizes = pool.state_size, pool.action_size
    suited = network.suited_to(pool)
    return jax.eval_shape(lambda key: flat_weights(suited.make(*sizes, key=key)), jax.random.key(0)).size
