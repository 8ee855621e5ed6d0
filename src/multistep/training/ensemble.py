"""`Ensemble`: the same fit several times, and one model of them all."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import UInt
from numpy import ndarray

from multistep.data import Episodes
from multistep.dynamics import together
from multistep.errors import InputError
from multistep.runs.progress import progress_bar
from multistep.runs.workers import Workers, on_workers
from multistep.training.base import AbstractRecipe, Fit, Score
from multistep.training.history import Outcome
from multistep.training.once import Once
from multistep.training.settings import Settings
from multistep.types import Key


@dataclass(frozen=True)
class Ensemble(AbstractRecipe):
    """Fits that differ in their random weights and in the order of the windows; one model takes the mean of
    their steps, and where they disagree it is not sure.

    What a single network makes of states that the training hardly shows is chance, and the mean of a few is
    less so: three short fits are worth more than one of the same length in all.
    """

    recipe: AbstractRecipe = field(default_factory=Once)
    """Each of the fits."""
    members: int = 5
    """How many."""
    bootstrap: bool = False
    """Fit each to as many episodes drawn with replacement: the members disagree more, and each has seen
    two thirds of the episodes."""
    where: Workers | None = field(default=None, compare=False)
    """Fit them side by side on the cores of this machine or on a cluster; none: one after the other."""

    def __post_init__(self) -> None:
        if self.members < 1:
            raise InputError(f"An ensemble of {self.members} models: it takes 1 or more.")

    @property
    def settings(self) -> Settings:
        return self.recipe.settings

    def vary(self, **changes: Any) -> "Ensemble":
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
        """One model of those that came to their end; the parts are called member_0, member_1 and so on."""
        if self.bootstrap and len(train) < 2:
            raise InputError("Episodes cannot be drawn from one alone: leave the bootstrap out.")
        jobs = [self._job(number, train, valid, key, score, checkpoint) for number in range(self.members)]
        fitted = _in_turn(jobs) if self.where is None else _side_by_side(jobs, self.where)
        parts: dict[str, Fit] = {}
        outcome = Outcome.INTERRUPTED
        try:
            for number, part in fitted:
                parts[_name(number)] = part
                if part.outcome is Outcome.INTERRUPTED:
                    break
            else:
                outcome = _outcome([part.outcome for part in parts.values()])
        except KeyboardInterrupt:
            if not parts:
                raise
        return _united({name: parts[name] for name in sorted(parts, key=_number)}, outcome)

    def _job(
        self,
        number: int,
        train: Episodes,
        valid: Episodes,
        key: Key,
        score: Score,
        checkpoint: str | Path | None,
    ) -> "_Job":
        own = jax.random.fold_in(key, number) if number else key
        file = None if checkpoint is None else Path(checkpoint)
        file = None if file is None else file.with_stem(f"{file.stem}_{_name(number)}")
        if self.bootstrap:
            own, drawn_key = jax.random.split(own)
            drawn = jax.random.randint(drawn_key, (len(train),), 0, len(train))
            train = train.take(np.sort(np.asarray(drawn)))
        return _Job(self.recipe, train, valid, np.asarray(jax.random.key_data(own)), score, file)


class _Job(NamedTuple):
    """All that one member's fit takes, in a form that travels."""

    recipe: AbstractRecipe
    train: Episodes
    valid: Episodes
    key_data: UInt[ndarray, " words"]
    score: Score
    checkpoint: Path | None


def _run(job: _Job) -> Fit:
    key = jax.random.wrap_key_data(jnp.asarray(job.key_data))
    return job.recipe.fit(job.train, job.valid, key=key, score=job.score, checkpoint=job.checkpoint)


def _in_turn(jobs: list[_Job]) -> Iterator[tuple[int, Fit]]:
    return ((number, _run(job)) for number, job in enumerate(jobs))


def _side_by_side(jobs: list[_Job], where: Workers) -> Iterator[tuple[int, Fit]]:
    """Each member as it ends."""
    with progress_bar("members", len(jobs), 0) as show:
        for number, part in on_workers(_run, jobs, where):
            show(part.best_score)
            yield number, part


def _united(parts: dict[str, Fit], outcome: Outcome) -> Fit:
    """One fit of the members; those that did not come to their end have no part in the model."""
    unfinished = (Outcome.DIVERGED, Outcome.INTERRUPTED)
    good = [part for part in parts.values() if part.outcome not in unfinished]
    lost = [name for name, part in parts.items() if part.outcome is Outcome.DIVERGED]
    notes = (f"Diverged, and not in the model: {', '.join(lost)}.",) if lost else ()
    if len(good) < 2:
        one = good[0] if good else next(iter(parts.values()))
        return one if len(parts) == 1 else replace(one, outcome=outcome, parts=parts, notes=notes)
    best = max(good, key=lambda part: part.best_score)
    model = together([part.model for part in good])
    epochs = [epoch for part in parts.values() for epoch in part.history]
    history = tuple(replace(epoch, number=number) for number, epoch in enumerate(epochs))
    kept = best.best_epoch
    return Fit(model, history, outcome, parts=parts, kept=kept, observer=best.observer, notes=notes)


def _outcome(outcomes: Sequence[Outcome]) -> Outcome:
    """That of the last member that did not diverge; diverged, if all of them did."""
    sound = [outcome for outcome in outcomes if outcome is not Outcome.DIVERGED]
    return sound[-1] if sound else Outcome.DIVERGED


def _name(number: int) -> str:
    return f"member_{number}"


def _number(name: str) -> int:
    return int(name.rsplit("_", 1)[1])
