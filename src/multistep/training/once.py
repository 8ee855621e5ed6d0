"""`Once`: one fit. Descend the loss over all windows; return the model, its history and why it stopped."""

import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field, fields, replace
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Int
from numpy import ndarray

from multistep.data import Episodes, Windows, count_windows, deal, window_starts
from multistep.dynamics import (
    ARCHITECTURES,
    AbstractArchitecture,
    NetworkConfig,
    Normaliser,
    in_units,
)
from multistep.errors import InputError
from multistep.runs.progress import progress_bar
from multistep.runs.provenance import plain
from multistep.training.base import AbstractCurriculum, AbstractRecipe, Fit, Lesson, Score
from multistep.training.checkpoint import Record, fit_digest, read_checkpoint, write_checkpoint
from multistep.training.curricula import Steady
from multistep.training.epoch import Training, train_epoch
from multistep.training.history import Epoch, Outcome, rankable
from multistep.training.settings import Settings
from multistep.types import Key


@dataclass(frozen=True)
class Once(Settings, AbstractRecipe):
    """One fit: everything that it depends on besides the data and the key.

    ```python
    fit = ms.fit(train, valid, ms.Once(horizon=20), key=key)
    ```
    """

    network: AbstractArchitecture = field(default_factory=NetworkConfig)
    """What is learned."""
    curriculum: AbstractCurriculum = field(default_factory=Steady)
    """How the training gets to its horizon: steady, growing, counted:STEPS (of the model), scheduled (for the
    loss of that name), or module:Name for your own."""

    @property
    def settings(self) -> Settings:
        return self

    def vary(self, **changes: Any) -> "Once":
        return replace(self, **changes)

    def most_steps(self, train: Episodes) -> int | None:
        def counted(horizon: int) -> int:
            return max(1, int(count_windows(train.lengths, horizon).sum()))

        return self.curriculum.most_steps(self, counted)

    def fit(
        self,
        train: Episodes,
        valid: Episodes,
        *,
        key: Key,
        score: Score,
        checkpoint: str | Path | None = None,
    ) -> Fit:
        init_key, epochs_key = jax.random.split(key)
        network = self.network.suited_to(train)
        learner = network.make(train.state_size, train.action_size, key=init_key)
        check_past(train, learner.num_past)
        _check_data(train, self.horizon, learner.num_past)
        normaliser = network.normaliser(train)
        arrays = normaliser.normalise(train)

        @cache
        def windows_of(horizon: int) -> tuple[Windows, Int[ndarray, "windows 2"]]:
            return Windows(*arrays, horizon, learner.num_past), window_starts(
                train, horizon, learner.num_past
            )

        job = _Job(self, train, normaliser, windows_of, valid, score, learner.num_past, epochs_key)
        learner = learner.begin(*windows_of(1), normaliser)
        progress = _Progress(Training.start(learner), job.model_of(learner))
        record = Record(fit_digest(train, valid, self, score, key=key), (), None)
        checkpoint = None if checkpoint is None else Path(checkpoint)
        if checkpoint is not None:
            progress, record = read_checkpoint(checkpoint, progress, record.fingerprint) or (progress, record)
        num_epochs = self.curriculum.num_epochs(self, job.count_windows)
        try:
            with progress_bar(f"horizon {self.horizon}", num_epochs, len(record.history)) as show:
                coming = record.outcome or job.next(record.history)
                while isinstance(coming, Lesson):
                    progress, history = job.advance(progress, record.history, coming)
                    coming = job.next(history)
                    record = Record(
                        record.fingerprint, history, None if isinstance(coming, Lesson) else coming
                    )
                    if checkpoint is not None:
                        write_checkpoint(checkpoint, progress, record)
                    show(history[-1].score)
        except KeyboardInterrupt:
            return self._ended(progress.best, record.history, Outcome.INTERRUPTED)
        if coming is Outcome.FINISHED and not any(epoch.is_scored for epoch in record.history):
            warnings.warn(
                "No epoch has a finite score on the validation episodes: the model of the last one is kept.",
                stacklevel=3,
            )
        return self._ended(progress.best, record.history, coming)

    def _ended(self, model: Any, history: tuple[Epoch, ...], outcome: Outcome) -> Fit:
        return Fit(model, history, outcome, kept=self.curriculum.best(history))


