"""`ChosenMemory`: how many lags, or what hidden state, by the judge."""

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from multistep.data import Episodes, pooled, spread
from multistep.dynamics import (
    AbstractArchitecture,
    AbstractMemory,
    HiddenState,
    Lags,
    NoMemory,
)
from multistep.errors import InputError
from multistep.selection.budget import Budget
from multistep.selection.plant import FEW, is_small, num_folds, small_recipe
from multistep.training import GaussNewton, Outcome, Score
from multistep.types import Key

NO_LIMIT = Budget()
READ = 10
"""Outputs that a hidden state is read from at the start, where the user does not say."""
LAGS = (1, 2, 3, 5, 10)
MORE_NUMBERS, MOST_NUMBERS = (1, 2, 4), 6
"""Numbers of a hidden state besides the outputs, and where there are data enough."""
MOST_READ = 20
"""Outputs that a hidden state is read from at most."""
ENOUGH = 10_000
"""Steps of episodes that the quick fits are made of where there are many, spread over all."""
UNITS, RIDGE, ROUNDS = 5, 1e-3, 4
"""Of the quick fits."""
AS_GOOD, NOTHING = 1.05, 1e-6
"""So many times what the best leaves unexplained, and this much more, is as good: the shorter memory is
taken."""
FAR = 10.0
"""Times what the best leaves unexplained: more, and a memory is not fitted in full."""


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
    budget: Budget = NO_LIMIT,
    crossed: bool = True,
) -> tuple[list[AbstractMemory], dict[AbstractMemory, float]]:
    """The lags and the hidden state that quick fits do best with, and the score of each memory that was
    tried.

    Of lags, and of hidden states, the shortest is taken that is about as good as the best of them; of the
    two, one that is far worse is left out.

    **Arguments:**

    - `train`, `valid`: episodes to fit to, and to judge by; where they are few, each judges once.
    - `key`: of the fits.
    - `score`: the judge's.
    - `most`: past outputs at most.
    - `budget`: what all of it may spend; when its time is over no further one is tried.
    - `crossed`: whether few episodes judge in turn.
    """
    tried = quick_recipes(train, valid, score, most, budget, crossed)
    judged: dict[AbstractMemory, float] = {}
    begun = time.perf_counter()
    for memory, recipe in tried.items():
        quick = recipe
        if budget.seconds is not None:
            left = budget.seconds - (time.perf_counter() - begun)
            if judged and left < 0:
                break
            quick = replace(recipe, seconds=left)
        own = (train, valid) if quick.folds else (spread(train, ENOUGH), spread(valid, ENOUGH))
        fitted = quick.fit(*own, key=key, score=score)
        if fitted.outcome is Outcome.INTERRUPTED:
            raise KeyboardInterrupt
        judged[memory] = -math.inf if fitted.best_epoch is None else fitted.best_epoch.score
    kinds = [[each for each in judged if isinstance(each, kind)] for kind in (Lags, HiddenState)]
    finalists = [shortest(own, judged, train.state_size) for own in kinds if own]
    least = min((1 - judged[memory] for memory in finalists), default=math.inf)
    return [each for each in finalists if 1 - judged[each] <= FAR * least + NOTHING], judged


def shortest(
    memories: Sequence[AbstractMemory], judged: Mapping[AbstractMemory, float], num_outputs: int
) -> AbstractMemory:
    """Of those that are about as good as the best of them."""
    least = min(1 - judged[memory] for memory in memories)
    good = [memory for memory in memories if 1 - judged[memory] <= AS_GOOD * least + NOTHING]
    return min(good or memories, key=lambda memory: _size(memory, num_outputs))


def quick_recipes(
    train: Episodes,
    valid: Episodes,
    score: Score,
    most: int | None = None,
    budget: Budget = NO_LIMIT,
    crossed: bool = True,
) -> dict[AbstractMemory, GaussNewton]:
    """A quick fit with each memory that reads no more than so many outputs; all by the same folds."""
    pool = pooled(train, valid)
    judges = pool if crossed and num_folds(pool, 1) else valid
    longest = min(int(train.lengths.max()), int(judges.lengths.max())) // 2
    longest = max(1, longest if most is None else min(longest, most))
    memories = [
        each
        for each in _candidates(train.state_size, longest, pool.num_steps > FEW)
        if _can_start(each, train) and is_small(each, train)
    ]
    folds = num_folds(pool, max((each.num_past for each in memories), default=1)) if crossed else 0
    found = {}
    for memory in memories:
        usual = small_recipe(memory, UNITS, score, pool, folds, NO_LIMIT)
        quick = replace(usual, horizons=(usual.judged,), starts=1, ridges=(RIDGE,), rounds=1)
        most_steps = budget.share(1 / len(memories)).model_steps
        rounds = ROUNDS if most_steps is None else most_steps // quick.most_steps(pool)
        found[memory] = replace(quick, rounds=min(max(rounds, 1), ROUNDS))
    return found


def _candidates(num_outputs: int, longest: int, has_many: bool) -> list[AbstractMemory]:
    """Lags and hidden states that read no more than so many outputs."""
    more_numbers = (*MORE_NUMBERS, MOST_NUMBERS) if has_many else MORE_NUMBERS
    sizes = [num_outputs + more for more in more_numbers] if longest > 1 else []
    hidden = [HiddenState(size, min(longest, 2 * size + 2, MOST_READ)) for size in sizes]
    return [*hidden, *(Lags(count) for count in LAGS if count <= longest)]


def _can_start(memory: AbstractMemory, episodes: Episodes) -> bool:
    """Whether the past that it reads has as many numbers as it carries."""
    try:
        memory.check_sizes(episodes.state_size, episodes.action_size)
    except InputError:
        return False
    return True


def describe(memory: AbstractMemory) -> str:
    """In words."""
    if isinstance(memory, HiddenState):
        return f"a hidden state of {memory.size} numbers"
    if isinstance(memory, Lags):
        return "one sample" if memory.count == 1 else f"{memory.count} lags"
    return "lags chosen by the judge" if isinstance(memory, ChosenMemory) else "no memory"


def _size(memory: AbstractMemory, num_outputs: int) -> tuple[int, bool]:
    """Numbers that it carries; lags come before a hidden state of as many."""
    if isinstance(memory, HiddenState):
        return memory.size, True
    return memory.num_past * num_outputs, False
