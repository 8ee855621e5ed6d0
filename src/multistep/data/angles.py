"""Angles: states that turn, unwrapped where a sensor jumps by one turn."""

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from multistep.data.episodes import Episodes
from multistep.data.recording import Recording
from multistep.errors import InputError

TURNS = {"rad": 2 * math.pi, "deg": 360.0}
JUMP, SPARE = 0.25, 0.1
"""A jump is one turn if it is off by less than this share of it; the angles may exceed one by that share."""


def with_angles(episodes: Episodes, angles: Sequence[str]) -> Episodes:
    """The episodes, with these states known to be angles and unwrapped: no jumps where a turn is complete.

    A model then sees their sine and cosine, and predicts their change; scores and files stay in the column's
    own unit.

    **Arguments:**

    - `episodes`: wrapped or not.
    - `angles`: names of states; `theta` is in radians, `theta:deg` in degrees.
    """
    if not angles:
        return episodes  # not a copy of what may be gigabytes
    turns = turns_of(episodes.state_names, angles)
    return replace(episodes, states=_unwrapped(episodes, turns), turns=turns)


def unwrap(recording: Recording, angles: Sequence[str]) -> Recording:
    """The recording with these states unwrapped, before samples of it are left out or interpolated.

    Between a sample just short of a full turn and one just past it there is no half turn, and whoever keeps
    every tenth sample of a wheel can no longer count its turns. The words for angles are those of
    `with_angles`.
    """
    return replace(recording, states=_unwrapped(recording, turns_of(recording.state_names, angles)))


def turns_of(state_names: Sequence[str], angles: Sequence[str]) -> tuple[float, ...]:
    """Of each state the size of one turn in its unit if it is among the angles, else 0; none without
    angles."""
    if not angles:
        return ()
    turns = dict.fromkeys(state_names, 0.0)
    for word in angles:
        name, _, unit = word.partition(":")
        if name not in turns or (unit or "rad") not in TURNS:
            known = ", ".join(state_names)
            raise InputError(
                f"There is no angle {word}: write NAME or NAME:deg with a name out of the states {known}."
            )
        turns[name] = TURNS[unit or "rad"]
    return tuple(turns.values())


def wrapped_angles(episodes: Episodes) -> list[str]:
    """States that look like wrapped angles but are not known to be, as `with_angles` takes them.

    They jump by one turn, again and again, and stay within one.
    """
    within = np.ones(len(episodes.states) - 1, bool)
    within[episodes.state_offsets[1:] - 1] = False  # from one episode to the next is no jump
    known = episodes.turns or (0.0,) * episodes.state_size
    found = []
    for name, values, turn in zip(episodes.state_names, episodes.states.T, known, strict=True):
        values = values.astype(float)
        jumps, width = np.abs(np.diff(values))[within], float(np.nanmax(values) - np.nanmin(values))
        for unit, size in TURNS.items():
            whole = np.abs(jumps - size) < JUMP * size
            between = (jumps > 0.3 * size) & ~whole
            if not turn and width < (1 + SPARE) * size and whole.sum() > max(1, 10 * between.sum()):
                found.append(name if unit == "rad" else f"{name}:deg")
    return found


def remark_on(angle: str) -> str:
    """What to do about a state that `wrapped_angles` has found."""
    name = angle.partition(":")[0]
    return f"{name} jumps by one turn, again and again: if it is an angle, add --angles {angle}."


def _unwrapped(episodes: Episodes | Recording, turns: tuple[float, ...]) -> np.ndarray:
    dtype = episodes.states.dtype
    states = episodes.states.astype(dtype if dtype.kind == "f" else float)
    for column, turn in enumerate(turns):
        if turn:
            for first, length in zip(episodes.state_offsets, episodes.lengths, strict=True):
                own = states[first : first + length + 1, column]
                known = np.isfinite(own)  # what is missing stays so, and is said later with its place
                own[known] = np.unwrap(own[known].astype(float), period=turn)
    return states
