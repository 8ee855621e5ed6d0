"""`Episodes`: ragged episodes in flat storage."""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int
from numpy import ndarray
from numpy.typing import ArrayLike

from multistep.errors import InputError, counted
from multistep.types import FlatActions, FlatRewards, FlatStates, Lengths


class Episode(NamedTuple):
    """One episode: the states before and after each of its steps, the actions, the rewards if known."""

    states: Float[ndarray, "steps_and_one state"]
    actions: Float[ndarray, "steps action"]
    rewards: Float[ndarray, " steps"] | None = None


@dataclass(frozen=True, eq=False)
class Episodes:
    """Episodes of different lengths, one after the other in flat arrays.

    Episode i has `lengths[i]` steps: that many actions (and rewards) and one state more. Make one with
    `Episodes.of`, which checks what it is given; the fields are not to be written to.
    """

    states: FlatStates
    actions: FlatActions
    lengths: Lengths
    state_names: tuple[str, ...]
    action_names: tuple[str, ...]
    rewards: FlatRewards | None = None
    turns: tuple[float, ...] = ()
    """Of each state the size of one turn in its unit if it is an angle, else 0; none: there are no angles."""
    time_step: float | None = None
    """Seconds from one state to the next, if it is known."""
    units: Mapping[str, str] = field(default_factory=dict)
    """Of states and actions by their names, where the files gave them."""
    origins: tuple[str, ...] = ()
    """Where each episode comes from, for people to read; none: nobody knows."""

    def __repr__(self) -> str:
        rewards = "" if self.rewards is None else ", with rewards"
        return (
            f"Episodes({len(self)} of {self.lengths.min()} to {self.lengths.max()} steps, {self.num_steps} "
            f"in all{rewards}; states {', '.join(self.state_names)}; actions {', '.join(self.action_names)})"
        )

    @staticmethod
    def of(
        episodes: Iterable[tuple[ArrayLike, ArrayLike] | tuple[ArrayLike, ArrayLike, ArrayLike | None]],
        *,
        state_names: Sequence[str] = (),
        action_names: Sequence[str] = (),
    ) -> "Episodes":
        """Checked episodes from (states, actions) or (states, actions, rewards) of each.

        ```python
        episodes = Episodes.of([(states, actions)])    # states (T+1, d), actions (T, a)
        ```
        """
        parts = [
            _checked(number, states, actions, *rewards)
            for number, (states, actions, *rewards) in enumerate(episodes)
        ]
        if not parts:
            raise InputError("There are no episodes: give at least one.")
        _check_alike(parts)
        rewards = [part.rewards for part in parts if part.rewards is not None]
        states = np.concatenate([part.states for part in parts])
        actions = np.concatenate([part.actions for part in parts])
        return Episodes(
            states=states,
            actions=actions,
            rewards=np.concatenate(rewards) if rewards else None,
            lengths=np.array([len(part.actions) for part in parts]),
            state_names=_names(state_names, "state", states.shape[1]),
            action_names=_names(action_names, "action", actions.shape[1]),
        )

    def __len__(self) -> int:
        return len(self.lengths)

    def __getitem__(self, number: int) -> Episode:
        """Episode `number`, as views into the flat arrays."""
        length = self.lengths[number]
        steps = slice(self.action_offsets[number], self.action_offsets[number] + length)
        states = self.states[self.state_offsets[number] : self.state_offsets[number] + length + 1]
        return Episode(states, self.actions[steps], None if self.rewards is None else self.rewards[steps])

    def take(self, numbers: Sequence[int] | Int[ndarray, " chosen"]) -> "Episodes":
        """The episodes with these numbers, in this order."""
        chosen = [self[int(number)] for number in numbers]
        if not chosen:
            raise InputError("There are no episodes in this selection: choose at least one.")
        return replace(
            self,
            states=np.concatenate([episode.states for episode in chosen]),
            actions=np.concatenate([episode.actions for episode in chosen]),
            rewards=None
            if self.rewards is None
            else np.concatenate([e.rewards for e in chosen if e.rewards is not None]),
            lengths=np.array([len(episode.actions) for episode in chosen]),
            origins=tuple(self.origins[int(number)] for number in numbers) if self.origins else (),
        )

    def origin(self, number: int) -> str:
        """Where this episode comes from, as far as it is known."""
        return self.origins[number] if self.origins else f"episode {number}"

    def with_states(self, states: FlatStates) -> "Episodes":
        """The same episodes with other values of the states."""
        assert states.shape == self.states.shape
        return replace(self, states=states)

    @cached_property
    def action_offsets(self) -> Lengths:
        """Where in `actions` and `rewards` each episode starts."""
        return np.cumsum(self.lengths) - self.lengths

    @cached_property
    def state_offsets(self) -> Lengths:
        """Where in `states` each episode starts."""
        return self.action_offsets + np.arange(len(self.lengths))

    @property
    def num_steps(self) -> int:
        return int(self.lengths.sum())

    @property
    def state_size(self) -> int:
        return self.states.shape[1]

    @property
    def action_size(self) -> int:
        return self.actions.shape[1]

    @property
    def returns(self) -> Float[ndarray, " episodes"] | None:
        """Sum of the rewards of each episode."""
        return None if self.rewards is None else np.add.reduceat(self.rewards, self.action_offsets)

    def to_polars(self) -> Any:
        """One data frame: a row per moment with its episode, its time if the step is known, states, actions
        and rewards under their names; the last row of an episode has no action."""
        from multistep.data.frames import to_frame  # which is made of episodes

        return to_frame(self)

    def to_pandas(self) -> Any:
        """The same for pandas, which is not among what multistep needs."""
        from multistep.data.frames import as_pandas

        return as_pandas(self.to_polars())

    def constant_columns(self) -> list[str]:
        """Names of the states and actions that never change."""
        return [
            name
            for names, values in ((self.state_names, self.states), (self.action_names, self.actions))
            for name, spread in zip(names, np.ptp(values, axis=0), strict=True)
            if spread == 0
        ]


