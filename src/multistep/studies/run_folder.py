"""What a run leaves on disk: `config.json`, `rows.csv`, `summary.json`. Figures and tables are drawn from these alone."""

import json
import math
import platform
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import polars as pl

from multistep.data.atomic import replacing, write_text
from multistep.evaluation import Scores
from multistep.losses import AbstractWeights, describe_weights
from multistep.training import Fit

Row = Mapping[str, Any]


def write_run(out: Path, command: str, config: Any, rows: Sequence[Row], summary: Mapping[str, Any]) -> None:
    """Leave the three files of a run in `out`; each is whole or not there, the summary comes last."""
    write_json(out / "config.json", {"command": command, "config": plain(config), "versions": versions()})
    write_rows(out / "rows.csv", rows)
    write_json(out / "summary.json", summary)


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


def write_rows(path: Path, rows: Sequence[Row]) -> None:
    with replacing(path) as temporary:
        pl.DataFrame(list(rows), infer_schema_length=None).write_csv(temporary)


def write_json(path: Path, value: Any) -> None:
    write_text(path, json.dumps(plain(value), indent=2, allow_nan=False) + "\n")


def plain(value: Any) -> Any:
    """The value in terms of JSON; numbers that JSON has no word for become the words inf, -inf and nan."""
    if isinstance(value, AbstractWeights):
        return describe_weights(value)
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, Path):
        return value.as_posix()
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value


def versions() -> dict[str, str | None]:
    """Versions of what decides the numbers, and the commit where this is a checkout."""
    packages = {name: version(name) for name in ("multistep", "jax", "jaxlib", "equinox", "optax", "numpy")}
    return {"python": platform.python_version(), **packages, "commit": _commit()}


def _commit() -> str | None:
    source = Path(__file__).resolve().parents[3]
    if not (source / ".git").exists():
        return None
    try:
        answer = subprocess.run(["git", "-C", source, "rev-parse", "HEAD"], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    return answer.stdout.strip()
