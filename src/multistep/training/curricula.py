"""`Steady`: one horizon throughout, while the learning rate falls."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from multistep.registry import Registry
from multistep.runs.provenance import plain
from multistep.training.base import AbstractCurriculum, Lesson
from multistep.training.history import Epoch, Outcome, best_of
from multistep.training.settings import Settings


@dataclass(frozen=True)
class Steady(AbstractCurriculum):
    """The horizon that was asked for in every epoch; the learning rate falls to zero along half a cosine."""

    def next(
        self, history: tuple[Epoch, ...], settings: Settings, count_windows: Callable[[int], int]
    ) -> Lesson | Outcome:
        num_epochs = self.num_epochs(settings, count_windows)
        if len(history) >= num_epochs:
            return Outcome.FINISHED
        best = best_of(history)
        if settings.patience and best is not None and history[-1].number - best.number >= settings.patience:
            return Outcome.STOPPED_EARLY
        batch_size, num_batches = batches_of(settings, count_windows(settings.horizon))
        rates = cosine_rates(settings.learning_rate, len(history), num_batches, num_epochs)
        return Lesson(settings.loss, settings.weights, settings.horizon, batch_size, rates)

    def num_epochs(self, settings: Settings, count_windows: Callable[[int], int]) -> int:
        _, num_batches = batches_of(settings, count_windows(settings.horizon))
        return max(settings.epochs, math.ceil(settings.least_steps / num_batches))


def batches_of(settings: Settings, num_windows: int) -> tuple[int, int]:
    """Windows per batch, and batches in one pass over so many windows."""
    batch_size = min(settings.batch_size, num_windows)
    return batch_size, num_windows // batch_size


def cosine_rates(start: float, epoch: int, num_batches: int, num_epochs: int) -> Float[ndarray, " batches"]:
    """Learning rate of each batch of an epoch: half a cosine from `start` to zero after the last of all
    batches."""
    done = (epoch + np.arange(num_batches) / num_batches) / num_epochs
    return start * (1 + np.cos(np.pi * done)) / 2


CURRICULA = Registry("curriculum", AbstractCurriculum, {"steady": Steady})


@plain.register
def describe_curriculum(curriculum: AbstractCurriculum) -> str:
    """The text that finds the curriculum again."""
    return CURRICULA.describe(curriculum)
