"""Splits by whole episodes: no window of a test episode is ever trained on."""

from collections.abc import Sequence

import jax
import numpy as np

from multistep.data.episodes import Episodes, cut, cut_at, join
from multistep.errors import InputError, counted
from multistep.types import Key

PIECES = 10
"""That a part of a single recording is made of."""


def split(episodes: Episodes, parts: Sequence[float | int], *, key: Key) -> tuple[Episodes, ...]:
    """The episodes shuffled and dealt out into parts.

    ```python
    train, valid, test = split(episodes, (0.7, 0.1, 0.2), key=key)
    train, valid, test = split(episodes, (36, 4, 10), key=key)
    ```

    **Arguments:**

    - `episodes`: each lands in one part as a whole.
    - `parts`: shares that sum to 1, rounded to whole episodes but one at least; or counts that sum to all.
    - `key`: of the shuffling.
    """
    counts = _counts(parts, len(episodes))
    order = np.asarray(jax.random.permutation(key, len(episodes)))
    return tuple(episodes.take(numbers) for numbers in np.split(order, np.cumsum(counts)[:-1]))


def split_in_time(episodes: Episodes, share: float) -> tuple[Episodes, Episodes]:
    """The first share of all steps, in order, and the rest: the episode in which the border is, is cut."""
    if episodes.num_steps < 2:
        raise InputError("A recording of one step cannot be split: give a longer one.")
    border = min(max(1, round(share * episodes.num_steps)), episodes.num_steps - 1)
    number = int(np.searchsorted(episodes.action_offsets, border, side="right")) - 1
    within = border - int(episodes.action_offsets[number])
    before, after = list(range(number)), list(range(number + 1, len(episodes)))
    if within == 0:
        return episodes.take(before), episodes.take([number, *after])
    start, end = cut_at(episodes.take([number]), within)
    first = join(episodes.take(before), start) if before else start
    return first, join(end, episodes.take(after)) if after else end


def spread(episodes: Episodes, num_steps: int) -> Episodes:
    """About so many steps of the episodes, in pieces from all over them."""
    if episodes.num_steps <= num_steps:
        return episodes
    size = max(2, num_steps // PIECES)
    pieces = cut(episodes, size)
    # What remains at the end of an episode counts for little.
    pieces = pieces.take(np.flatnonzero(2 * pieces.lengths >= min(size, pieces.lengths.max())))
    count = min(len(pieces), max(1, num_steps * len(pieces) // pieces.num_steps))
    return pieces.take(np.linspace(0, len(pieces) - 1, count).astype(int))


def _counts(parts: Sequence[float | int], num_episodes: int) -> list[int]:
    """Whole numbers of episodes for these shares or counts, by the largest-remainder rule."""
    if any(part <= 0 for part in parts) or not parts:
        raise InputError(f"The parts of a split are {tuple(parts)}: each must be more than 0.")
    if num_episodes < len(parts):
        raise InputError(
            f"{counted(num_episodes, 'episode')} cannot be split into {len(parts)} parts of whole episodes: "
            "give more episodes, or cut long recordings into shorter ones (--cut STEPS)."
        )
    if all(float(part).is_integer() for part in parts) and sum(parts) == num_episodes:
        return [int(part) for part in parts]
    if abs(sum(parts) - 1) > 1e-6:
        raise InputError(
            f"The parts of a split are {tuple(parts)}: give shares that sum to 1, or counts that sum to "
            f"{num_episodes}."
        )
    exact = np.array(parts) * num_episodes
    counts = np.maximum(np.floor(exact + 1e-9).astype(int), 1)
    while counts.sum() < num_episodes:
        counts[np.argmax(exact - counts)] += 1
    while counts.sum() > num_episodes:
        surplus = np.where(counts > 1, counts - exact, -np.inf)
        counts[np.argmax(surplus)] -= 1
    return counts.tolist()
