"""`Recording`: the episodes of one file as they stand in it. What is wrong with them is said here, with its
place."""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from jaxtyping import Float, Int, Num
from numpy import ndarray

from multistep.data.columns import amid
from multistep.data.episodes import Episodes, default_names
from multistep.errors import InputError, counted
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
    """Seconds from each state to the next."""
    num_gaps: int = 0
    """Places where a sample was missing in time, and a new episode starts."""
    episode_ids: tuple[str, ...] = ()
    """What the file calls each of its episodes, if it does; the pieces of one have the same id."""
    numbers: Lengths | None = None
    """Which episode of the file each is, or is a piece of; none: each is a whole one."""
    labels: tuple[str, ...] = ()
    """Where the file itself says that each comes from, if it does."""
    units: Mapping[str, str] = field(default_factory=dict)
    """Of states and actions by their names, where the file gives them."""

    @property
    def action_offsets(self) -> Lengths:
        return np.cumsum(self.lengths) - self.lengths

    @property
    def state_offsets(self) -> Lengths:
        return self.action_offsets + np.arange(len(self.lengths))

    @property
    def own_numbers(self) -> Lengths:
        return np.arange(len(self.lengths)) if self.numbers is None else self.numbers

    def name_of(self, number: int) -> str:
        """What the file calls an episode, or which one of it it is, counted from 0."""
        return self.episode_ids[number] if self.episode_ids else str(self.own_numbers[number])

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
        raise InputError(
            f"Every step of {amid(recording.source)} lacks a value: there is nothing to learn from."
        )
    episodes, firsts, lengths = np.array(pieces).T
    if lengths.sum() == len(recording.actions):
        return recording
    warnings.warn(
        f"{recording.source} lacks values in {len(recording.actions) - lengths.sum()} of "
        f"{len(recording.actions)} steps: its {counted(len(recording.lengths), 'episode')} "
        f"{'is' if len(recording.lengths) == 1 else 'are'} cut there into {len(lengths)}.",
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
        episode_ids=tuple(recording.episode_ids[episode] for episode in episodes if recording.episode_ids),
        numbers=recording.own_numbers[episodes],
        labels=tuple(recording.labels[episode] for episode in episodes if recording.labels),
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
        units={name: unit for recording in recordings for name, unit in recording.units.items()},
        origins=tuple(origin for recording in recordings for origin in _origins(recording)),
    )


def _time_step(recordings: Sequence[Recording]) -> float | None:
    """The usual one, if there is a time column."""
    steps = [recording.time_steps for recording in recordings if recording.time_steps is not None]
    return float(f"{np.median(np.concatenate(steps)):.6g}") if steps else None


def _origins(recording: Recording) -> list[str]:
    """The file of each episode, which one of several it is, and where a later piece of it starts."""
    numbers = recording.own_numbers.tolist()
    is_one, seen, origins = len(set(numbers)) == 1, set(), []
    for place, number in enumerate(numbers):
        origin = recording.source if is_one else f"{recording.source}, episode {recording.name_of(place)}"
        origin = recording.labels[place] if recording.labels else origin
        origins.append(f"{origin}, from row {recording.first_rows[place]}" if number in seen else origin)
        seen.add(number)
    return origins


def check_alike(recordings: Sequence[Recording]) -> None:
    """Raise an `InputError` unless the recordings have the same columns in the same units, and no episode in
    common."""
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
    check_same_units([(recording.source, recording.units) for recording in recordings])


def as_floats(source: str, what: str, values: ndarray, dimensions: int) -> ndarray:
    """The array in single or double precision, or an `InputError` if it does not hold numbers in this
    shape."""
    if values.dtype.kind not in "fiub":
        raise InputError(f"The {what} of {source} are of type {values.dtype}: write them as numbers.")
    if values.ndim != dimensions:
        shape = "(rows, columns)" if dimensions == 2 else "(rows,)"
        raise InputError(f"The {what} of {source} have shape {values.shape}: write them with shape {shape}.")
    if dimensions == 2 and values.shape[1] == 0:
        raise InputError(f"The {what} of {source} have no columns: give at least one.")
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
            f"{recording.source}, row {place} (episode {recording.name_of(episode)}): the {what} "
            f"{names[column]} is empty, NaN or infinite, as {_in_all(int(missing.sum()), what)}: repair "
            f"{'it' if missing.sum() == 1 else 'them'}, or have the episodes cut there (--missing cut)."
        )


def _in_all(missing: int, what: str) -> str:
    return f"no other value of its {what}s is" if missing == 1 else f"are {missing} of its {what}s in all"


def check_same_units(units: Sequence[tuple[str, Mapping[str, str]]]) -> None:
    """Raise an `InputError` if a column has one unit here and another there.

    **Arguments:**

    - `units`: of columns by their names, where they are known, each with the place that says so.
    """
    known: dict[str, tuple[str, str]] = {}
    for place, own in units:
        for name, unit in own.items():
            other, theirs = known.setdefault(name, (place, unit))
            if unit != theirs:
                raise InputError(
                    f"{name} is in {theirs} in {other} but in {unit} in {place}: convert one of them, or use "
                    "them apart."
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


def _joined(arrays: Sequence[ndarray]) -> ndarray:
    return np.concatenate(arrays) if len(arrays) > 1 else arrays[0]


def _columns(values: ndarray, names: Sequence[str], chosen: Sequence[str]) -> ndarray:
    return values if tuple(chosen) == tuple(names) else values[:, [names.index(name) for name in chosen]]
