"""Samples that were never taken: a sensor that repeats its last value, or says one and the same wrong one."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int
from numpy import ndarray

from multistep.data.episodes import Episodes

LEAST_FROZEN, LEAST_SAMPLES = 5, 10
"""Equal samples that a frozen piece has at least, and all pieces together."""
LEAST_DROPS = 3
"""So often a wrong value is seen at least."""
CATCHES_UP, DROPS = 2.0, 5.0
"""How large a jump is after a frozen piece, and at both ends of a drop, in units of a usual large step (the
largest in ten that are not zero)."""
MOVES = 0.3
"""Of its usual step, what another state moves by while one is frozen."""


class Frozen(NamedTuple):
    """A state that stays exactly the same for a while, though others move, and jumps after it."""

    name: str
    pieces: int
    samples: int
    """In all pieces."""
    episode: str
    step: int
    """Where the longest piece starts."""

    @property
    def remark(self) -> str:
        times = "once" if self.pieces == 1 else f"{self.pieces} times"
        return (
            f"The state {self.name} is frozen {times}, for {self.samples} samples in all (the longest from "
            f"step {self.step} of {self.episode}): it repeats one value while the rest moves, then jumps: "
            "empty these cells and add --missing cut."
        )


class Drops(NamedTuple):
    """A state that jumps to one and the same value and back."""

    name: str
    value: float
    times: int
    episode: str
    step: int
    """Of the first time."""

    @property
    def remark(self) -> str:
        return (
            f"The state {self.name} jumps to {self.value:.6g} and back {self.times} times (first in step "
            f"{self.step} of {self.episode}), as where a sample is lost: empty these cells and add --missing "
            "cut."
        )


class _Runs(NamedTuple):
    """Stretches of equal values of one column, each within an episode."""

    starts: Int[ndarray, " runs"]
    lengths: Int[ndarray, " runs"]
    values: Float[ndarray, " runs"]
    jumps_in: Float[ndarray, " runs"]
    """From the sample before; 0 at the start of an episode."""
    jumps_out: Float[ndarray, " runs"]
    usual: float
    """The largest of ten steps that are not zero."""


def find_dropouts(episodes: Episodes) -> list[Frozen | Drops]:
    """The states that are frozen for a while, or drop to a value that is none."""
    states = episodes.states.astype(np.float64)
    steps = np.abs(np.diff(states, axis=0))
    steps[episodes.state_offsets[1:] - 1] = 0.0  # from one episode to the next is no step
    found: list[Frozen | Drops] = []
    for column, name in enumerate(episodes.state_names):
        runs = _runs_of(states[:, column], episodes)
        if runs is None:
            continue
        drops = _drops(runs)
        if drops.any():
            first = int(runs.starts[drops][0])
            value, times = float(runs.values[drops][0]), int(drops.sum())
            found.append(Drops(name, value, times, *_place(episodes, first)))
        frozen = _frozen(runs, steps, column) & ~drops
        if runs.lengths[frozen].sum() >= LEAST_SAMPLES:
            lengths, starts = runs.lengths[frozen], runs.starts[frozen]
            place = _place(episodes, int(starts[np.argmax(lengths)]))
            found.append(Frozen(name, int(frozen.sum()), int(lengths.sum()), *place))
    return found


def _runs_of(values: Float[ndarray, " samples"], episodes: Episodes) -> _Runs | None:
    changes = np.diff(values)
    begins = np.ones(len(values), bool)
    begins[1:] = changes != 0
    begins[episodes.state_offsets] = True
    starts = np.flatnonzero(begins)
    ends = np.append(starts[1:], len(values))
    is_first = np.isin(starts, episodes.state_offsets)
    is_last = np.isin(ends, np.append(episodes.state_offsets[1:], len(values)))
    jumps_in = np.where(is_first, 0.0, values[starts] - values[starts - 1])
    jumps_out = np.where(is_last, 0.0, values[np.minimum(ends, len(values) - 1)] - values[starts])
    steps = np.abs(jumps_in[jumps_in != 0])
    if not len(steps):
        return None
    return _Runs(starts, ends - starts, values[starts], jumps_in, jumps_out, float(np.quantile(steps, 0.9)))


def _drops(runs: _Runs) -> Bool[ndarray, " runs"]:
    """Those that jump in, and back by about as much, to the value that most of these have."""
    limit = DROPS * runs.usual
    sides = np.minimum(np.abs(runs.jumps_in), np.abs(runs.jumps_out))
    there_and_back = (sides > limit) & (np.abs(runs.jumps_in + runs.jumps_out) < 0.5 * sides)
    if not there_and_back.any():
        return there_and_back
    seen, counts = np.unique(runs.values[there_and_back], return_counts=True)
    usual = seen[np.argmax(counts)]
    return there_and_back & (runs.values == usual) & (counts.max() >= LEAST_DROPS)


def _frozen(runs: _Runs, steps: Float[ndarray, "steps state"], column: int) -> Bool[ndarray, " runs"]:
    """Those that end in a jump, long enough to show, while another state moves as usual."""
    frozen = (runs.lengths >= LEAST_FROZEN) & (np.abs(runs.jumps_out) > CATCHES_UP * runs.usual)
    others = np.delete(steps, column, axis=1)
    if not frozen.any() or not others.size:
        return frozen
    usual = others.mean(axis=0)
    for place in np.flatnonzero(frozen).tolist():
        own = others[runs.starts[place] : runs.starts[place] + runs.lengths[place] - 1].mean(axis=0)
        # Where nothing moves at all the logger is frozen, or the plant is at rest: the jump decides.
        frozen[place] = bool((own > MOVES * usual).any() or not own.any())
    return frozen


def _place(episodes: Episodes, row: int) -> tuple[str, int]:
    """Which episode a row of the states is in, and in which step of it."""
    number = int(np.searchsorted(episodes.state_offsets, row, side="right")) - 1
    return episodes.origin(number), row - int(episodes.state_offsets[number])
