"""`Tried`: several fits of the same episodes, the judge's scores of them, and which is chosen, and why."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from multistep.data import Episodes
from multistep.dynamics import Observer
from multistep.evaluation import R2Bar, mean_interval, unexplained, usual_horizon
from multistep.training import Filtered, Fit, Score

NAMES = {
    "linear": "a linear model",
    "small": "a small network",
    "first": "a large network",
    "second": "large networks, trained for longer",
}
LENIENCE = 0.3
"""Of what the best model leaves unexplained, so much more is about as good, if the judge is not sure."""


@dataclass(frozen=True)
class Tried:
    """The fits, and what the judge says of them."""

    parts: Mapping[str, Fit]
    judged: Mapping[str, float]
    judge: Score
    valid: Episodes
    observer: Observer | None
    notes: tuple[str, ...]
    crossed: bool = False
    """Whether every episode has judged."""

    @property
    def ranking(self) -> list[str]:
        """The best first."""
        return sorted(self.parts, key=lambda name: self.judged[name], reverse=True)

    @property
    def chosen(self) -> str:
        """The one with the highest score, or one that was trained longer and about as good.

        A few validation episodes are a weak judge, and the model that has learned more is the better one
        more often than not: it is kept unless it is worse by more than a standard error.
        """
        best = self.ranking[0]
        longest_first = [name for name in reversed(NAMES) if name in self.parts]
        return next(name for name in longest_first if name == best or self._is_as_good(name, best))

    def _is_as_good(self, name: str, best: str) -> bool:
        left, least = 1 - self.judged[name], 1 - self.judged[best]
        if self.crossed or not left <= (1 + LENIENCE) * least:
            return False
        found = self.gains(best, name)
        # One of so few episodes may be odd: what its difference is worth is their spread.
        return found is not None and bool(found.sum() <= math.sqrt(len(found)) * found.std(ddof=1))

    def gains(self, name: str, other: str) -> Float[ndarray, " episodes"] | None:
        """What each validation episode adds to the lead in R2bar of one over the other; none if there is but
        one."""
        score, views = self.judge, [self.parts[part].model for part in (name, other)]
        if isinstance(score, Filtered):
            views, score = [score.best_view(model, self.valid) for model in views], score.score
        past = views[0].num_past
        if not isinstance(score, R2Bar) or len(self.valid) < 2 or views[1].num_past != past:
            return None
        horizon = usual_horizon(self.valid, score.horizon, past)
        of_each = [unexplained(model, self.valid, horizon=horizon) for model in views]
        return None if not np.isfinite(of_each).all() else of_each[1] - of_each[0]

    @property
    def is_clear(self) -> bool:
        """Whether the best is ahead of the next whatever episodes there might have been."""
        if len(self.parts) < 2:
            return True
        found = self.gains(*self.ranking[:2])
        return found is not None and bool(mean_interval(found)[0] > 0)

    def fit(self, judges: Episodes, *more: str) -> Fit:
        """The best part, and why."""
        best = self.chosen
        chosen = self.parts[best]
        scores = ", ".join(f"{NAMES[name]} {digits(self.judged[name])}" for name in self.ranking[::-1])
        tried = f"Tried, with the judge's score on {count_of(len(judges))}: {scores}."
        why = f"Chosen: {NAMES[best]}, {self._why(best)}"
        last = list(chosen.parts.values() or [chosen])[-1]
        horizons = list(dict.fromkeys(epoch.horizon for epoch in last.history))
        members = f"The mean of {len(chosen.parts)}, each trained" if chosen.parts else "Trained"
        trained = f"{members} with a horizon of {', '.join(map(str, horizons))}"
        trained += f" steps, {len(last.history)} epochs" + (" each" if chosen.parts else "")
        return replace(
            chosen,
            notes=(tried, f"{why}.", f"{trained}.", *self.notes, *more),
            observer=self.observer,
            parts=dict(self.parts),
            chosen=best,
            judged=dict(self.judged),
        )

    def _why(self, best: str) -> str:
        others = [name for name in self.ranking if name != best]
        if not others:
            return "the only one"
        lead = self.judged[best] - self.judged[others[0]]
        gains = None if self.crossed else self.gains(best, others[0])
        interval = ""
        if gains is not None:
            low, high = (len(gains) * end for end in mean_interval(gains))
            interval = f" (95 % interval {low:+.3f} to {high:+.3f})"
        if lead < 0:
            return f"about as good as {NAMES[others[0]]}{interval} and trained for longer"
        return f"ahead of {NAMES[others[0]]} by {digits(lead)}{interval}"


def rises(fit: Fit) -> bool:
    """Whether the last quarter of the epochs took away more than a tenth of what was left unexplained."""
    scores = [epoch.score for epoch in fit.history]
    before = scores[: -max(1, len(scores) // 4)]
    if len(scores) < 4 or not math.isfinite(max(before)):
        return False
    return 1 - max(scores) < 0.9 * (1 - max(before))


def digits(score: float) -> str:
    return f"{score:.3f}" if abs(score) < 1000 else "diverges"


def count_of(number: int) -> str:
    return "one episode" if number == 1 else f"{number} episodes"