def default_names(prefix: str, size: int) -> tuple[str, ...]:
    """Names of columns that nobody has named: `state_0`, `state_1`, ..."""
    return tuple(f"{prefix}_{index}" for index in range(size))


def unit_of(values: Float[ndarray, "rows column"]) -> Float[ndarray, " column"]:
    """Standard deviation of each column, in double precision: what errors in it are measured in.

    1 for a column of equal values, which can come out with a deviation of rounding size: its range is asked
    for.
    """
    return np.where(np.ptp(values, axis=0) > 0, values.std(axis=0, dtype=np.float64), 1.0)


def usual_length(episodes: Episodes) -> int:
    """The largest number of steps that at least half of all steps lie in episodes of."""
    lengths = np.sort(episodes.lengths)[::-1]
    return int(lengths[np.searchsorted(np.cumsum(lengths), lengths.sum() / 2)])


def join(first: Episodes, second: Episodes) -> Episodes:
    """The episodes of both, which have the same columns."""
    both = (first, second)
    rewards = [part.rewards for part in both if part.rewards is not None]
    return replace(
        first,
        states=np.concatenate([part.states for part in both]),
        actions=np.concatenate([part.actions for part in both]),
        rewards=np.concatenate(rewards) if len(rewards) == 2 else None,
        lengths=np.concatenate([part.lengths for part in both]),
        origins=first.origins + second.origins if first.origins and second.origins else (),
    )


def pooled(train: Episodes, valid: Episodes) -> Episodes:
    """The episodes of both, each once: those of `valid` that are among the training episodes are left out.

    Who refits to everything validates on some of it; an episode that were there twice would be in two folds.
    """
    known = {_content(train[number]) for number in range(len(train))}
    new = [number for number in range(len(valid)) if _content(valid[number]) not in known]
    return join(train, valid.take(new)) if new else train


def _content(episode: Episode) -> bytes:
    """A digest of its states and actions."""
    found = hashlib.sha256(episode.states.astype(np.float64).tobytes())
    found.update(episode.actions.astype(np.float64).tobytes())
    return found.digest()


def first_pieces(episodes: Episodes, steps: int) -> Episodes:
    """The first `steps` steps of every episode."""
    pieces = [episodes[number] for number in range(len(episodes))]
    found = Episodes.of(
        [
            Episode(states[: steps + 1], actions[:steps], None if rewards is None else rewards[:steps])
            for states, actions, rewards in pieces
        ],
        state_names=episodes.state_names,
        action_names=episodes.action_names,
    )
    return _like(found, episodes, episodes.origins)


