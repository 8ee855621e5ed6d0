"""`Smoothed`: fit, take the noise out of the episodes with the model, fit again."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import jax

from multistep.data import Episodes
from multistep.dynamics import AbstractModel, Observer
from multistep.errors import InputError
from multistep.runs.progress import progress_spinner
from multistep.training.base import AbstractRecipe, Fit, Score
from multistep.training.history import Outcome
from multistep.training.judge import judge
from multistep.training.settings import Settings
from multistep.training.smoothing import CannotSmooth, fit_observer, has_noise, smooth
from multistep.types import Key

MIN_SECOND_HORIZON = 20  # of the second fit: half of a shorter one was worse


@dataclass(frozen=True)
class Smoothed(AbstractRecipe):
    """Two fits: one to the episodes as they were measured, one to the episodes as the first model has
    smoothed them.

    A rollout that starts in a noisy state learns dynamics that are blurred by the noise, worst where they are
    unstable. Smoothed states have a fraction of it, and a shorter horizon will do. Without noise the first
    fit is the only one. The parts of the fit are called `measured` and `smoothed`.
    """

    measured: AbstractRecipe
    """The first fit."""
    smoothed: AbstractRecipe
    """The second one, whose model counts."""

    @staticmethod
    def of(recipe: AbstractRecipe) -> "Smoothed":
        """The second fit like the first, with half of its horizon, but not below 20, if its weights allow for
        that."""
        horizon = recipe.settings.horizon
        try:
            return Smoothed(recipe, recipe.vary(horizon=min(horizon, max(MIN_SECOND_HORIZON, horizon // 2))))
        except InputError:  # weights that were given one by one
            return Smoothed(recipe, recipe)

    @property
    def settings(self) -> Settings:
        return self.smoothed.settings

    def vary(self, **changes: Any) -> "Smoothed":
        return Smoothed.of(self.measured.vary(**changes))

    def most_steps(self, train: Episodes) -> int | None:
        both = [part.most_steps(train) for part in (self.measured, self.smoothed)]
        return None if None in both else sum(steps for steps in both if steps is not None)

    def part(self, name: str | None) -> AbstractRecipe:
        return {"measured": self.measured, "smoothed": self.smoothed}.get(name or "", self)

    def fit(
        self,
        train: Episodes,
        valid: Episodes,
        *,
        key: Key,
        score: Score,
        checkpoint: str | Path | None = None,
    ) -> Fit:
        """A fit to the training episodes as the model of a first fit has smoothed them; `valid` stays as
        measured.

        The first fit is that of its recipe with the same key and checkpoint. It is the result where its model
        cannot take noise out: where in no state the noise that it finds exceeds what it misses in one step.
        The second has a checkpoint beside it.
        """
        given = {"key": key, "score": score, "checkpoint": checkpoint}
        first = self.measured.fit(train, valid, **given)
        if first.outcome in (Outcome.DIVERGED, Outcome.INTERRUPTED):
            return _kept(first, f"The first fit {_ended(first)}.", None)
        observer = None
        try:
            with progress_spinner("taking the noise out of the episodes"):
                observer = _observer(first.model, train)
                smoothed = smooth(observer, train)
            second_key, second_file = jax.random.fold_in(key, 1), _second_checkpoint(checkpoint)
            second = self.smoothed.fit(smoothed, valid, key=second_key, score=score, checkpoint=second_file)
        except KeyboardInterrupt:
            return replace(_kept(first, "It was interrupted.", observer), outcome=Outcome.INTERRUPTED)
        except _NoNoise as found:
            return _kept(first, str(found), found.observer)
        except CannotSmooth as error:
            return _kept(first, str(error), observer)
        if second.outcome is Outcome.INTERRUPTED:
            return replace(_kept(first, "It was interrupted.", observer), outcome=Outcome.INTERRUPTED)
        parts = {"measured": first, "smoothed": second}
        best = second.best_epoch
        if second.outcome is Outcome.DIVERGED or best is None or not best.is_scored:
            kept = _kept(first, "Fitted to the smoothed episodes, the model diverged.", observer)
            return replace(kept, parts=parts)
        with progress_spinner("judging both models"):
            judged = {name: judge(part.model, train, valid, score) for name, part in parts.items()}
        better, worse = sorted(parts, key=lambda name: judged[name], reverse=True)
        says = f"The judge gives the {better} one {judged[better]:.3f}, the {worse} one {judged[worse]:.3f}."
        return replace(
            parts[better], notes=(says,), observer=observer, parts=parts, chosen=better, judged=judged
        )


class _NoNoise(CannotSmooth):
    """There is no more noise than the model misses in one step."""

    def __init__(self, observer: Observer):
        super().__init__("The noise is less than the model misses in one step.")
        self.observer = observer


def _observer(model: Any, train: Episodes) -> Observer:
    if not isinstance(model, AbstractModel):
        raise CannotSmooth("A model with memory makes its own of the noise in its past.")
    observer = fit_observer(model, train)
    if not has_noise(observer, train):
        raise _NoNoise(observer)
    return observer


def _kept(first: Fit, reason: str, observer: Observer | None) -> Fit:
    """The first fit as the result, and why."""
    return replace(first, notes=(reason,), observer=observer, parts={"measured": first}, chosen="measured")


def _ended(fit: Fit) -> str:
    return "diverged" if fit.outcome is Outcome.DIVERGED else "was interrupted"


def _second_checkpoint(checkpoint: str | Path | None) -> Path | None:
    return None if checkpoint is None else Path(checkpoint).with_stem(f"{Path(checkpoint).stem}_smoothed")
