"""Rows of a fit: its history and how it went."""

from typing import Any

from multistep.runs.row_log import Row
from multistep.training.base import Fit


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
        "horizon": fit.history[-1].horizon if fit.history else None,
        "epochs": len(fit.history),
        "best_epoch": None if best is None else best.number,
        "validation_score": None if best is None else best.score,
        "fit_seconds": sum(epoch.seconds for epoch in fit.history),
    }
