"""What a run leaves on disk: `config.json`, `rows.csv`, `summary.json`. Figures and tables are drawn from
these alone."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl

from multistep.runs.atomic import replacing, write_text
from multistep.errors import InputError
from multistep.evaluation import Scores
from multistep.runs.provenance import plain, versions
from multistep.runs.row_log import Row
from multistep.training import Fit


def write_run(
    out: Path, command: str, config: Any, rows: Sequence[Row] | pl.DataFrame, summary: Mapping[str, Any]
) -> None:
    """Leave the three files of a run in `out`; each is whole or not there, the summary comes last."""
    write_json(out / "config.json", {"command": command, "config": plain(config), "versions": versions()})
    write_rows(out / "rows.csv", rows)
    write_json(out / "summary.json", summary)


def check_run(out: Path, command: str) -> None:
    """Refuse a folder of another command: call before the work begins."""
    found = _found(out)
    if found and found["command"] != command:
        raise InputError(f"{out} holds what 'multistep {found['command']}' has left: choose another --out.")


def check_study(out: Path, command: str, **settings: Any) -> None:
    """Refuse a folder that holds another run, or this one with other settings: what is in it would be mixed
    up with ours."""
    found = _found(out)
    if found and (
        found["command"] != command
        or any(found["config"].get(name) != plain(settings[name]) for name in settings)
    ):
        names = " or ".join(settings)
        raise InputError(f"{out} holds another run, or this one with another {names}: choose another --out.")


def open_run(out: Path, command: str, config: Any) -> None:
    """Make the folder that of this command; a folder of another command is refused.

    A configuration that is there stays: it is that of the results beside it, until `write_run` replaces them
    all.
    """
    check_run(out, command)
    if not (out / "config.json").exists():
        write_json(out / "config.json", {"command": command, "config": plain(config), "versions": versions()})


def _found(out: Path) -> dict[str, Any] | None:
    """Command and configuration of the run that the folder holds, if any."""
    path = out / "config.json"
    if not path.exists():
        return None
    try:
        found = json.loads(path.read_text())
        return {"command": str(found["command"]), "config": dict(found["config"])}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(
            f"{path} was not written by multistep, or is damaged: choose another --out."
        ) from error


def score_rows(name: str, scores: Scores) -> list[Row]:
    """One row per horizon: R2 averaged and of each dimension, rollouts and the share of them that
    diverged."""
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
        "horizon": len(fit.history[0].errors) if fit.history else None,
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
