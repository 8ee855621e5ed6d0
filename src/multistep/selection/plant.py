"""`fit_plant`: a model of outputs and inputs; a small one by Gauss-Newton, with the memory that does best."""

import math
from collections.abc import Collection

import numpy as np

from multistep.data import Episodes, join
from multistep.dynamics import AbstractMemory, LineConfig, ShallowConfig
from multistep.runs.progress import progress_spinner
from multistep.selection.budget import Budget
from multistep.selection.lags import ChosenMemory, choose_memory, describe
from multistep.selection.tried import Tried, digits
from multistep.training import Fit, GaussNewton, LeastSquares, Outcome, Score
from multistep.types import Key

FEW = 20_000
"""Steps of episodes up to which each of them judges once, and the model is fitted to all of them."""
MOST_FOLDS = 5
RIDGES = (1e-2, 1e-4)
"""Tried where data are few."""
STARTS = 4
RIDGE, MORE_STARTS = 1e-8, 2
"""Where there are more data."""
MEMORY_SHARE = 0.3
"""Of a budget in seconds for the choice of the memory."""


def fit_plant(
    memory: AbstractMemory,
    train: Episodes,
    valid: Episodes,
    *,
    key: Key,
    score: Score,
    budget: Budget,
    without: Collection[str] = (),
) -> Fit:
    """A line and a small network with this memory, or with the one that quick fits do best with.

    **Arguments:**

    - `memory`: lags, a hidden state, or what is yet to be chosen.
    - `train`, `valid`: episodes; where they are few, each of them judges once.
    - `key`: for random weights.
    - `score`: the judge's.
    - `budget`: what it may spend.
    - `without`: what is left out, by name.
    """
    pool, notes = join(train, valid), []
    folds = 0
    if pool.num_steps <= FEW and len(pool) > 1 and "cross_fitting" not in without:
        folds = min(MOST_FOLDS, len(pool))
    if isinstance(memory, ChosenMemory):
        with progress_spinner("trying lags and hidden states"):
            memory, judged = choose_memory(
                train, valid, key=key, score=score, most=memory.most, seconds=_share(budget, MEMORY_SHARE)
            )
        tried = ", ".join(f"{describe(each)} {digits(value)}" for each, value in judged.items())
        notes.append(f"Memory: {describe(memory)}, of {tried} in quick fits.")
    small = GaussNewton(
        memory.around(ShallowConfig(num_units(pool.num_steps))),
        starts=STARTS if folds else MORE_STARTS,
        ridges=RIDGES if folds else (RIDGE,),
        folds=folds,
        seconds=_share(budget, 1 - MEMORY_SHARE),
        rounds=_rounds(budget, pool, folds),
    )
    parts = {"linear": LeastSquares(memory.around(LineConfig())).fit(train, valid, key=key, score=score)}
    parts["small"] = fitted = small.fit(train, valid, key=key, score=score)
    best = fitted.best_epoch
    judged = {
        "linear": fitted.history[0].score if fitted.history else -math.inf,
        "small": -math.inf if best is None else best.score,
    }
    if fitted.outcome is Outcome.INTERRUPTED:
        notes.append("It was interrupted.")
    tried = Tried(parts, judged, score, valid, None, tuple(notes), crossed=bool(folds))
    if "linear" in without:
        tried = Tried({"small": fitted}, judged, score, valid, None, tuple(notes), crossed=bool(folds))
    more = ("Fitted to all episodes, those of the validation too.",) if folds else ()
    return tried.fit(pool if folds else valid, *more)


def num_units(num_steps: int) -> int:
    """Units of the small network: more, the more data there are."""
    return int(np.clip(round(num_steps**0.5 / 8), 5, 16))


def _share(budget: Budget, share: float) -> float | None:
    return None if budget.seconds is None else share * budget.seconds


def _rounds(budget: Budget, pool: Episodes, folds: int) -> int:
    most = GaussNewton().rounds if folds else 2 * GaussNewton().rounds
    if budget.model_steps is None:
        return most
    one = GaussNewton(rounds=1, starts=STARTS, ridges=RIDGES, folds=folds).most_steps(pool)
    return int(np.clip(budget.model_steps // one, 1, most))
