"""`ChosenMemory`: how many lags, or what hidden state, by the judge."""

import math
from dataclasses import dataclass
from typing import Literal

import jax

from multistep.data import Episodes
from multistep.dynamics import (
    AbstractArchitecture,
    AbstractMemory,
    HiddenState,
    Lags,
    LineConfig,
    NoMemory,
)
from multistep.errors import InputError
from multistep.training import AbstractRecipe, LeastSquares, QuasiNewton, Score
from multistep.training.quasi_newton import SMALL_NETWORK
from multistep.types import Key

READ = 10
"""Outputs that a hidden state is read from at the start, where the user does not say."""
LAGS = (1, 2, 3, 5, 8, 13)
MORE_NUMBERS = (1, 2, 4)
"""Numbers of a hidden state besides the outputs."""
SMALL = 20_000
"""Steps of training episodes up to which a small network is tried; with more, lines are compared."""
AS_GOOD, NOTHING = 1.05, 1e-6
"""So many times what the best leaves unexplained, and this much more, is as good: the shorter memory is
taken."""


@dataclass(frozen=True)
class ChosenMemory(AbstractMemory):
    """Not yet known: the automatic recipe tries several."""

    @property
    def num_past(self) -> int:
        return 1  # at least

    def around(self, network: AbstractArchitecture) -> AbstractArchitecture:
        raise InputError("--lags auto belongs to the automatic recipe: give the number of lags, or leave it.")


def memory_of(lags: int | Literal["auto"] | None, hidden: int | None) -> AbstractMemory:
    """What a number of lags, a size of a hidden state, both or neither stand for."""
    if lags == "auto":
        if hidden is not None:
            raise InputError("--lags auto chooses the hidden state too: leave --hidden out.")
        return ChosenMemory()
    if hidden is not None:
        return HiddenState(hidden, READ if lags is None else lags)
    # One sample is no memory: the same recipe, with the same name in rows and checkpoints.
    return NoMemory() if lags in (None, 1) else Lags(lags)


def choose_memory(
    train: Episodes, valid: Episodes, *, key: Key, score: Score
) -> tuple[AbstractMemory, dict[AbstractMemory, float]]:
    """The shortest memory that is about as good as the best, and the score of each that was tried.

    **Arguments:**

    - `train`, `valid`: episodes to fit to, and to judge by.
    - `key`: of the fits.
    - `score`: the judge's.
    """
    longest = min(int(train.lengths.max()), int(valid.lengths.max())) // 2
    outputs = train.state_size
    tried: list[AbstractMemory] = [Lags(count) for count in LAGS if count <= max(1, longest)]
    tried += [
        HiddenState(outputs + more, min(longest, 2 * (outputs + more) + 2))
        for more in MORE_NUMBERS
        if longest > 1
    ]
    judged: dict[AbstractMemory, float] = {}
    for number, memory in enumerate(tried):
        fitted = _quick(memory, train).fit(train, valid, key=jax.random.fold_in(key, number), score=score)
        value = score(fitted.model, valid)
        judged[memory] = -math.inf if math.isnan(value) else value
    least = min(1 - value for value in judged.values())
    good = (memory for memory in tried if 1 - judged[memory] <= AS_GOOD * least + NOTHING)
    return next(good, Lags(1)), judged


def describe(memory: AbstractMemory) -> str:
    """In words."""
    if isinstance(memory, HiddenState):
        return f"a hidden state of {memory.size} numbers"
    if isinstance(memory, Lags):
        return "one sample" if memory.count == 1 else f"{memory.count} lags"
    return "lags chosen by the judge" if isinstance(memory, ChosenMemory) else "no memory"


def _quick(memory: AbstractMemory, train: Episodes) -> AbstractRecipe:
    if train.num_steps > SMALL:
        return LeastSquares(memory.around(LineConfig()))
    return QuasiNewton(memory.around(SMALL_NETWORK), starts=1, adam_steps=200, rounds=2, iterations=50)
