"""Time steps of recordings: files that differ in theirs, and files whose own are uneven."""

import warnings
from collections.abc import Sequence

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from multistep.data.recording import Recording
from multistep.data.resampling import FINEST
from multistep.errors import InputError

OTHER = 0.05
"""Usual time steps that differ by more than this share are not the same."""
UNEVEN = 0.1
"""Time steps of one file that differ by more than this share of the usual one are uneven."""
MOST_NOTES = 5
"""Files that are spoken of one by one."""


def usual_steps(recordings: Sequence[Recording]) -> dict[str, float]:
    """The usual time step of each file that has times."""
    steps: dict[str, list[np.ndarray]] = {}
    for recording in recordings:
        if recording.time_steps is not None and len(recording.time_steps):
            steps.setdefault(recording.source, []).append(recording.time_steps)
    return {source: _usual(np.concatenate(own)) for source, own in steps.items()}


def difference_of_steps(recordings: Sequence[Recording]) -> str | None:
    """Which files have another usual time step than the others, in words; none if none has."""
    usual = usual_steps(recordings)
    if not usual or max(usual.values()) <= (1 + OTHER) * min(usual.values()):
        return None
    most = float(np.median(list(usual.values())))
    common = min(usual.values(), key=lambda step: abs(step - most))
    like = [source for source, step in usual.items() if abs(step / common - 1) <= OTHER]
    unlike = [f"{step:.4g} in {source}" for source, step in usual.items() if source not in like]
    return f"The usual time step is {common:.4g} in {_listed(like)} but {_listed(unlike)}"


def note_different_steps(recordings: Sequence[Recording]) -> None:
    """Warn if the files differ in their usual time steps."""
    if found := difference_of_steps(recordings):
        warnings.warn(
            f"{found}: one model of one step cannot be right for both; resample them or load them apart.",
            stacklevel=3,
        )


def check_equal_steps(
    recordings: Sequence[Recording], every: int | None = None, wanted: float | None = None
) -> None:
    """Raise an `InputError` if the files differ in their usual time steps.

    **Arguments:**

    - `recordings`: as they are in the files.
    - `every`: what the user asks for besides, which the remedy takes the place of.
    - `wanted`: the step of the model that they are for, if there is one.
    """
    if found := difference_of_steps(recordings):
        coarsest = max(usual_steps(recordings).values())
        instead = "" if every is None else f" in place of --every {every}"
        step = coarsest if wanted is None else wanted
        remedy = f"add --resample {step:.4g}{instead}, or " if step >= FINEST * coarsest else ""
        raise InputError(f"{found}: {remedy}use the files apart.")


def note_uneven_steps(recordings: Sequence[Recording], every: int | None = None) -> None:
    """Warn of each file whose time steps are not equal; `every` is as in `check_equal_steps`."""
    instead = "" if every is None else f" in place of --every {every}"
    uneven: dict[str, str] = {}
    for recording in recordings:
        steps = recording.time_steps
        if steps is None or not len(steps):
            continue
        usual, low, high = _usual(steps), float(steps.min()), float(steps.max())
        if high - low > UNEVEN * usual:
            remedy = f"add --resample {usual * (every or 1):.4g}{instead}"
            uneven[recording.source] = f"has uneven steps ({low:.4g} to {high:.4g}): {remedy}"
    for source, what in list(uneven.items())[:MOST_NOTES]:
        warnings.warn(f"{source} {what}.", stacklevel=3)
    if others := list(uneven)[MOST_NOTES:]:
        warnings.warn(f"{_listed(others)} have uneven steps, too: resample them alike.", stacklevel=3)


def _usual(steps: Float[ndarray, " steps"]) -> float:
    """The median, or about the mean where that is something else: of short and long steps in turn the median
    is one of the two."""
    median, mean = float(np.median(steps)), float(np.mean(steps))
    return median if abs(median / mean - 1) <= OTHER else float(f"{mean:.2g}")


def _listed(words: Sequence[str], most: int = 3) -> str:
    """The first of them, and how many others there are."""
    more = len(words) - most
    others = [] if more < 1 else ["another one" if more == 1 else f"{more} others"]
    shown = [*words[:most], *others]
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]}"
