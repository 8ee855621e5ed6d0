"""What a run leaves on disk: `config.json`, `rows.csv`, `summary.json`. Figures and tables are drawn from these alone."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl

from multistep.data.atomic import replacing, write_text
from multistep.errors import InputError
from multistep.evaluation import Scores
from multistep.selection.provenance import plain, versions
from multistep.selection.row_log import Row
from multistep.training import Fit


def write_run(out: Path, command: str, config: Any, rows: Sequence[Row] | pl.DataFrame, summary: Mapping[str, Any]) -> None:
    """Leave the three files of a run in `out`; each is whole or not there, the summary comes last."""
    write_json(out / "config.json", {"command": command, "config": plain(config), "versions": versions()})
    write_rows(out / "rows.csv", rows)
    write_json(out / "summary.json", summary)


def check_run(out: Path, command: str) -> None:
    """Refuse a folder of another command."""
    path = out / "config.json"
    if path.exists() and json.loads(path.read_text())["command"] != command:
        raise InputError(f"{out} holds what another command has left: choose another --out.")


def check_study(out: Path, command: str, **settings: Any) -> None:
    """Refuse a folder that holds another study, or this one with other settings: its rows would be mixed up with ours."""
    path = out / "config.json"
    found = json.loads(path.read_text()) if path.exists() else None
    if found and (found["command"] != command or any(found["config"][name] != value for name, value in settings.items())):
        names = " or ".join(settings)
        raise InputError(f"{out} holds another study, or this one with another {names}: choose another --out.")


def open_run(out: Path, command: str, config: Any) -> None:
    """Make the folder that of this command and write its configuration; a folder of another command is refused."""
    check_run(out, command)
    write_json(out / "config.json", {"command": command, "config": plain(config), "versions": versions()})


def score_rows(name: str, scores: Scores) -> list[Row]:
    """One row per horizon: R2 averaged and of each dimension, rollouts and the share of them that diverged."""
    return [
        {
            "model": name,
            "horizon": horizon + 1,
            "r2": float(scores.r2[horizon]),
            "diverged": float(scores.diverged[horizon]),
            "rollouts": int(scores.num_rollouts[horizon]),
            **{
                f"r2_{state}": float(value)
                for state, value in zip(scores.state_names, scores.per_dimension[horizon], strict=True)
            },
        }
        for horizon in range(scores.horizon)
    ]


def score_summary(scores: Scores) -> dict[str, Any]:
    """R2bar at the usual horizons and at the last one, and the share of rollouts that diverged by then."""
    horizons = sorted({h for h in (1, 10, 50, 100) if h <= scores.horizon} | {scores.horizon})
    return {f"r2bar_{h}": scores.r2bar(h) for h in horizons} | {"diverged": float(scores.diverged.max())}


def history_rows(fit: Fit) -> list[Row]:
    """One row per epoch and step ahead."""
    return [
        {
            "epoch": epoch.number,
            "horizon": step + 1,
            "error": error,
            "weight": weight,
            "score": epoch.score,
            "seconds": epoch.seconds,
        }
        for epoch in fit.history
        for step, (error, weight) in enumerate(zip(epoch.errors, epoch.weights, strict=True))
    ]


def fit_summary(fit: Fit) -> dict[str, Any]:
    """How the fit went, in a few numbers."""
    best = fit.best_epoch
    return {
        "outcome": str(fit.outcome),
        "epochs": len(fit.history),
        "best_epoch": None if best is None else best.number,
        "validation_score": None if best is None else best.score,
        "fit_seconds": sum(epoch.seconds for epoch in fit.history),
    }


def write_rows(path: Path, rows: Sequence[Row] | pl.DataFrame) -> None:
    """Write rows as a table; a frame keeps its columns even if it has no rows."""
    frame = rows if isinstance(rows, pl.DataFrame) else pl.DataFrame(list(rows), infer_schema_length=None)
    with replacing(path) as temporary:
        frame.write_csv(temporary)


def write_json(path: Path, value: Any) -> None:
    write_text(path, json.dumps(plain(value), indent=2, allow_nan=False) + "\n")
