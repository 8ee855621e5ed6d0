"""Recordings at another rate: every so many samples, or at equal times."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from jaxtyping import Float, Num
from numpy import ndarray

from multistep.data.recording import Recording
from multistep.errors import InputError

FINEST = 0.5
"""A step shorter than this share of the usual one would make samples up."""
SAME_STEP = 0.01
"""Time steps that differ by less than this share are the same."""


def is_same_step(one: float | None, other: float | None) -> bool:
    """Whether two time steps are the same; what is not known may well be."""
    return one is None or other is None or abs(other / one - 1) < SAME_STEP


def way_to_step(own: float, wanted: float) -> str:
    """The option that makes samples so far apart of those with their own step; none where they would be made
    up."""
    times = wanted / own
    is_whole = times > 1 and abs(times - round(times)) < SAME_STEP
    if times < FINEST:
        return ""
    return f"--every {round(times)}" if is_whole else f"--resample {wanted:g}"


def every(recording: Recording, count: int) -> Recording:
    """Each `count`-th sample of every episode; an action is that of the sample that is kept."""
    if count < 1:
        raise InputError(f"Every {count} samples cannot be kept: give 1 or more.")
    kept = [np.arange(0, length + 1, count) for length in recording.lengths]
    return _sampled(recording, kept, f"keeping every {count} samples")


def resample(recording: Recording, step: float) -> Recording:
    """Samples at equal times: states by linear interpolation, actions as they were last set.

    **Arguments:**

    - `recording`: with a time column; where samples are missing a new episode has started already.
    - `step`: the seconds from one sample to the next.
    """
    if not step > 0:
        raise InputError(f"A time step of {step:g} cannot be resampled to: give a number above 0.")
    if recording.time_steps is None:
        raise InputError(
            f"{recording.source} has no known times to resample by: name its time column (--time)."
        )
    usual = float(np.median(recording.time_steps))
    if step < FINEST * usual:
        raise InputError(
            f"{recording.source} has a sample every {usual:.4g}: resampling to {step:g} would make samples "
            f"up; give {usual:.4g} or more."
        )
    times = [
        np.concatenate([[0.0], np.cumsum(recording.time_steps[start : start + length])])
        for start, length in zip(recording.action_offsets, recording.lengths, strict=True)
    ]
    # A time that rounding has put a hair past the last sample still counts.
    grids = [step * np.arange(int(np.floor(own[-1] / step + 1e-6)) + 1) for own in times]
    places = [np.interp(grid, own, np.arange(len(own))) for grid, own in zip(grids, times, strict=True)]
    found = _sampled(recording, places, f"resampling to {step:g}")
    return replace(found, time_steps=np.full(len(found.actions), step))


def _sampled(recording: Recording, places: Sequence[Num[ndarray, " _"]], doing: str) -> Recording:
    """The recording at these places of each episode, counted in samples, which need not be whole."""
    kept = [number for number, own in enumerate(places) if len(own) > 1]
    if not kept:
        raise InputError(
            f"No episode of {recording.source} is long enough for {doing}: each would be one sample; ask for "
            "a shorter step."
        )
    states, actions, rewards, steps = [], [], [], []
    for number in kept:
        own, first = places[number], recording.state_offsets[number]
        before = np.floor(own + 1e-9).astype(int)
        after = np.minimum(before + 1, recording.lengths[number])
        share = np.clip(own - before, 0, 1)[:, None]
        values = recording.states
        states.append((1 - share) * values[first + before] + share * values[first + after])
        held = recording.action_offsets[number] + before[:-1]
        actions.append(recording.actions[held])
        if recording.rewards is not None:
            ends = [*before[1:-1], min(before[-1], recording.lengths[number])]
            start = recording.action_offsets[number]
            rewards.append(
                [
                    recording.rewards[start + low : start + max(high, low + 1)].sum()
                    for low, high in zip(before[:-1], ends, strict=True)
                ]
            )
        if recording.time_steps is not None:
            own_times = np.concatenate([[0.0], np.cumsum(_of_episode(recording, number))])
            steps.append(np.diff(np.interp(own, np.arange(len(own_times)), own_times)))
    ids, labels = recording.episode_ids, recording.labels
    dtype = recording.states.dtype
    return replace(
        recording,
        states=np.concatenate(states).astype(dtype if dtype.kind == "f" else float),
        actions=np.concatenate(actions),
        lengths=np.array([len(own) for own in actions]),
        first_rows=recording.first_rows[kept],
        first_action_rows=None if recording.first_action_rows is None else recording.first_action_rows[kept],
        rewards=None if recording.rewards is None else np.concatenate(rewards),
        time_steps=None if recording.time_steps is None else np.concatenate(steps),
        episode_ids=tuple(ids[number] for number in kept if ids),
        numbers=recording.own_numbers[kept],
        labels=tuple(labels[number] for number in kept if labels),
    )


def _of_episode(recording: Recording, number: int) -> Float[ndarray, " steps"]:
    assert recording.time_steps is not None
    start = recording.action_offsets[number]
    return recording.time_steps[start : start + recording.lengths[number]]
