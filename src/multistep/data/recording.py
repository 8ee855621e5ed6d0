"""`Recording`: the episodes of one file as they stand in it. What is wrong with them is said here, with its
place."""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from jaxtyping import Float, Int, Num
from numpy import ndarray

from multistep.data.episodes import Episodes, default_names
from multistep.errors import InputError
from multistep.types import Lengths


@dataclass(frozen=True, eq=False)
class Recording:
    """The episodes of one file in flat arrays, like `Episodes`, but with NaN where a value is missing."""

    source: str
    """The file, as the user named it."""
    states: Num[ndarray, "all_states state"]
    actions: Num[ndarray, "all_steps action"]
    lengths: Lengths
    state_names: tuple[str, ...]
    action_names: tuple[str, ...]
    first_rows: Lengths
    """Where in the file the states of each episode start, for messages: counted from 1 in a table, from 0 in
    an array."""
    first_action_rows: Lengths | None = None
    """The same for actions and rewards, where they do not stand in the same rows as the states."""
    rewards: Num[ndarray, " all_steps"] | None = None
    time_steps: Float[ndarray, " all_steps"] | None = None
    """Seconds (or whatever the time column counts) from each state to the next."""
    num_gaps: int = 0
    """Places where a sample was missing in time, and a new episode starts."""
    episode_ids: tuple[str, ...] = ()
    """What the file calls its episodes, if it does."""
    units: Mapping[str, str] = field(default_factory=dict)
    """Of states and actions by their names, where the file gives them."""

    @property
    def action_offsets(self) -> Lengths:
        return np.cumsum(self.lengths) - self.lengths

    @property
    def state_offsets(self) -> Lengths:
        return self.action_offsets + np.arange(len(self.lengths))

    def pick(self, states: Sequence[str], actions: Sequence[str]) -> "Recording":
        """The same with these columns only, in this order; all of them where none are named."""
        chosen_states, chosen_actions = tuple(states) or self.state_names, tuple(actions) or self.action_names
        for wanted, there in ((chosen_states, self.state_names), (chosen_actions, self.action_names)):
            absent = [name for name in wanted if name not in there]
            if absent:
                raise InputError(
                    f"{self.source} has no column {', '.join(absent)}; it has {', '.join(there)}."
                )
            if len(set(wanted)) < len(wanted):
                raise InputError(
                    f"A column of {self.source} is named more than once ({', '.join(wanted)}): name it once."
                )
        return replace(
            self,
            states=_columns(self.states, self.state_names, chosen_states),
            actions=_columns(self.actions, self.action_names, chosen_actions),
            state_names=chosen_states,
            action_names=chosen_actions,
        )


def cut_at_missing(recording: Recording) -> Recording:
    """The same without the steps that lack a value; what is left of an episode between them is an episode
    each."""
    pieces = [piece for episode in range(len(recording.lengths)) for piece in _pieces(recording, episode)]
    if not pieces:
        raise InputError(f"Every step of {recording.source} lacks a value: there is nothing to learn from.")
    episodes, firsts, lengths = np.array(pieces).T
    if lengths.sum() == len(recording.actions):
        return recording
    warnings.warn(
        f"{recording.source} lacks values in {len(recording.actions) - lengths.sum()} of "
        f"{len(recording.actions)} steps: its "
        f"{len(recording.lengths)} episodes are cut there into {len(lengths)}.",
        stacklevel=2,
    )
    states = _ranges(recording.state_offsets[episodes] + firsts, lengths + 1)
    steps = _ranges(recording.action_offsets[episodes] + firsts, lengths)
    action_rows = recording.first_action_rows
    return replace(
        recording,
        states=recording.states[states],
        actions=recording.actions[steps],
        lengths=lengths,
        first_rows=recording.first_rows[episodes] + firsts,
        first_action_rows=None if action_rows is None else action_rows[episodes] + firsts,
        rewards=None if recording.rewards is None else recording.rewards[steps],
        time_steps=None if recording.time_steps is None else recording.time_steps[steps],
    )


def as_episodes(recordings: Sequence[Recording]) -> Episodes:
    """The episodes of all files, one after the other, if every value is a finite number."""
    first = recordings[0]
    for recording in recordings:
        _check_numbers(recording)
    return Episodes(
        states=_joined([recording.states for recording in recordings]),
        actions=_joined([recording.actions for recording in recordings]),
        lengths=np.concatenate([recording.lengths for recording in recordings]),
        state_names=first.state_names,
        action_names=first.action_names,
        rewards=None
        if first.rewards is None
        else _joined([r.rewards for r in recordings if r.rewards is not None]),
        time_step=_time_step(recordings),
        units=dict(first.units),
        origins=tuple(origin for recording in recordings for origin in _origins(recording)),
    )


def _time_step(recordings: Sequence[Recording]) -> float | None:
    """The usual one, if there is a time column."""
    steps = [recording.time_steps for recording in recordings if recording.time_steps is not None]
    return float(f"{np.median(np.concatenate(steps)):.6g}") if steps else None


def _origins(recording: Recording) -> list[str]:
    """The file of each episode, and which one it is if there are several."""
    count = len(recording.lengths)
    if count == 1:
        return [recording.source]
    ids = recording.episode_ids if len(recording.episode_ids) == count else range(count)
    return [f"{recording.source}, episode {name}" for name in ids]


