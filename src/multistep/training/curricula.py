"""How a training gets to its horizon: `Steady`, one throughout; `Growing`, doubled until it is reached."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from multistep.errors import InputError
from multistep.training.base import AbstractCurriculum, Lesson
from multistep.training.history import Epoch, Outcome, best_of
from multistep.training.settings import Settings

PATIENCE = 4
"""Epochs without a better score after which the next horizon comes."""
LENIENCE = 0.3
"""Of what the best epoch leaves unexplained, so much more is as good."""
STEEPER = 100.0
"""So many times the first horizon's steepness is where horizons stop growing."""
AGAIN = 0.5
"""Of the learning rate, where the last horizon is gone through again."""
GAIN = 0.05
"""Of what was left unexplained: so much has to be gained for going through it once more."""


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

    def most_steps(self, settings: Settings, count_windows: Callable[[int], int]) -> int:
        in_epoch = math.prod(batches_of(settings, count_windows(settings.horizon))) * settings.horizon
        return self.num_epochs(settings, count_windows) * in_epoch


@dataclass(frozen=True)
class Growing(AbstractCurriculum):
    """The horizon doubles until it is the one that was asked for, while the learning rate falls along half a
    cosine.

    Each horizon has as many epochs as the last: a short one costs little, and what it has learned is where
    the next one starts. The next comes early if the score no longer rises; the last one too, where rollouts
    drift apart so fast that twice the horizon would teach noise. With `repeats`, the last horizon is gone
    through again and again, from half of the learning rate, until that is of no more use.
    """

    model_steps: int = 16_000_000
    """Steps of the model to take at most, all rollouts together."""
    stages: int = 4
    """Horizons to go through: with 4, an eighth, a quarter, half and all of the one that was asked for."""
    batch_size: int = 32
    """Windows per gradient step."""
    epoch_steps: int = 840
    """Gradient steps of an epoch, fewer if there are not so many batches."""
    repeats: int = 0
    """How often the last horizon is gone through again at most."""

    def next(
        self, history: tuple[Epoch, ...], settings: Settings, count_windows: Callable[[int], int]
    ) -> Lesson | Outcome:
        horizons, length = self.horizons(settings), self.stage_epochs(settings, count_windows)
        stage, rung, epoch = self._place(history, len(horizons), length)
        if stage >= len(horizons):
            return self._again(history, settings, count_windows, stage - len(horizons), horizons[rung], epoch)
        batch_size, num_batches = self._batches(horizons[rung], sum(horizons), count_windows)
        # The rate falls with the model steps, not with the epochs: those of the last horizon are the most.
        epochs = epoch + np.arange(num_batches) / num_batches
        done = (sum(horizons[:stage]) * length + horizons[stage] * epochs) / (sum(horizons) * length)
        rates = settings.learning_rate * (1 + np.cos(np.pi * done)) / 2
        return Lesson(settings.loss, settings.weights, horizons[rung], batch_size, rates)

    def _again(
        self,
        history: tuple[Epoch, ...],
        settings: Settings,
        count_windows: Callable[[int], int],
        times: int,
        horizon: int,
        epoch: int,
    ) -> Lesson | Outcome:
        """The next epoch of another time with the last horizon, or the end."""
        length, all_horizons = self.stage_epochs(settings, count_windows), sum(self.horizons(settings))
        if epoch == 0 and times and not has_gained(history, length):
            return Outcome.STOPPED_EARLY
        if times == self.repeats:
            return Outcome.FINISHED
        batch_size, num_batches = self._batches(horizon, all_horizons, count_windows)
        rates = cosine_rates(AGAIN * settings.learning_rate, epoch, num_batches, length)
        return Lesson(settings.loss, settings.weights, horizon, batch_size, rates)

    def _place(self, history: tuple[Epoch, ...], num_stages: int, length: int) -> tuple[int, int, int]:
        """After this history: stage, which of the horizons it has, and epochs of it that are over."""
        stage = rung = start = 0
        for end in range(1, len(history) + 1):
            so_far = history[start:end]
            if len(so_far) == length or (stage < num_stages - 1 and has_stopped_rising(so_far)):
                rung += stage < num_stages - 1 and not is_too_steep(so_far[-1], history[0])
                stage, start = stage + 1, end
        return stage, rung, len(history) - start

    def num_epochs(self, settings: Settings, count_windows: Callable[[int], int]) -> int:
        return (len(self.horizons(settings)) + self.repeats) * self.stage_epochs(settings, count_windows)

    def most_steps(self, settings: Settings, count_windows: Callable[[int], int]) -> int:
        horizons = self.horizons(settings)
        return self.model_steps + int(self.repeats * self.model_steps * horizons[-1] / sum(horizons))

    def best(self, history: tuple[Epoch, ...]) -> Epoch | None:
        """The last epoch that is about as good as the best.

        The highest of many scores on few validation episodes is luck; the later an epoch, the smaller were
        its steps and the longer its horizon.
        """
        best = best_of(history)
        if best is None or not best.is_scored:
            return best
        good = best.score - LENIENCE * max(0.0, 1 - best.score)
        return [epoch for epoch in history if epoch.is_sound and epoch.score >= good][-1]

    def horizons(self, settings: Settings) -> tuple[int, ...]:
        """The horizons to go through, ending with the one that was asked for; those alone that the weights
        are made for."""
        last = settings.horizon
        all_of_them = sorted({max(1, last >> halvings) for halvings in range(self.stages)})
        return tuple(horizon for horizon in all_of_them if horizon == last or _suit(settings, horizon))

    def stage_epochs(self, settings: Settings, count_windows: Callable[[int], int]) -> int:
        """Epochs of each horizon."""
        horizons = self.horizons(settings)
        once_each = sum(
            horizon * math.prod(self._batches(horizon, sum(horizons), count_windows)) for horizon in horizons
        )
        return max(1, self.model_steps // once_each)

    def _batches(
        self, horizon: int, all_horizons: int, count_windows: Callable[[int], int]
    ) -> tuple[int, int]:
        """Windows per batch, and batches of an epoch: so few that each horizon has two epochs at least."""
        num_windows = count_windows(horizon)
        batch_size = min(self.batch_size, num_windows)
        affordable = max(1, self.model_steps // (2 * all_horizons * batch_size))
        return batch_size, min(self.epoch_steps, affordable, num_windows // batch_size)


def _suit(settings: Settings, horizon: int) -> bool:
    try:
        settings.weights.check(horizon)
    except InputError:
        return False
    return True


def has_stopped_rising(epochs: tuple[Epoch, ...]) -> bool:
    """Whether none of the last few epochs has improved on what was left unexplained before by 1 %."""
    before, last = epochs[:-PATIENCE], epochs[-PATIENCE:]
    if not before:
        return False
    best = max(epoch.score for epoch in before)
    return max(epoch.score for epoch in last) < best + 0.01 * (1 - best)


def has_gained(history: tuple[Epoch, ...], length: int) -> bool:
    """Whether the last so many epochs have explained enough of what was left unexplained before."""
    before, after = (max(epoch.score for epoch in part) for part in (history[:-length], history[-length:]))
    return 1 - after <= (1 - GAIN) * (1 - before)


def is_too_steep(epoch: Epoch, first: Epoch) -> bool:
    """Whether a rollout's error depends so much more on the weights than it did at the first horizon that
    twice the horizon would be chance."""
    if epoch.steepness is None or first.steepness is None:
        return False
    return not epoch.steepness < STEEPER * first.steepness


def batches_of(settings: Settings, num_windows: int) -> tuple[int, int]:
    """Windows per batch, and batches in one pass over so many windows."""
    batch_size = min(settings.batch_size, num_windows)
    return batch_size, num_windows // batch_size


def cosine_rates(start: float, epoch: int, num_batches: int, num_epochs: int) -> Float[ndarray, " batches"]:
    """Learning rate of each batch of an epoch: half a cosine from `start` to zero after the last of all
    batches."""
    done = (epoch + np.arange(num_batches) / num_batches) / num_epochs
    return start * (1 + np.cos(np.pi * done)) / 2
