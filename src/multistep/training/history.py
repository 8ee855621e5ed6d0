"""What a fit went through and how it ended."""

import math
from dataclasses import dataclass
from enum import StrEnum


class Outcome(StrEnum):
    """Why a fit stopped."""

    FINISHED = "finished"
    STOPPED_EARLY = "stopped early"
    DIVERGED = "diverged"
    INTERRUPTED = "interrupted"


@dataclass(frozen=True)
class Epoch:
    """One epoch: averages over its batches, and the validation score of the model at its end."""

    number: int
    errors: tuple[float, ...]
    """Mean squared error at each step ahead on the training batches, in units of each state's variance."""
    weights: tuple[float, ...]
    """Weights of the steps ahead in use, summing to 1."""
    score: float
    """Validation score of the model at the end of the epoch."""
    seconds: float
    """Time of training and validation."""
    steepness: float | None = None
    """Norm of the loss's gradient as a share of the loss: how much the weights matter to what is predicted,
    more and more with the horizon where rollouts drift apart."""

    @property
    def horizon(self) -> int:
        """Steps ahead of its windows."""
        return len(self.errors)

    @property
    def is_sound(self) -> bool:
        """Whether the training had not diverged."""
        return all(map(math.isfinite, self.errors))

    @property
    def is_scored(self) -> bool:
        """Whether the model predicts the validation episodes to a finite error."""
        return self.score > -math.inf


def rankable(score: float) -> float:
    """The score, for a comparison with others: what is not a number ranks last."""
    return -math.inf if math.isnan(score) else float(score)


def best_of(history: tuple[Epoch, ...]) -> Epoch | None:
    """The epoch with the highest score, the first of equals; while no score is finite, the one trained
    longest."""
    sound = [epoch for epoch in history if epoch.is_sound]
    if not any(epoch.is_scored for epoch in sound):
        return sound[-1] if sound else None
    return max(sound, key=lambda epoch: (epoch.score, -epoch.number))
