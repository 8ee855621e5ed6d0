"""`Scheduled`: another curriculum, along which scheduled sampling sees the true state less and less."""

from collections.abc import Callable
from dataclasses import dataclass, field

from multistep.errors import InputError
from multistep.losses import ScheduledSampling
from multistep.training.base import AbstractCurriculum, Lesson
from multistep.training.curricula import Steady
from multistep.training.history import Epoch, Outcome
from multistep.training.settings import Settings


@dataclass(frozen=True)
class Scheduled(AbstractCurriculum):
    r"""$\epsilon_k = 1 - k / K$ in epoch k = 0, ..., K - 1: the linear decay of Bengio et al. (2015).

    It begins with teacher forcing and ends one K-th above the multi-step loss. Epochs are counted in the
    history, so that a killed fit goes on with the probability that was next.
    """

    curriculum: AbstractCurriculum = field(default_factory=Steady)
    """What decides everything else."""

    def next(
        self, history: tuple[Epoch, ...], settings: Settings, count_windows: Callable[[int], int]
    ) -> Lesson | Outcome:
        lesson = self.curriculum.next(history, settings, count_windows)
        if not isinstance(lesson, Lesson):
            return lesson
        num_epochs = self.num_epochs(settings, count_windows)
        if num_epochs is None or not isinstance(lesson.loss, ScheduledSampling):
            raise InputError(
                "The curriculum scheduled needs the loss scheduled and, within it, a curriculum that knows "
                "its number of epochs: --loss scheduled --curriculum scheduled."
            )
        return lesson._replace(loss=ScheduledSampling(1 - len(history) / num_epochs))

    def num_epochs(self, settings: Settings, count_windows: Callable[[int], int]) -> int | None:
        return self.curriculum.num_epochs(settings, count_windows)

    def most_steps(self, settings: Settings, count_windows: Callable[[int], int]) -> int | None:
        return self.curriculum.most_steps(settings, count_windows)

    def best(self, history: tuple[Epoch, ...]) -> Epoch | None:
        return self.curriculum.best(history)
