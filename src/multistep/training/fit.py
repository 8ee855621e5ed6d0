"""`fit`: minimise the multi-step loss over all windows; return the model, its history and why it stopped."""

import math
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int
from numpy import ndarray

from multistep.data import Episodes, Windows, deal, window_starts
from multistep.dynamics import Model, Normaliser, fit_normaliser, make_learner
from multistep.errors import InputError
from multistep.training.checkpoint import Record, fingerprint_of, read_checkpoint, write_checkpoint
from multistep.training.config import DEFAULT, FitConfig, Plan
from multistep.training.epoch import Training, train_epoch
from multistep.training.history import Epoch, Outcome
from multistep.runs.progress import progress_bar
from multistep.types import Key

Score = Callable[[Model, Episodes], float]


@dataclass(frozen=True)
class Fit:
    """What a fit returns, however it ended."""

    model: Model
    """The model at the end of the epoch with the best validation score."""
    history: tuple[Epoch, ...]
    """Every epoch, in order."""
    outcome: Outcome
    """Why the fit stopped."""

    @property
    def best_epoch(self) -> Epoch | None:
        """The epoch that the model is from; none if no epoch ended."""
        return _best(self.history)


class _Job(NamedTuple):
    """What stays the same in every epoch."""

    windows: Windows
    starts: Int[ndarray, "windows 2"]
    valid: Episodes
    score: Score
    config: FitConfig
    plan: Plan
    key: Key


class _Progress(eqx.Module):
    """The arrays of a checkpoint."""

    training: Training
    best: Model


def fit(
    train: Episodes,
    valid: Episodes,
    config: FitConfig = DEFAULT,
    *,
    key: Key,
    score: Score,
    checkpoint: str | Path | None = None,
) -> Fit:
    """Train a model on `train` and return it as it was when `score(model, valid)` was highest.

    Expected failure is data: a fit that diverges or is interrupted (Ctrl-C) returns what it has and says so
    in its outcome. With a `checkpoint` file, written after every epoch, the same call goes on where a killed
    one stopped and ends with the same bits.
    """
    init_key, epochs_key = jax.random.split(key)
    _check_data(train, config.horizon)
    normaliser, starts = fit_normaliser(train), window_starts(train, config.horizon)
    windows = Windows(*normaliser.normalise(train), config.horizon)
    job = _Job(windows, starts, valid, score, config, config.plan(len(starts)), epochs_key)
    learner = make_learner(config.network, train.state_size, train.action_size, key=init_key)
    progress = _start(Training.start(learner), normaliser, train)
    record = Record(fingerprint_of(train, valid, config, score, key=key), (), None)
    checkpoint = None if checkpoint is None else Path(checkpoint)
    if checkpoint is not None:
        progress, record = read_checkpoint(checkpoint, progress, record.fingerprint) or (progress, record)
    try:
        with progress_bar(config.horizon, job.plan.num_epochs, record.history) as show:
            while record.outcome is None:
                progress, record = _advance(job, progress, record)
                show(record.history[-1])
                if checkpoint is not None:
                    write_checkpoint(checkpoint, progress, record)
    except KeyboardInterrupt:
        return Fit(progress.best, record.history, Outcome.INTERRUPTED)
    if record.outcome is Outcome.FINISHED and not any(map(_is_scored, record.history)):
        warnings.warn(
            "No epoch has a finite score on the validation episodes: the model of the last one is kept.",
            stacklevel=2,
        )
    return Fit(progress.best, record.history, record.outcome)


def learning_rates(start: float, epoch: int, plan: Plan) -> Float[Array, " batches"]:
    """Learning rate of each batch of an epoch: half a cosine from `start` to zero after the last of all
    batches."""
    done = (epoch + np.arange(plan.num_batches) / plan.num_batches) / plan.num_epochs
    return jnp.asarray(start * (1 + np.cos(np.pi * done)) / 2, float)


def _advance(job: _Job, progress: _Progress, record: Record) -> tuple[_Progress, Record]:
    """Progress and record after one more epoch."""
    started, number = time.perf_counter(), len(record.history)
    order_key, dropout_key = jax.random.split(jax.random.fold_in(job.key, number))
    batches = deal(job.starts, job.plan.batch_size, key=order_key)
    rates = learning_rates(job.config.learning_rate, number, job.plan)
    training, report = train_epoch(
        progress.training, job.windows, batches, job.config.weights, rates, key=dropout_key
    )
    model = eqx.tree_at(lambda model: model.network, progress.best, training.network)
    value = _ranked(job.score(model, job.valid))
    errors, weights = (tuple(np.asarray(values, float).tolist()) for values in report)
    epoch = Epoch(number, errors, weights, value, time.perf_counter() - started)
    history = (*record.history, epoch)
    is_best = _best(history) == epoch
    outcome = _outcome(history, job.plan.num_epochs, job.config.patience)
    return _Progress(training, model if is_best else progress.best), Record(
        record.fingerprint, history, outcome
    )


def _outcome(history: tuple[Epoch, ...], num_epochs: int, patience: int | None) -> Outcome | None:
    """Why to stop after this history, or none."""
    if not all(map(math.isfinite, history[-1].errors)):
        return Outcome.DIVERGED
    if len(history) == num_epochs:
        return Outcome.FINISHED
    best = _best(history)
    if patience is not None and best is not None and history[-1].number - best.number >= patience:
        return Outcome.STOPPED_EARLY
    return None


def _ranked(score: float) -> float:
    """The score as it counts: one that is not a number ranks last."""
    return -math.inf if math.isnan(score) else float(score)


def _best(history: tuple[Epoch, ...]) -> Epoch | None:
    """The epoch with the highest score, the first of equals; while no score is finite, the one trained
    longest."""
    sound = [epoch for epoch in history if all(map(math.isfinite, epoch.errors))]
    if not any(_is_scored(epoch) for epoch in sound):
        return sound[-1] if sound else None
    return max(sound, key=lambda epoch: (epoch.score, -epoch.number))


def _is_scored(epoch: Epoch) -> bool:
    return epoch.score > -math.inf


def _check_data(train: Episodes, horizon: int) -> None:
    """Say what is odd about the training data, or refuse them."""
    num_short = int((train.lengths < horizon).sum())
    if num_short == len(train):
        raise InputError(
            f"All {len(train)} training episodes are shorter than the horizon of {horizon} steps (the "
            "longest has "
            f"{train.lengths.max()}): choose a shorter horizon or give longer episodes."
        )
    if num_short:
        warnings.warn(
            f"{num_short} of {len(train)} training episodes are shorter than the horizon of {horizon} steps "
            "and "
            "take no part in that fit.",
            stacklevel=3,
        )
    constant = train.constant_columns()
    if constant:
        warnings.warn(
            f"The training episodes never change in {', '.join(constant)}: the model learns nothing of it.",
            stacklevel=3,
        )


def _start(training: Training, normaliser: Normaliser, train: Episodes) -> _Progress:
    normaliser = jax.tree.map(lambda values: jnp.asarray(values, float), normaliser)
    model = Model(training.network, normaliser, train.state_names, train.action_names)
    return _Progress(training, model)
