"""What is known of episodes besides their numbers, as files of our own keep it: time step, units, origins."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from multistep.data.episodes import Episodes
from multistep.data.recording import Recording
from multistep.runs.json_texts import is_list_of


def known_of(episodes: Episodes) -> dict[str, Any]:
    """As plain values; what is not known is left out."""
    facts = {
        "time_step": episodes.time_step,
        "units": dict(episodes.units),
        "origins": list(episodes.origins),
    }
    return {name: value for name, value in facts.items() if value}


def with_known(recording: Recording, facts: Mapping[str, Any]) -> Recording:
    """The recording with what `known_of` has left in its file."""
    step, units, origins = facts.get("time_step"), facts.get("units", {}), facts.get("origins", ())
    # They may be another program's, or damaged: nothing is known then.
    step = step if isinstance(step, int | float) and 0 < step < float("inf") else None
    units = units if isinstance(units, dict) else {}
    origins = origins if is_list_of(str, origins) else ()
    names = (*recording.state_names, *recording.action_names)
    if step and recording.time_steps is None:
        recording = replace(recording, time_steps=np.full(len(recording.actions), float(step)))
    if len(origins) > max(recording.own_numbers):
        recording = replace(recording, labels=tuple(str(origins[n]) for n in recording.own_numbers))
    return replace(
        recording, units={name: str(units[name]) for name in names if name in units} | dict(recording.units)
    )
