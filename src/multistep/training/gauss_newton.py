"""`GaussNewton`: a small model by the method of Levenberg and Marquardt, over all rollouts at once."""

import math
import time
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

from threadpoolctl import threadpool_limits

from multistep.data import Episodes, pooled
from multistep.dynamics import AbstractArchitecture, ShallowConfig
from multistep.errors import InputError
from multistep.losses import Uniform
from multistep.runs.progress import progress_bar
from multistep.training.base import AbstractRecipe, Fit, Score
from multistep.training.history import Epoch, Outcome, rankable
from multistep.training.normal_equations import DAMPINGS
from multistep.training.race import Lap, Rollouts, start_race
from multistep.training.settings import Settings
from multistep.types import Key

PATIENCE = 3
"""Rounds without a better score after which the next horizon comes."""
WORTH_IT = 0.95
"""Of what is left unexplained (a score is 1 at best), so much or less: worth weights that are further from
the line. What fits a bit better by weights of its own has often learned what the next record does not
show."""


def is_better(score: float, than: float) -> bool:
    """Whether it is by so much that more training is worth it."""
    return score > -math.inf and (than == -math.inf or 1 - score <= WORTH_IT * (1 - than))


@dataclass(frozen=True)
class GaussNewton(AbstractRecipe):
    """Damped Gauss-Newton steps on the mean squared error of rollouts over all training episodes, in double
    precision; the result is the mean of several starts.

    Where a model has some hundred weights, each iteration solves for all of them at once: what takes descent
    along gradients ten thousand steps takes this some dozens. All starts and ridges go side by side, through
    rollouts of one horizon and then from the best that this found through those of the next.

    With `folds`, every step is held out once: rollouts go over it, and its errors count for nothing. Ridge,
    horizon and length of the training are chosen by how much of what was held out the rollouts explain (R2;
    the score that validation episodes would be judged by has no part in it), and the model is the one that
    was trained on everything alike.
    """

    network: AbstractArchitecture = field(default_factory=ShallowConfig)
    """What is learned."""
    horizons: tuple[int, ...] = (40, 300)
    """Steps of the rollouts, one after the other; fewer where episodes are shorter, or where the rollouts run
    away before."""
    judged: int = 300
    """Steps of the rollouts over what a fold leaves out."""
    least_rollouts: int = 1
    """Over all episodes. Where records are few and rollouts long, these start from so many places and
    overlap: a model that reads its memory from the past learns to do so from each."""
    starts: int = 3
    """Fits from other random weights, of which the model is the mean."""
    ridges: tuple[float, ...] = (1e-6,)
    """Costs of the squared distance of the weights from where they started; the score finds the best."""
    folds: int = 0
    """Parts that the episodes, those of the validation too, are dealt into for cross-fitting: whole episodes,
    or stretches of time where there are fewer of those; 0: the validation episodes are left to judge."""
    rounds: int = 10
    """How often the score is looked at with each horizon, after the first look at the linear model."""
    iterations: int = 4
    """Iterations between two looks."""
    seconds: float | None = None
    """After which no further round begins; none: all of them, or until the score no longer rises."""

    def __post_init__(self) -> None:
        for name in ("judged", "least_rollouts", "starts", "rounds", "iterations"):
            if getattr(self, name) < 1:
                raise InputError(f"The {name} of GaussNewton is {getattr(self, name)}: it must be 1 or more.")
        if not self.horizons or min(self.horizons) < 1:
            raise InputError("GaussNewton needs one horizon or more, each of 1 step or more.")
        if self.folds < 0 or self.folds == 1:
            raise InputError(f"The folds of GaussNewton are {self.folds}: give 2 or more, or 0 for none.")
        if not self.ridges or min(self.ridges) < 0:
            raise InputError("GaussNewton needs one ridge or more, and none below 0.")

    @property
    def settings(self) -> Settings:
        rounds = len(self.horizons) * self.rounds
        return Settings(horizon=max(self.horizons), weights=Uniform(), epochs=rounds, least_steps=1)

    def vary(self, **changes: Any) -> "GaussNewton":
        known: dict[str, Any] = {name: changes[name] for name in ("network",) if name in changes}
        if "horizon" in changes:
            known["horizons"] = (changes["horizon"],)
        return replace(self, **known)

    def most_steps(self, train: Episodes) -> int:
        fits = self.starts * len(self.ridges) * (1 + self.folds)
        passes = fits * len(self.horizons) * self.rounds * self.iterations * (1 + len(DAMPINGS))
        return passes * train.num_steps

    def fit(
        self,
        train: Episodes,
        valid: Episodes,
        *,
        key: Key,
        score: Score,
        checkpoint: str | Path | None = None,
    ) -> Fit:
        """The mean of the starts with the best ridge. There is no checkpoint: the same call gives the same
        bits."""
        # Many small decompositions: threads that wait for each other take fifty times as long.
        with threadpool_limits(limits=1, user_api="blas"):
            return self._fit(train, valid, key, score)

    def _fit(self, train: Episodes, valid: Episodes, key: Key, score: Score) -> Fit:
        begun, pool = time.perf_counter(), pooled(train, valid) if self.folds else train
        race = start_race(
            self.network,
            pool,
            starts=self.starts,
            ridges=self.ridges,
            folds=self.folds,
            least_rollouts=self.least_rollouts,
            key=key,
        )
        judge = _Judge(score, valid, race.rollouts(self.judged) if self.folds else None)
        best = judge.look(race.lap(race.begin(), self.horizons[0]), 0, begun)
        history, outcome, reached = (best.epoch,), Outcome.FINISHED, 0
        try:
            with progress_bar(f"{pool.num_steps} steps at once", len(self.horizons) * self.rounds, 0) as show:
                for horizon in self.horizons:
                    if self._is_late(begun):
                        outcome = Outcome.STOPPED_EARLY
                        break
                    lap, since = race.lap(best.lap.descents.weights, horizon), 0
                    if lap.horizon <= reached:
                        continue
                    reached = lap.horizon
                    for _ in range(self.rounds):
                        if since == PATIENCE or self._is_late(begun):
                            outcome = Outcome.STOPPED_EARLY
                            break
                        started = time.perf_counter()
                        lap = lap.go_on(self.iterations)
                        found = judge.look(lap, len(history), started)
                        history, since = (*history, found.epoch), since + 1
                        if is_better(found.epoch.score, best.epoch.score):
                            best, since = found, 0
                        show(best.epoch.score)
        except KeyboardInterrupt:
            outcome = Outcome.INTERRUPTED
        if not history[-1].is_sound and not best.epoch.is_scored:
            outcome = Outcome.DIVERGED
        return Fit(best.lap.model(best.ridge), history, outcome, kept=best.epoch)

    def _is_late(self, begun: float) -> bool:
        return self.seconds is not None and time.perf_counter() - begun > self.seconds


class _Look(NamedTuple):
    """How everyone does at one moment: the best ridge, and what the history keeps of it."""

    lap: Lap
    ridge: int
    epoch: Epoch


@dataclass(frozen=True)
class _Judge:
    """The score on the validation episodes, or R2 of what each fold leaves out."""

    score: Score
    valid: Episodes
    held_out: Rollouts | None

    def look(self, lap: Lap, number: int, started: float) -> _Look:
        """The largest ridge that is not worth leaving for a smaller one."""
        values = [rankable(self._value(lap, ridge)) for ridge in range(len(lap.race.ridges))]
        order = sorted(range(len(values)), key=lambda ridge: -lap.race.ridges[ridge])
        ridge = order[0]
        for other in order[1:]:
            ridge = other if is_better(values[other], values[ridge]) else ridge
        errors = lap.errors(ridge)
        weights = (1 / len(errors),) * len(errors)
        epoch = Epoch(number, errors, weights, values[ridge], time.perf_counter() - started)
        return _Look(lap, ridge, epoch)

    def _value(self, lap: Lap, ridge: int) -> float:
        if self.held_out is not None:
            return lap.held_out_r2(ridge, self.held_out)
        return self.score(lap.model(ridge), self.valid)
