"""`Ranked`: a candidate and how it did on each fold."""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from multistep.runs.row_log import Row
from multistep.runs.sweep import FAILED
from multistep.training import AbstractRecipe, Outcome
from multistep.training.history import rankable


@dataclass(frozen=True)
class Ranked:
    """A candidate and how it did on each fold."""

    config: AbstractRecipe
    scores: tuple[float, ...]
    """R2bar on the test episodes of each fold; minus infinity where the fit failed or diverged."""
    seconds: float
    """Time that its fits took, all folds together."""
    problem: str | None
    """Why a fit failed or diverged, if one did."""

    @property
    def mean(self) -> float:
        return statistics.fmean(self.scores)

    @property
    def deviation(self) -> float:
        """Standard deviation over the folds; not a number if a fit failed."""
        return statistics.stdev(self.scores) if math.isfinite(self.mean) else math.nan


def ranked_of(config: AbstractRecipe, rows: Sequence[Row]) -> Ranked:
    """A candidate by the rows of its folds."""
    scores = tuple(_score(row) for row in rows)
    lost = [row for row, score in zip(rows, scores, strict=True) if not math.isfinite(score)]
    problems = [row["reason"] or "its rollouts diverge, or the test episodes do not vary" for row in lost]
    return Ranked(config, scores, sum(row["seconds"] for row in rows), problems[0] if problems else None)


def _score(row: Row) -> float:
    """R2bar of a row; minus infinity where the fit failed or diverged, or where there was nothing to
    explain."""
    return -math.inf if row["outcome"] in (FAILED, Outcome.DIVERGED) else rankable(float(row["r2bar"]))
