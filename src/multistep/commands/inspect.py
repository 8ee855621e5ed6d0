"""`multistep inspect`: what is in files with episodes, before a model is fitted to them."""

import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import tyro
from jaxtyping import Num
from numpy import ndarray

from multistep.commands.source import Source, read_recordings
from multistep.data import (
    Episodes,
    Recording,
    as_episodes,
    cut_at_missing,
    note_different_steps,
    note_uneven_steps,
    remarks_on,
    with_angles,
    wrapped_angles,
)
from multistep.data.noise_estimate import estimate_noise
from multistep.errors import InputError
from multistep.runs.row_log import Row
from multistep.runs.run_folder import check_run, write_rows, write_run

NUM_TRAJECTORIES = 3
TRAJECTORY_POINTS = 500

COMMAND = "inspect"


@dataclass(frozen=True)
class InspectConfig:
    """Say what is in files with episodes, and draw it."""

    source: Annotated[Source, tyro.conf.arg(name="")]
    """Where the episodes are."""
    out: Path = Path("runs/inspect")
    """Folder for the rows and the figure."""


def run_inspect(config: InspectConfig) -> dict[str, Any]:
    """Inspect, leave the rows in `config.out` and return the summary."""
    check_run(config.out, COMMAND)
    recordings = read_recordings(config.source)
    note_different_steps(recordings)
    note_uneven_steps(recordings)
    column_rows, episode_rows = _column_rows(recordings), _episode_rows(recordings)
    lengths = np.array([row["length"] for row in episode_rows])
    returns = np.array(
        [row["return"] for row in episode_rows if row["return"] is not None and np.isfinite(row["return"])]
    )
    summary = {
        "files": len({recording.source for recording in recordings}),
        "episodes": len(lengths),
        "steps": int(lengths.sum()),
        "shortest": int(lengths.min()),
        "longest": int(lengths.max()),
        "missing": sum(row["missing"] for row in column_rows),
        "return_mean": float(returns.mean()) if len(returns) else None,
        "return_deviation": float(returns.std()) if len(returns) else None,
        "time": _time_summary(recordings),
        "wrapped_angles": _wrapped_angles(recordings),
        "remarks": _remarks(recordings, config.source.columns.angles),
    }
    write_rows(config.out / "episodes.csv", episode_rows)
    write_rows(config.out / "trajectories.csv", _trajectory_rows(recordings))
    write_run(config.out, COMMAND, config, column_rows, summary)
    return summary


def _wrapped_angles(recordings: list[Recording]) -> list[str]:
    first = recordings[0]
    states, actions, lengths = (
        np.concatenate([getattr(recording, name) for recording in recordings])
        for name in ("states", "actions", "lengths")
    )
    finite = np.isfinite(states).any(axis=0).all()
    return (
        wrapped_angles(Episodes(states, actions, lengths, first.state_names, first.action_names))
        if finite
        else []
    )


def _remarks(recordings: list[Recording], angles: tuple[str, ...]) -> list[str]:
    """What is odd about the steps that lack nothing."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what is missing is counted anyway
        try:
            whole = as_episodes([cut_at_missing(recording) for recording in recordings])
        except InputError:  # nothing is whole
            return []
    return remarks_on(with_angles(whole, angles))


def _column_rows(recordings: list[Recording]) -> list[Row]:
    """One row per state, action and reward: its range, what is missing, and what is odd about it."""
    first = recordings[0]
    states, actions = (
        np.concatenate([getattr(r, name) for r in recordings]) for name in ("states", "actions")
    )
    lengths = np.concatenate([recording.lengths for recording in recordings])
    noise = [
        *estimate_noise(states.astype(float), actions.astype(float), lengths),
        *[None] * actions.shape[1],
    ]
    last_states = np.cumsum(lengths + 1) - 1
    units = {name: unit for recording in recordings for name, unit in recording.units.items()}
    columns = [("state", name, values) for name, values in zip(first.state_names, states.T, strict=True)]
    columns += [("action", name, values) for name, values in zip(first.action_names, actions.T, strict=True)]
    rows = []
    for (kind, name, values), deviation in zip(columns, noise, strict=True):
        others = [column for column in columns if (kind, name) != column[:2]]
        twins = [other for what, other, theirs in others if _same(kind, values, what, theirs, last_states)]
        rows.append({**_column_row(kind, name, values, twins, deviation), "unit": units.get(name)})
    rewards = [recording.rewards for recording in recordings if recording.rewards is not None]
    if rewards:
        row = _column_row("reward", "reward", np.concatenate(rewards), [], None)
        rows.append({**row, "unit": None})
    return rows


def _column_row(
    kind: str, name: str, values: Num[ndarray, " rows"], twins: list[str], noise: float | None
) -> Row:
    finite = values[np.isfinite(values)].astype(np.float64)
    low, high = (float(finite.min()), float(finite.max())) if len(finite) else (float("nan"), float("nan"))
    return {
        "kind": kind,
        "name": name,
        "missing": len(values) - len(finite),
        "lowest": low,
        "highest": high,
        "mean": float(finite.mean()) if len(finite) else float("nan"),
        "deviation": float(finite.std()) if len(finite) else float("nan"),
        "constant": low == high,
        "same_as": " ".join(twins),
        "noise": None if noise is None else float(noise),
        "noise_of_range": None if noise is None or not high > low else float(noise) / (high - low),
    }


def _same(kind: str, mine: ndarray, other_kind: str, theirs: ndarray, last_states: ndarray) -> bool:
    """Whether two columns hold the same numbers; a state is compared with an action up to its episode's last
    step."""
    if kind != other_kind:
        mine, theirs = (
            np.delete(v, last_states) if k == "state" else v for k, v in ((kind, mine), (other_kind, theirs))
        )
    return bool(mine[0] == theirs[0]) and np.array_equal(mine, theirs, equal_nan=True)


def _episode_rows(recordings: list[Recording]) -> list[Row]:
    return [
        {
            "file": recording.source,
            "first_row": int(recording.first_rows[number]),
            "length": int(length),
            "return": None
            if recording.rewards is None
            else float(recording.rewards[start : start + length].sum()),
        }
        for recording in recordings
        for number, (start, length) in enumerate(
            zip(recording.action_offsets, recording.lengths, strict=True)
        )
    ]


def _time_summary(recordings: list[Recording]) -> dict[str, float | int] | None:
    steps = [recording.time_steps for recording in recordings if recording.time_steps is not None]
    if not steps:
        return None
    every = np.concatenate(steps)
    return {
        "usual_step": float(np.median(every)),
        "shortest_step": float(every.min()),
        "longest_step": float(every.max()),
        "gaps": sum(recording.num_gaps for recording in recordings),
    }


def _trajectory_rows(recordings: list[Recording]) -> list[Row]:
    """States and actions along a few episodes, thinned out to what a figure can show."""
    places = [(recording, number) for recording in recordings for number in range(len(recording.lengths))]
    chosen = sorted({int(at) for at in np.linspace(0, len(places) - 1, NUM_TRAJECTORIES)})
    rows = []
    for at in chosen:
        recording, number = places[at]
        length = int(recording.lengths[number])
        first_state, first_action = recording.state_offsets[number], recording.action_offsets[number]
        for step in range(0, length, -(-length // TRAJECTORY_POINTS)):
            values = [*recording.states[first_state + step], *recording.actions[first_action + step]]
            # Columns by number, in the order of the rows of `rows.csv`: names may be anything, also the same
            # twice.
            rows.append(
                {"episode": at, "step": step}
                | {f"column_{n}": float(value) for n, value in enumerate(values)}
            )
    return rows
