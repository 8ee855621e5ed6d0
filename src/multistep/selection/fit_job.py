"""`FitJob`: one fit of a sweep, on one fold, and its row."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import jax
import numpy as np

from multistep.data import Episodes
from multistep.evaluation import R2Bar, Scores, score
from multistep.runs.provenance import digest, plain
from multistep.runs.row_log import Row
from multistep.runs.sweep import AbstractJob
from multistep.selection.fit import VALIDATION_HORIZON
from multistep.selection.folds import Fold
from multistep.training import AbstractRecipe, Fit, Outcome

SCORING_WORK = 40  # what validation after an epoch costs, in steps ahead of training, about


@dataclass(frozen=True)
class FitJob(AbstractJob):
    """Train with this configuration on a fold, score on its test episodes."""

    data: str
    """Name of the episodes: a digest of their content."""
    config: AbstractRecipe
    fold: Fold
    seed: int
    """Seed of the training; each fold has a key of its own from it."""
    score_horizon: int
    names: Mapping[str, Any] = field(default_factory=dict)
    """What else the row should be called: a dataset, a noise scale."""

    @property
    def work(self) -> float:
        training = self.config.settings
        steps_ahead = len(self.fold.train) * (training.horizon + 1) + len(self.fold.valid) * SCORING_WORK
        return float(training.epochs * steps_ahead)

    def labels(self) -> Row:
        training = self.config.settings
        return {
            "kind": "fit",
            **self.names,
            "data": self.data,
            "config": digest(self.config),
            "horizon": training.horizon,
            "weights": plain(training.weights),
            "epochs": training.epochs,
            "fold": self.fold.number,
            "seed": self.seed,
            "settings": plain(self.config),
        }

    def run(self, data: Episodes) -> Row:
        return self.row_of(self.fit(data), data)

    def fit(self, data: Episodes) -> Fit:
        """The fit to the training part of the fold."""
        train, valid, _ = self.fold.deal(data)
        key = jax.random.fold_in(jax.random.key(self.seed), self.fold.number)
        # The test part, which decides how far ahead is scored, has no say in the choice of the epoch.
        return self.config.fit(train, valid, key=key, score=R2Bar(VALIDATION_HORIZON))

    def row_of(self, fitted: Fit, data: Episodes) -> Row:
        """How the fit went, and its scores on the test episodes."""
        test = data.take(self.fold.test)
        scores, best = score(fitted.model, test, horizon=self.score_horizon), fitted.best_epoch
        return {
            "outcome": str(fitted.outcome),
            "reason": _problem(fitted, scores),
            **score_fields(scores),
            "validation_score": None if best is None else best.score,
            "best_epoch": None if best is None else best.number,
            "fit_seconds": sum(epoch.seconds for epoch in fitted.history),
        }


def _problem(fitted: Fit, scores: Scores) -> str | None:
    """Why the fit has no finite score, if it has none."""
    if fitted.outcome is Outcome.DIVERGED:
        return f"the training diverged in epoch {len(fitted.history)}"
    share = float(scores.diverged.max())
    return f"{share:.2%} of the test rollouts left the finite range" if share > 0 else None


def score_fields(scores: Scores) -> Row:
    """R2bar at the last horizon, R2 at every horizon (single precision has seven digits), the share that
    diverged."""
    return {
        "r2bar": scores.r2bar(),
        "diverged": float(scores.diverged.max()),
        "rollouts": int(scores.num_rollouts[0]),
        "r2": [float(value) for value in np.round(scores.r2, 7)],
    }