@plain.register
def _plain_once(once: Once) -> dict[str, Any]:
    """Field by field; loss and curriculum only where they are not the usual ones.

    Rows name their settings by a digest of this, and those that were written before there were others stay
    valid.
    """
    usual = {"loss": Once().loss, "curriculum": Once().curriculum}
    shown = {f.name: getattr(once, f.name) for f in fields(once)}
    return {name: plain(value) for name, value in shown.items() if name not in usual or value != usual[name]}


@plain.register
def _plain_architecture(architecture: AbstractArchitecture) -> dict[str, Any]:
    """Field by field, with the name of a user's own."""
    settings = {f.name: plain(getattr(architecture, f.name)) for f in fields(architecture)}  # pyright: ignore
    is_ours = isinstance(architecture, NetworkConfig)
    return settings if is_ours else {"kind": ARCHITECTURES.name_of(type(architecture)), **settings}


class _Progress(eqx.Module):
    """The arrays of a checkpoint."""

    training: Training
    best: Any


class _Job(NamedTuple):
    """What stays the same in every epoch."""

    recipe: Once
    train: Episodes
    normaliser: Normaliser
    windows_of: Callable[[int], tuple[Windows, Int[ndarray, "windows 2"]]]
    """The windows of a horizon, and where they start."""
    valid: Episodes
    score: Score
    num_past: int
    key: Key

    def count_windows(self, horizon: int) -> int:
        return int(count_windows(self.train.lengths, horizon, self.num_past).sum())

    def model_of(self, learner: Any) -> Any:
        normaliser = jax.tree.map(lambda values: jnp.asarray(values, float), self.normaliser)
        train = self.train
        return in_units(
            learner.freeze(), normaliser, train.state_names, train.action_names, train.time_step, train.units
        )

    def next(self, history: tuple[Epoch, ...]) -> Lesson | Outcome:
        """What comes after this history."""
        if history and not history[-1].is_sound:
            return Outcome.DIVERGED
        return self.recipe.curriculum.next(history, self.recipe, self.count_windows)

    def advance(
        self, progress: _Progress, history: tuple[Epoch, ...], lesson: Lesson
    ) -> tuple[_Progress, tuple[Epoch, ...]]:
        """Progress and history after one more epoch."""
        started, number = time.perf_counter(), len(history)
        order_key, loss_key = jax.random.split(jax.random.fold_in(self.key, number))
        windows, starts = self.windows_of(lesson.horizon)
        batches = deal(starts, lesson.batch_size, key=order_key)[: len(lesson.learning_rates)]
        rates = jnp.asarray(lesson.learning_rates, float)
        training, report = train_epoch(
            progress.training, windows, batches, lesson.loss, lesson.weights, rates, key=loss_key
        )
        model = self.model_of(training.learner)
        value = rankable(self.score(model, self.valid))
        errors, weights = (tuple(np.asarray(values, float).tolist()) for values in report[:2])
        steepness = None if report.steepness is None else float(report.steepness)
        epoch = Epoch(number, errors, weights, value, time.perf_counter() - started, steepness)
        history = (*history, epoch)
        is_best = self.recipe.curriculum.best(history) == epoch
        return _Progress(training, model if is_best else progress.best), history


def check_past(train: Episodes, num_past: int) -> None:
    """Raise an `InputError` unless an episode has a step after what a model needs to start."""
    longest = int(train.lengths.max())
    if longest < num_past:
        raise InputError(
            f"The model starts from {num_past} samples, but the longest training episode has {longest + 1}: "
            "ask for fewer lags, or give longer episodes."
        )


def _check_data(train: Episodes, horizon: int, num_past: int) -> None:
    """Say what is odd about the training data, or refuse them."""
    num_short = int((train.lengths < horizon + num_past - 1).sum())
    length = f"the horizon of {horizon} steps" + (f" and a past of {num_past} states" if num_past > 1 else "")
    if num_short == len(train):
        raise InputError(
            f"All {len(train)} training episodes are shorter than {length} (the longest has "
            f"{train.lengths.max()}): choose a shorter horizon or give longer episodes."
        )
    if num_short:
        warnings.warn(
            f"{num_short} of {len(train)} training episodes are shorter than {length} and take no part in "
            "that fit.",
            stacklevel=3,
        )
    constant = train.constant_columns()
    if constant:
        warnings.warn(
            f"The training episodes never change in {', '.join(constant)}: the model learns nothing of it.",
            stacklevel=3,
        )
