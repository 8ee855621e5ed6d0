"""The contracts of training: a curriculum says what comes next, a recipe makes a model of episodes."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from jaxtyping import Float
from numpy import ndarray

from multistep.data import Episodes
from multistep.dynamics import Observer
from multistep.errors import InputError
from multistep.losses import AbstractLoss, AbstractWeights
from multistep.training.history import Epoch, Outcome, best_of
from multistep.training.settings import Settings
from multistep.types import Key

Score = Callable[[Any, Episodes], float]
"""How well a model predicts episodes: the higher, the better."""


class Lesson(NamedTuple):
    """What the next epoch does."""

    loss: AbstractLoss
    weights: AbstractWeights
    horizon: int
    """Steps ahead of its windows."""
    batch_size: int
    learning_rates: Float[ndarray, " batches"]
    """One per batch: as many batches are taken as there are rates."""


class AbstractCurriculum(ABC):
    """Which lesson comes next, from the history alone: a killed fit resumes to the bit."""

    @abstractmethod
    def next(
        self, history: tuple[Epoch, ...], settings: Settings, count_windows: Callable[[int], int]
    ) -> Lesson | Outcome:
        """The next epoch, or why there is none.

        **Arguments:**

        - `history`: the epochs so far.
        - `settings`: what the recipe was asked for: loss, weights, horizon, length of the training, learning
        rate.
        - `count_windows`: how many windows of a horizon the training episodes have.
        """

    def num_epochs(self, settings: Settings, count_windows: Callable[[int], int]) -> int | None:
        """How many epochs there will be at most, if that is known beforehand."""
        return None

    def most_steps(self, settings: Settings, count_windows: Callable[[int], int]) -> int | None:
        """Steps of the model that all epochs take at most, if that is known beforehand."""
        return None

    def best(self, history: tuple[Epoch, ...]) -> Epoch | None:
        """The epoch whose model is kept: the one with the highest score."""
        return best_of(history)


@dataclass(frozen=True, repr=False)
class Fit:
    """What a recipe returns, however it ended."""

    model: Any
    """The model at the end of the epoch with the best validation score, in the user's units."""
    history: tuple[Epoch, ...]
    """Every epoch, in order."""
    outcome: Outcome
    """Why it stopped."""
    notes: tuple[str, ...] = ()
    """What the recipe has to say of its choices, a sentence each."""
    observer: Observer | None = None
    """A model with the noise on the measurements that was found, by a recipe that looks for it."""
    parts: Mapping[str, "Fit"] = field(default_factory=dict)
    """The fits that it is made of, by name; none if it is one."""
    chosen: str | None = None
    """The part whose model this is, where one was chosen."""
    judged: Mapping[str, float] = field(default_factory=dict)
    """The judge's score of each part, where one was chosen."""
    kept: Epoch | None = None
    """The epoch that the model is from, where it is not the one with the highest score."""

    def __repr__(self) -> str:
        best = self.best_epoch
        score = "" if best is None else f", score {best.score:.4g} in epoch {best.number}"
        return f"Fit({self.outcome} after {len(self.history)} epochs{score})"

    @property
    def best_epoch(self) -> Epoch | None:
        """The epoch that the model is from; none if no epoch ended."""
        return self.kept or best_of(self.history)

    @property
    def best_score(self) -> float:
        """The score of that epoch, the lowest there is if no epoch ended."""
        return -math.inf if self.best_epoch is None else self.best_epoch.score


class AbstractRecipe(ABC):
    """A way from episodes to a model: one fit, several, or whatever else. A frozen dataclass of plain
    values."""

    @abstractmethod
    def fit(
        self,
        train: Episodes,
        valid: Episodes,
        *,
        key: Key,
        score: Score,
        checkpoint: str | Path | None = None,
    ) -> Fit:
        """The model of `train` that predicts `valid` best.

        Expected failure is data: a fit that diverges or is interrupted (Ctrl-C) returns what it has and says
        so in its outcome.

        **Arguments:**

        - `train`: episodes to learn from.
        - `valid`: episodes to choose by.
        - `key`: for everything that is drawn.
        - `score`: `score(model, valid)`, the higher the better.
        - `checkpoint`: a file to go on from after a kill, with the same bits at the end.
        """

    @property
    @abstractmethod
    def settings(self) -> Settings:
        """The training that its model is from, as rows and tables show it."""

    def vary(self, **changes: Any) -> "AbstractRecipe":
        """The recipe with other settings of its training (`horizon`, `weights`, `epochs`, ...)."""
        raise InputError(f"{type(self).__name__} has no settings that can be varied: {', '.join(changes)}.")

    def most_steps(self, train: Episodes) -> int | None:
        """Steps of the model that a fit takes at most, all rollouts together; none if that is not known."""
        return None

    def part(self, name: str | None) -> "AbstractRecipe":
        """The recipe of the part of a fit that has this name; the recipe itself if it has no parts."""
        return self
