"""Folds of whole episodes, by their numbers: a sweep keeps the episodes once and tells each fit which ones
are its own."""

from dataclasses import dataclass

import jax
import numpy as np

from multistep.data import Episodes
from multistep.errors import InputError
from multistep.types import Key


@dataclass(frozen=True)
class Fold:
    """Numbers of the episodes to train on, to choose the epoch by, and to score on."""

    number: int
    train: tuple[int, ...]
    valid: tuple[int, ...]
    test: tuple[int, ...]

    def deal(self, episodes: Episodes) -> tuple[Episodes, Episodes, Episodes]:
        """The episodes of the three parts."""
        return episodes.take(self.train), episodes.take(self.valid), episodes.take(self.test)


def deal_folds(num_episodes: int, num_folds: int, *, valid_share: float = 0.1, key: Key) -> list[Fold]:
    """Cross-validation: every episode is in exactly one test part; a share of the others chooses the
    epoch."""
    num_valid = max(1, round(valid_share * num_episodes)) if valid_share else 0
    if not 2 <= num_folds <= num_episodes or num_episodes - -(-num_episodes // num_folds) <= num_valid:
        raise InputError(
            f"{num_episodes} episodes cannot be dealt into {num_folds} folds with {num_valid} of the rest "
            "for validation: give "
            "more episodes, cut long recordings into shorter ones, or choose another number of folds."
        )
    tests = np.array_split(_shuffled(num_episodes, key), num_folds)
    return [_fold(number, test, num_episodes, num_valid, key) for number, test in enumerate(tests)]


def deal_sized_folds(sizes: tuple[int, int, int], num_folds: int, *, key: Key) -> list[Fold]:
    """Folds of these numbers of episodes for training, validation and test; no episode is in two test
    parts."""
    num_episodes, (_, num_valid, num_test) = sum(sizes), sizes
    if num_folds * num_test > num_episodes:
        raise InputError(
            f"{num_episodes} episodes have no {num_folds} test parts of {num_test} episodes: choose fewer "
            "folds."
        )
    order = _shuffled(num_episodes, key)
    return [
        _fold(number, order[number * num_test : (number + 1) * num_test], num_episodes, num_valid, key)
        for number in range(num_folds)
    ]


def _shuffled(num_episodes: int, key: Key) -> np.ndarray:
    return np.asarray(jax.random.permutation(jax.random.fold_in(key, 0), num_episodes))


def _fold(number: int, test: np.ndarray, num_episodes: int, num_valid: int, key: Key) -> Fold:
    rest = np.setdiff1d(np.arange(num_episodes), test)
    rest = rest[np.asarray(jax.random.permutation(jax.random.fold_in(key, number + 1), len(rest)))]
    return Fold(number, *(tuple(part.tolist()) for part in (rest[num_valid:], rest[:num_valid], test)))
