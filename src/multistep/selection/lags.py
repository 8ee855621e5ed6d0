"""`ChosenMemory`: how many lags, or what hidden state, by the judge."""

import math
import time
from dataclasses import dataclass
from typing import Literal

from multistep.data import Episodes, spread
from multistep.dynamics import (
    AbstractArchitecture,
    AbstractMemory,
    HiddenState,
    Lags,
    NoMemory,
    ShallowConfig,
)
from multistep.errors import InputError
from multistep.training import GaussNewton, Score
from multistep.types import Key

READ = 10
"""Outputs that a hidden state is read from at the start, where the user does not say."""
LAGS = (1, 2, 5, 10)
MORE_NUMBERS = (1, 2, 4)
"""Numbers of a hidden state besides the outputs."""
ENOUGH = 10_000
"""Steps of episodes that the quick fits are made of, spread over all."""
MOST_FOLDS = 5
UNITS, RIDGE = 5, 1e-4
"""Of the quick fits."""
AS_GOOD, NOTHING = 1.05, 1e-6
"""So many times what the best leaves unexplained, and this much more, is as good: the shorter memory is
taken."""


@dataclass(frozen=True)
class ChosenMemory(AbstractMemory):
    """Not yet known: the automatic recipe tries several."""

    most: int | None = None
    """Past outputs that a model may start from at most, as a benchmark's rules may say."""

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
    train: Episodes,
    valid: Episodes,
    *,
    key: Key,
    score: Score,
    most: int | None = None,
    seconds: float | None = None,
) -> tuple[AbstractMemory, dict[AbstractMemory, float]]:
    """The shortest memory that is about as good as the best, and the score of each that was tried.

    **Arguments:**

    - `train`, `valid`: episodes to fit to, and to judge by; where they are few, each judges once.
    - `key`: of the fits.
    - `score`: the judge's.
    - `most`: past outputs at most.
    - `seconds`: after which no further one is tried.
    """
    longest = min(int(train.lengths.max()), int(valid.lengths.max())) // 2
    longest = longest if most is None else min(longest, most)
    outputs = train.state_size
    tried: list[AbstractMemory] = [
        HiddenState(outputs + more, min(longest, 2 * (outputs + more) + 2))
        for more in MORE_NUMBERS
        if longest > 1
    ]
    tried += [Lags(count) for count in LAGS if count <= max(1, longest)]
    judged: dict[AbstractMemory, float] = {}
    begun = time.perf_counter()
    few = len(train) + len(valid) > 1 and train.num_steps + valid.num_steps <= ENOUGH
    folds = min(MOST_FOLDS, len(train) + len(valid)) if few else 0
    train, valid = (each if few else spread(each, ENOUGH) for each in (train, valid))
    for memory in tried:
        if judged and seconds is not None and time.perf_counter() - begun > seconds:
            break
        quick = GaussNewton(
            memory.around(ShallowConfig(UNITS)), starts=1, ridges=(RIDGE,), folds=folds, rounds=5
        )
        best = quick.fit(train, valid, key=key, score=score).best_epoch
        judged[memory] = -math.inf if best is None else best.score
    least = min(1 - value for value in judged.values())
    good = [memory for memory in judged if 1 - judged[memory] <= AS_GOOD * least + NOTHING]
    return min(good, key=_size, default=Lags(1)), judged


def describe(memory: AbstractMemory) -> str:
    """In words."""
    if isinstance(memory, HiddenState):
        return f"a hidden state of {memory.size} numbers"
    if isinstance(memory, Lags):
        return "one sample" if memory.count == 1 else f"{memory.count} lags"
    return "lags chosen by the judge" if isinstance(memory, ChosenMemory) else "no memory"


def _size(memory: AbstractMemory) -> tuple[int, bool]:
    """Outputs or numbers that it carries; lags come before a hidden state of as many."""
    if isinstance(memory, HiddenState):
        return memory.size, True
    return memory.num_past, False
