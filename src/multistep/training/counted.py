"""`Counted`: as many steps of the model as were asked for, whatever the horizon and however many windows."""

import math
from collections.abc import Callable
from dataclasses import dataclass

from multistep.errors import InputError
from multistep.training.base import AbstractCurriculum, Lesson
from multistep.training.curricula import batches_of, cosine_rates
from multistep.training.history import Epoch, Outcome
from multistep.training.settings import Settings


@dataclass(frozen=True)
class Counted(AbstractCurriculum):
    """The horizon that was asked for in every epoch, and a length that makes trainings of different horizons
    comparable.

    A gradient step takes (windows of a batch) x (steps of the horizon) steps of the model. The epochs are
    passes over nearly all windows, all of the same length but for one batch; the learning rate falls to zero
    along half a cosine.
    """

    model_steps: int = 8_000_000
    """Steps of the model to take, all rollouts together, up to less than one gradient step."""

    def __post_init__(self) -> None:
        if self.model_steps < 1:
            raise InputError(f"A training of {self.model_steps} model steps: it takes 1 or more.")

    def next(
        self, history: tuple[Epoch, ...], settings: Settings, count_windows: Callable[[int], int]
    ) -> Lesson | Outcome:
        number, num_epochs = len(history), self.num_epochs(settings, count_windows)
        if number >= num_epochs:
            return Outcome.FINISHED
        batch_size, _ = batches_of(settings, count_windows(settings.horizon))
        total = self._num_batches(settings, count_windows)
        num_batches = total * (number + 1) // num_epochs - total * number // num_epochs
        rates = cosine_rates(settings.learning_rate, number, num_batches, num_epochs)
        return Lesson(settings.loss, settings.weights, settings.horizon, batch_size, rates)

    def num_epochs(self, settings: Settings, count_windows: Callable[[int], int]) -> int:
        _, in_pass = batches_of(settings, count_windows(settings.horizon))
        return math.ceil(self._num_batches(settings, count_windows) / in_pass)

    def most_steps(self, settings: Settings, count_windows: Callable[[int], int]) -> int:
        batch_size, _ = batches_of(settings, count_windows(settings.horizon))
        return self._num_batches(settings, count_windows) * batch_size * settings.horizon

    def _num_batches(self, settings: Settings, count_windows: Callable[[int], int]) -> int:
        """Of all epochs together."""
        batch_size, _ = batches_of(settings, count_windows(settings.horizon))
        return max(1, self.model_steps // (batch_size * settings.horizon))
