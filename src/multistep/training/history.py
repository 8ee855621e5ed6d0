"""What a fit went through and how it ended."""

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
