"""What an engineer reads: free runs over whole records, in the plant's units, the worst record first."""

from pathlib import Path
from typing import Any

import numpy as np

from multistep.data import Episodes
from multistep.dynamics import AbstractDynamics
from multistep.evaluation import FreeRun, free_run, free_run_scores
from multistep.runs.row_log import Row
from multistep.runs.run_folder import write_rows

RUNS, TRACES = "free_runs.csv", "traces.csv"
MOST_SAMPLES = 2000
"""Of a free run that are kept for the figure, from its start."""


def write_free_runs(
    model: AbstractDynamics, linear: AbstractDynamics | None, episodes: Episodes, out: Path
) -> dict[str, Any]:
    """Simulate every episode, leave a row for each and the samples of three of them in `out`, and return what
    the summary says of it; nothing where no episode is long enough."""
    longest = int(episodes.lengths.max())
    if longest < model.num_past:
        return {}
    runs = free_run(model, episodes)
    ranked = sorted(runs, key=lambda run: _relative(run, episodes), reverse=True)
    write_rows(out / RUNS, [_row(run, episodes) for run in ranked])
    shown = _roles(len(ranked)).items()
    rows = [row for role, place in shown for row in _trace(role, ranked[place], episodes)]
    write_rows(out / TRACES, rows)
    summary: dict[str, Any] = {"free_run": _numbers(runs, episodes)}
    if linear is not None and longest >= linear.num_past:
        given = max(model.num_past, linear.num_past)
        summary["free_run_linear"] = _numbers(free_run(linear, episodes, num_past=given), episodes)
    return summary


def _roles(count: int) -> dict[str, int]:
    """Which of so many records, the worst first, are shown."""
    if count == 1:
        return {"record": 0}
    return {"worst": 0, "best": 1} if count == 2 else {"worst": 0, "median": count // 2, "best": count - 1}


def _numbers(runs: tuple[FreeRun, ...], episodes: Episodes) -> dict[str, Any]:
    scores = free_run_scores(runs, episodes.state_names)
    columns = {"rmse": scores.rmse, "nrmse": scores.nrmse, "fit_percent": scores.fit_percent}
    named = {
        what: dict(zip(episodes.state_names, values.tolist(), strict=True))
        for what, values in columns.items()
    }
    units = {name: episodes.units[name] for name in episodes.state_names if name in episodes.units}
    return {**named, "units": units, "r2": scores.r2, "num_past": runs[0].num_past, "records": len(runs)}


def _relative(run: FreeRun, episodes: Episodes) -> float:
    """Mean over the outputs of the error as a share of each one's deviation in all episodes."""
    deviation = np.asarray(episodes.states, np.float64).std(axis=0)
    return (
        float(np.mean(run.rmse[deviation > 0] / deviation[deviation > 0])) if (deviation > 0).any() else 0.0
    )


def _row(run: FreeRun, episodes: Episodes) -> Row:
    errors = dict(zip(episodes.state_names, run.rmse.tolist(), strict=True))
    return {
        "record": episodes.origin(run.episode),
        "steps": len(run.measured),
        "seconds": None if episodes.time_step is None else len(run.measured) * episodes.time_step,
        "error_of_deviation": _relative(run, episodes),
        **{f"rmse_{name}": error for name, error in errors.items()},
    }


def _trace(role: str, run: FreeRun, episodes: Episodes) -> list[Row]:
    """One row per sample and output."""
    step = episodes.time_step
    return [
        {
            "role": role,
            "record": episodes.origin(run.episode),
            "sample": run.num_past + sample,
            "time": None if step is None else step * (run.num_past + sample),
            "output": name,
            "unit": episodes.units.get(name),
            "measured": float(run.measured[sample, column]),
            "predicted": float(run.predicted[sample, column]),
        }
        for column, name in enumerate(episodes.state_names)
        for sample in range(min(len(run.measured), MOST_SAMPLES))
    ]
