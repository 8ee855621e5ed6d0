"""`Averaging`: the same fit several times, and the mean of the models."""

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import jax

from multistep.data import Episodes
from multistep.dynamics import average
from multistep.errors import InputError
from multistep.training.base import AbstractRecipe, Fit, Score
from multistep.training.history import Outcome
from multistep.training.once import Once
from multistep.training.settings import Settings
from multistep.types import Key


@dataclass(frozen=True)
class Averaging(AbstractRecipe):
    """Fits that differ in their random weights and in the order of the windows; one model takes the mean of
    their steps.

    What a single network makes of states that the training hardly shows is chance, and the mean of a few is
    less so: three short fits are worth more than one of the same length in all.
    """

    recipe: AbstractRecipe = field(default_factory=Once)
    """Each of the fits."""
    members: int = 3
    """How many."""

    def __post_init__(self) -> None:
        if self.members < 1:
            raise InputError(f"The mean of {self.members} fits: it takes 1 or more.")

    @property
    def settings(self) -> Settings:
        return self.recipe.settings

    def vary(self, **changes: Any) -> "Averaging":
        return replace(self, recipe=self.recipe.vary(**changes))

    def most_steps(self, train: Episodes) -> int | None:
        steps = self.recipe.most_steps(train)
        return None if steps is None else self.members * steps

    def fit(
        self,
        train: Episodes,
        valid: Episodes,
        *,
        key: Key,
        score: Score,
        checkpoint: str | Path | None = None,
    ) -> Fit:
        """The mean of those that came to their end; the parts are called member_0, member_1 and so on."""
        parts: dict[str, Fit] = {}
        for number in range(self.members):
            name = f"member_{number}"
            file = None if checkpoint is None else Path(checkpoint)
            file = None if file is None else file.with_stem(f"{file.stem}_{name}")
            own_key = jax.random.fold_in(key, number) if number else key
            parts[name] = self.recipe.fit(train, valid, key=own_key, score=score, checkpoint=file)
            if parts[name].outcome is Outcome.INTERRUPTED:
                break
        outcome = list(parts.values())[-1].outcome
        good = [
            part for part in parts.values() if part.outcome not in (Outcome.DIVERGED, Outcome.INTERRUPTED)
        ]
        if len(good) < 2:
            one = good[0] if good else parts["member_0"]
            return one if len(parts) == 1 else replace(one, outcome=outcome, parts=parts)
        best = max(good, key=lambda part: part.best_score)
        # Names, units and ranges are those of any of them.
        model = replace(best.model, learned=average([part.model.learned for part in good]))
        epochs = [epoch for part in parts.values() for epoch in part.history]
        history = tuple(replace(epoch, number=number) for number, epoch in enumerate(epochs))
        return Fit(model, history, outcome, parts=parts, kept=best.best_epoch)