def cut(episodes: Episodes, steps: int) -> Episodes:
    """Every recording cut into shorter episodes; the state at a cut ends one and starts the next.

    What remains at the end of a recording is kept as a shorter episode.
    """
    if steps < 1:
        raise InputError(f"Episodes cannot be cut to {steps} steps: give at least 1.")
    places = [
        (number, start)
        for number in range(len(episodes))
        for start in range(0, episodes.lengths[number], steps)
    ]
    pieces = []
    for number, start in places:
        states, actions, rewards = episodes[number]
        own = None if rewards is None else rewards[start : start + steps]
        pieces.append(Episode(states[start : start + steps + 1], actions[start : start + steps], own))
    found = Episodes.of(pieces, state_names=episodes.state_names, action_names=episodes.action_names)
    origins = tuple(f"{episodes.origin(number)}, from step {start}" for number, start in places)
    return _like(found, episodes, origins)


def cut_at(recording: Episodes, steps: int) -> tuple[Episodes, Episodes]:
    """A single recording until this step, and from it on."""
    states, actions, rewards = recording[0]
    halves = [
        Episode(states[: steps + 1], actions[:steps], None if rewards is None else rewards[:steps]),
        Episode(states[steps:], actions[steps:], None if rewards is None else rewards[steps:]),
    ]
    names = {"state_names": recording.state_names, "action_names": recording.action_names}
    origins = (recording.origin(0), f"{recording.origin(0)}, from step {steps}")
    first, rest = (
        _like(Episodes.of([half], **names), recording, (origin,))
        for half, origin in zip(halves, origins, strict=True)
    )
    return first, rest


def _like(pieces: Episodes, episodes: Episodes, origins: tuple[str, ...]) -> Episodes:
    """Pieces of episodes with what is known of their columns."""
    known = {"turns": episodes.turns, "time_step": episodes.time_step, "units": episodes.units}
    return replace(pieces, **known, origins=origins)


def _checked(number: int, states: ArrayLike, actions: ArrayLike, rewards: ArrayLike | None = None) -> Episode:
    """One episode as floating-point arrays, or an `InputError` that says what is wrong with it."""
    episode = Episode(
        _as_floats(number, "states", states, 2),
        _as_floats(number, "actions", actions, 2),
        None if rewards is None else _as_floats(number, "rewards", rewards, 1),
    )
    num_states, num_actions = len(episode.states), len(episode.actions)
    if num_states != num_actions + 1 or num_actions == 0:
        raise InputError(
            f"Episode {number} has {counted(num_states, 'state')} and {counted(num_actions, 'action')}: it "
            "must have at least one action and exactly one state more than actions (the state before each "
            "action and the last state)."
        )
    if episode.rewards is not None and len(episode.rewards) != num_actions:
        raise InputError(
            f"Episode {number} has {counted(len(episode.rewards), 'reward')} and "
            f"{counted(num_actions, 'action')}: give one per action."
        )
    return episode


def _as_floats(number: int, what: str, values: ArrayLike, dimensions: int) -> ndarray:
    array = np.asarray(values)
    if array.dtype.kind not in "fiub":
        raise InputError(f"The {what} of episode {number} are of type {array.dtype}: they must be numbers.")
    if array.ndim != dimensions:
        shape = "(time, size)" if dimensions == 2 else "(time,)"
        raise InputError(
            f"The {what} of episode {number} have shape {array.shape}: they must have shape {shape}."
        )
    array = array if array.dtype in (np.float32, np.float64) else array.astype(np.float64)
    bad = np.argwhere(~np.isfinite(array))
    if len(bad):
        step, *column = bad[0]
        place = f"step {step}" + (f", column {column[0]}" if column else "")
        raise InputError(
            f"The {what} of episode {number} have {len(bad)} values that are NaN or infinite, the first at "
            f"{place} (counted from 0): remove or repair them."
        )
    return array


def _check_alike(parts: list[Episode]) -> None:
    first = parts[0]
    for number, part in enumerate(parts):
        for what, mine, theirs in (
            ("states", part.states, first.states),
            ("actions", part.actions, first.actions),
        ):
            if mine.shape[1] != theirs.shape[1]:
                raise InputError(
                    f"Episode {number} has {mine.shape[1]} columns of {what}, episode 0 has "
                    f"{theirs.shape[1]}: all episodes must have the same columns."
                )
        if (part.rewards is None) != (first.rewards is None):
            raise InputError(
                f"Episodes 0 and {number} differ in whether they have rewards: give them for all or for none."
            )


def _names(names: Sequence[str], prefix: str, size: int) -> tuple[str, ...]:
    names = tuple(names) or default_names(prefix, size)
    if len(names) != size:
        raise InputError(
            f"There are {len(names)} {prefix} names for {size} columns: give one name per column."
        )
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise InputError(
            f"The {prefix} names {', '.join(twice)} occur more than once: give each column its own name."
        )
    return names