def check_alike(recordings: Sequence[Recording]) -> None:
    """Raise an `InputError` unless the recordings have the same columns and no episode in common."""
    first = recordings[0]
    for recording in recordings:
        if (recording.state_names, recording.action_names) != (first.state_names, first.action_names):
            raise InputError(
                f"{recording.source} and {first.source} have different columns: load them apart or name the "
                "columns to use."
            )
        if (recording.rewards is None) != (first.rewards is None):
            raise InputError(
                f"Only one of {first.source} and {recording.source} has rewards: load them apart."
            )
    _check_ids(recordings)
    _note_different_time_steps(recordings)


def as_floats(source: str, what: str, values: ndarray, dimensions: int) -> ndarray:
    """The array in single or double precision, or an `InputError` if it does not hold numbers in this
    shape."""
    if values.dtype.kind not in "fiub":
        raise InputError(f"The {what} of {source} are of type {values.dtype}: write them as numbers.")
    if values.ndim != dimensions:
        shape = "(rows, columns)" if dimensions == 2 else "(rows,)"
        raise InputError(f"The {what} of {source} have shape {values.shape}: write them with shape {shape}.")
    return values if values.dtype in (np.float32, np.float64) else values.astype(np.float64)


def column_names(source: str, given: Sequence[object], what: str, size: int) -> tuple[str, ...]:
    """The names if there are any, `state_0`, `state_1`, ... if there are none."""
    if not all(isinstance(name, str) for name in given):
        raise InputError(f"{source} has {what} names that are not text: write them as text.")
    names = tuple(map(str, given)) or default_names(what, size)
    if len(names) != size or len(set(names)) != size:
        raise InputError(
            f"{source} has the {what} names {', '.join(names)} for {size} columns: give each column its own "
            "name."
        )
    return names


def _pieces(recording: Recording, episode: int) -> list[tuple[int, int, int]]:
    """Episode, first step and length of its longest pieces that lack nothing."""
    state, step, length = (
        recording.state_offsets[episode],
        recording.action_offsets[episode],
        recording.lengths[episode],
    )
    known = np.all(np.isfinite(recording.states[state : state + length + 1]), axis=1)
    whole = known[:-1] & known[1:] & np.all(np.isfinite(recording.actions[step : step + length]), axis=1)
    if recording.rewards is not None:
        whole &= np.isfinite(recording.rewards[step : step + length])
    edges = np.flatnonzero(np.diff(whole, prepend=False, append=False)).tolist()
    return [(episode, start, end - start) for start, end in zip(edges[::2], edges[1::2], strict=True)]


def _ranges(firsts: Lengths, lengths: Lengths) -> Int[ndarray, " all"]:
    """The whole numbers from each of these, as many as asked."""
    return np.concatenate(
        [np.arange(first, first + length) for first, length in zip(firsts, lengths, strict=True)]
    )


def _check_numbers(recording: Recording) -> None:
    for what, values, offsets, names in (
        ("state", recording.states, recording.state_offsets, recording.state_names),
        ("action", recording.actions, recording.action_offsets, recording.action_names),
        ("reward", recording.rewards, recording.action_offsets, ("reward",)),
    ):
        # Smallest and largest are finite only if all are, and finding them takes no memory.
        if values is None or values.size == 0 or np.isfinite([values.min(), values.max()]).all():
            continue
        missing = ~np.isfinite(values.reshape(len(values), -1))
        row, column = np.argwhere(missing)[0]
        episode = int(np.searchsorted(offsets, row, side="right")) - 1
        action_rows = (
            recording.first_rows if recording.first_action_rows is None else recording.first_action_rows
        )
        place = (recording.first_rows if what == "state" else action_rows)[episode] + row - offsets[episode]
        raise InputError(
            f"{recording.source}, row {place} (episode {episode}): the {what} {names[column]} is empty, NaN "
            f"or infinite, as are {missing.sum()} values of its {what}s in all: repair them, or have the "
            "episodes cut there (--missing cut)."
        )


def _check_ids(recordings: Sequence[Recording]) -> None:
    owner: dict[str, str] = {}
    for recording in recordings:
        for name in recording.episode_ids:
            if owner.setdefault(name, recording.source) != recording.source:
                raise InputError(
                    f"Episode {name} is in {owner[name]} and in {recording.source}: give each an id of its "
                    "own, or leave out the episode column if each file is one episode."
                )


def _note_different_time_steps(recordings: Sequence[Recording]) -> None:
    usual = [
        float(np.median(r.time_steps)) for r in recordings if r.time_steps is not None and len(r.time_steps)
    ]
    if usual and max(usual) > 1.1 * min(usual):
        shortest, longest = recordings[int(np.argmin(usual))].source, recordings[int(np.argmax(usual))].source
        warnings.warn(
            f"The usual time step is {min(usual):.4g} in {shortest} but {max(usual):.4g} in {longest}: one "
            "model of one step cannot be right for both; resample them or load them apart.",
            stacklevel=2,
        )


def _joined(arrays: Sequence[ndarray]) -> ndarray:
    return np.concatenate(arrays) if len(arrays) > 1 else arrays[0]


def _columns(values: ndarray, names: Sequence[str], chosen: Sequence[str]) -> ndarray:
    return values if tuple(chosen) == tuple(names) else values[:, [names.index(name) for name in chosen]]
