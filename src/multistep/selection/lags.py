"""`ChosenMemory`: how many lags, or what hidden state, by the judge."""

import math
from dataclasses import dataclass

import jax

from multistep.data import Episodes
from multistep.dynamics import (
    AbstractArchitecture,
    AbstractMemory,
    HiddenState,
    Lags,
    LineConfig,
)
from multistep.errors import InputError
from multistep.training import AbstractRecipe, LeastSquares, QuasiNewton, Score
from multistep.training.quasi_newton import SMALL_NETWORK
from multistep.types import Key

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

    most: int | None = None
    """Past outputs that a model may start from at most, as a benchmark's rules may say."""

    def around(self, network: AbstractArchitecture) -> AbstractArchitecture:
        raise InputError("--lags auto belongs to the automatic recipe: give the number of lags, or leave it.")


def choose_memory(
    train: Episodes, valid: Episodes, *, key: Key, score: Score, most: int | None = None
) -> tuple[AbstractMemory, dict[AbstractMemory, float]]:
    """The shortest memory that is about as good as the best, and the score of each that was tried.

    **Arguments:**

    - `train`, `valid`: episodes to fit to, and to judge by.
    - `key`: of the fits.
    - `score`: the judge's.
    - `most`: past outputs at most.
    """
    longest = min(int(train.lengths.max()), int(valid.lengths.max())) // 2
    longest = longest if most is None else min(longest, most)
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
    return "no memory"


def _quick(memory: AbstractMemory, train: Episodes) -> AbstractRecipe:
    if train.num_steps > SMALL:
        return LeastSquares(memory.around(LineConfig()))
    return QuasiNewton(memory.around(SMALL_NETWORK), starts=1, adam_steps=200, rounds=2, iterations=50)
