"""Rows of scores."""

from typing import Any

from multistep.evaluation.calibration import Calibration
from multistep.evaluation.r2 import Scores
from multistep.runs.row_log import Row


def score_rows(name: str, scores: Scores) -> list[Row]:
    """One row per horizon: R2 averaged and of each dimension, rollouts and the share of them that diverged,
    and the error of each dimension in its unit."""
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
            **_errors(scores, horizon),
        }
        for horizon in range(scores.horizon)
    ]


def _errors(scores: Scores, horizon: int) -> Row:
    if scores.rmse is None:
        return {}
    pairs = zip(scores.state_names, scores.rmse[horizon].tolist(), strict=True)
    return {f"rmse_{state}": error for state, error in pairs}


def score_summary(scores: Scores) -> dict[str, Any]:
    """R2bar at the usual horizons and at the last one, and the share of rollouts that diverged by then."""
    horizons = sorted({h for h in (1, 10, 50, 100) if h <= scores.horizon} | {scores.horizon})
    return {f"r2bar_{h}": scores.r2bar(h) for h in horizons} | {"diverged": float(scores.diverged.max())}


def calibration_rows(found: Calibration) -> list[Row]:
    """One row per step ahead and state: coverage and width of each interval, and the proper scores."""
    return [
        {
            "horizon": step + 1,
            "state": name,
            **{f"coverage_{round(100 * share)}": float(at[step, n]) for share, at in found.coverage.items()},
            **{f"width_{round(100 * share)}": float(at[step, n]) for share, at in found.width.items()},
            "crps": float(found.crps[step, n]),
            "log_likelihood": float(found.log_likelihood[step, n]),
            "energy_of_all": float(found.energy[step]),
        }
        for step in range(found.horizon)
        for n, name in enumerate(found.state_names)
    ]
