"""`Validated`: how far ahead the models of a training are compared, whatever it trains on."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from multistep.data import Episodes
from multistep.errors import InputError
from multistep.evaluation import R2Bar
from multistep.losses import Uniform
from multistep.selection.fit import VALIDATION_HORIZON
from multistep.training import AbstractRecipe, Fit, Score, Settings
from multistep.types import Key


@dataclass(frozen=True)
class Validated(AbstractRecipe):
    """A training whose best epoch is that with the highest R2bar(`horizon`) on the validation episodes.

    One-step training with multi-step validation (Nagabandi et al., 2018) is `Validated(Once(horizon=1), 50)`;
    with a horizon of 1 nothing in the training knows of rollouts.
    """

    recipe: AbstractRecipe
    """What trains."""
    horizon: int = VALIDATION_HORIZON
    """Steps ahead of the validation."""

    def __post_init__(self) -> None:
        if self.horizon < 1:
            raise InputError(f"A validation {self.horizon} steps ahead: it takes 1 or more.")

    @staticmethod
    def of(recipe: AbstractRecipe, horizon: int = VALIDATION_HORIZON) -> "Validated":
        """With one-step training, whatever the horizon of the recipe's own."""
        return Validated(recipe.vary(horizon=1, weights=Uniform()), horizon)

    @property
    def settings(self) -> Settings:
        return self.recipe.settings

    def vary(self, **changes: Any) -> "Validated":
        return replace(self, recipe=self.recipe.vary(**changes))

    def most_steps(self, train: Episodes) -> int | None:
        return self.recipe.most_steps(train)

    def fit(
        self,
        train: Episodes,
        valid: Episodes,
        *,
        key: Key,
        score: Score,
        checkpoint: str | Path | None = None,
    ) -> Fit:
        """The fit of the recipe, whose epochs are compared in this way and not by `score`."""
        return self.recipe.fit(train, valid, key=key, score=R2Bar(self.horizon), checkpoint=checkpoint)
