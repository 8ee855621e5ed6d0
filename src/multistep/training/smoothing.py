"""`fit_smoothed`: fit, take the noise out of the episodes with the model, fit again; `learn`: that, or one fit alone."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int
from numpy import ndarray

from multistep.data import Episode, Episodes, Windows, estimate_noise, window_starts
from multistep.dynamics import AbstractModel, Observer
from multistep.errors import InputError
from multistep.training.config import SMOOTHED, FitConfig, Smoothed
from multistep.training.fit import Fit, Score, fit
from multistep.training.history import Outcome
from multistep.training.progress import progress_spinner
from multistep.types import Key, Scalar, State

PaddedStates = Float[Array, "episodes time_and_one state"]
PaddedActions = Float[Array, "episodes time action"]
SEGMENTS, SEGMENT_STEPS = 100, 100
LEAST, MOST = 1e-4, 1.0
"""Deviations of noise that are looked for, as shares of each state's own deviation."""
LEAST_STEPS = 5
EPISODES_AT_ONCE = 32


@dataclass(frozen=True)
class SmoothedFit(Fit):
    """The second of two fits, or the first where there is a reason for no second."""

    observer: Observer | None
    """The model of the first fit, and the noise on the measurements that it found; none if it could not look for it."""
    reason: str | None
    """Why the first fit is the only one; none if there was a second."""

    @property
    def is_second(self) -> bool:
        """Whether there was a second fit, that of the model."""
        return self.reason is None


def learn(
    train: Episodes,
    valid: Episodes,
    config: FitConfig | Smoothed = SMOOTHED,
    *,
    key: Key,
    score: Score,
    checkpoint: str | Path | None = None,
) -> Fit:
    """One fit, or two with the noise taken out in between, as the configuration says."""
    match config:
        case Smoothed():
            return fit_smoothed(train, valid, config, key=key, score=score, checkpoint=checkpoint)
        case FitConfig():
            return fit(train, valid, config, key=key, score=score, checkpoint=checkpoint)


def fit_smoothed(
    train: Episodes,
    valid: Episodes,
    config: Smoothed = SMOOTHED,
    *,
    key: Key,
    score: Score,
    checkpoint: str | Path | None = None,
) -> SmoothedFit:
    """A fit to the training episodes as the model of a first fit has smoothed them; `valid` stays as it was measured.

    The first fit is that of `fit` with the same key. It is the only one where its model cannot take noise out: where in no
    state the noise that it finds exceeds what it misses in one step.
    """

    def fit_to(episodes: Episodes, config: FitConfig, key: Key, part: str) -> Fit:
        return fit(episodes, valid, config, key=key, score=score, checkpoint=_beside(checkpoint, part))

    first = fit_to(train, config.measured, key, "measured")
    if first.outcome in (Outcome.DIVERGED, Outcome.INTERRUPTED):
        return _only(first, None, f"The outcome of the first fit: {first.outcome}.")
    observer = None
    try:
        with progress_spinner("taking the noise out of the episodes"):
            observer = fit_observer(first.model, train)
            if not _has_noise(observer, train):
                return _only(first, observer, "The noise is less than the model misses in one step.")
            smoothed = smooth(observer, train)
    except KeyboardInterrupt:
        return replace(_only(first, None, "It was interrupted."), outcome=Outcome.INTERRUPTED)
    except InputError as error:
        return _only(first, observer, str(error))
    second = fit_to(smoothed, config.smoothed, jax.random.fold_in(key, 1), "smoothed")
    if second.outcome is Outcome.DIVERGED:
        return _only(first, observer, "A fit to the smoothed episodes diverged.")
    return SmoothedFit(second.model, second.history, second.outcome, observer, None)


def fit_observer(model: AbstractModel, episodes: Episodes) -> Observer:
    """The observer whose noise makes the measurements of the episodes likeliest under the model."""
    from scipy.optimize import minimize  # slow to import

    _check_length(episodes)
    steps = min(SEGMENT_STEPS, _usual_length(episodes))
    starts = window_starts(episodes, steps)
    starts = starts[np.unique(np.linspace(0, len(starts) - 1, SEGMENTS).round().astype(int))]
    windows = Windows(jnp.asarray(episodes.states, float), jnp.asarray(episodes.actions, float), steps)
    unit = np.where(np.ptp(episodes.states, axis=0) > 0, episodes.states.std(axis=0, dtype=np.float64), 1)
    guess = np.nan_to_num(estimate_noise(episodes.states, episodes.actions, episodes.lengths) / unit, nan=0.01)
    first = np.log(np.clip(np.concatenate([guess, guess / 5]), LEAST, MOST))

    def objective(logs: Float[ndarray, " twice_state"]) -> tuple[float, Float[ndarray, " twice_state"]]:
        value, slope = _cost(jnp.asarray(logs, float), jnp.asarray(unit, float), model, windows, jnp.asarray(starts))
        return float(value), np.asarray(slope, np.float64)

    bounds = [(np.log(LEAST), np.log(MOST))] * len(first)
    # A smaller tolerance is lost in single precision: the line search then tries in vain.
    found: Any = minimize(objective, first, jac=True, method="L-BFGS-B", bounds=bounds, options={"ftol": 1e-5})
    if not np.isfinite(found.fun):
        raise InputError("The model diverges on the episodes, so that their noise cannot be found: train it for longer.")
    return _observer(model, jnp.asarray(found.x, float), jnp.asarray(unit, float))


def smooth(observer: Observer, episodes: Episodes) -> Episodes:
    """The episodes with the observer's best guess of every state in place of what was measured; a constant one stays."""
    states, constant = np.empty_like(episodes.states), np.ptp(episodes.states, axis=0) == 0
    buckets = np.ceil(np.log2(episodes.lengths))
    for bucket in np.unique(buckets):  # padded to the longest of a bucket: few programs to compile, whatever the lengths
        numbers = np.flatnonzero(buckets == bucket).tolist()
        found = np.asarray(_smooth_padded(observer, *_padded([episodes[number] for number in numbers])))
        for number, smoothed in zip(numbers, found, strict=True):
            first, count = episodes.state_offsets[number], episodes.lengths[number] + 1
            if not np.isfinite(smoothed[:count]).all():
                raise InputError(f"The model diverges in episode {number} and cannot smooth it: train it for longer.")
            states[first : first + count] = smoothed[:count]
    return replace(episodes, states=np.where(constant, episodes.states, states))


def _only(first: Fit, observer: Observer | None, reason: str) -> SmoothedFit:
    """The first fit as the result."""
    return SmoothedFit(first.model, first.history, first.outcome, observer, reason)


def _has_noise(observer: Observer, episodes: Episodes) -> bool:
    """Whether there is more noise on a measured state than the model misses of it in one step."""
    larger = observer.measurement_noise > observer.step_noise
    return bool(np.any(np.asarray(larger) & (np.ptp(episodes.states, axis=0) > 0)))


def _check_length(episodes: Episodes) -> None:
    steps = _usual_length(episodes)
    if steps < LEAST_STEPS:
        raise InputError(
            f"Half of all steps are in episodes of {steps} steps or fewer, where noise cannot be told from motion: smooth "
            f"episodes of {LEAST_STEPS} or more."
        )


def _usual_length(episodes: Episodes) -> int:
    """The largest number of steps that at least half of all steps lie in episodes of."""
    lengths = np.sort(episodes.lengths)[::-1]
    return int(lengths[np.searchsorted(np.cumsum(lengths), lengths.sum() / 2)])


def _padded(episodes: Sequence[Episode]) -> tuple[PaddedStates, PaddedActions, Int[Array, " episodes"]]:
    """Measured states and actions of each episode, the last ones repeated up to the longest, and their numbers of steps."""

    def stack(parts: Sequence[Float[ndarray, "_ dimension"]]) -> Float[Array, "episodes longest dimension"]:
        longest = max(map(len, parts))
        return jnp.asarray(np.stack([np.pad(part, ((0, longest - len(part)), (0, 0)), mode="edge") for part in parts]), float)

    lengths = jnp.asarray([len(episode.actions) for episode in episodes])
    return stack([episode.states for episode in episodes]), stack([episode.actions for episode in episodes]), lengths


@jax.jit
def _smooth_padded(
    observer: Observer, states: PaddedStates, actions: PaddedActions, num_steps: Int[Array, " episodes"]
) -> PaddedStates:
    return jax.lax.map(lambda episode: observer.smooth(*episode), (states, actions, num_steps), batch_size=EPISODES_AT_ONCE)


@jax.jit
@jax.value_and_grad
def _cost(
    logs: Float[Array, " twice_state"],
    unit: State,
    model: AbstractModel,
    windows: Windows,
    starts: Int[Array, "segments 2"],
) -> Scalar:
    """Minus the mean log-density of a measurement in the segments, for the logarithms of the noise's deviations."""
    observer = _observer(model, logs, unit)
    densities = jax.vmap(lambda start: observer.filter(*windows.gather(start)).log_density)(starts)
    return -densities.mean()


def _observer(model: AbstractModel, logs: Float[Array, " twice_state"], unit: State) -> Observer:
    measurement, step = jnp.split(jnp.exp(logs), 2)
    return Observer(model, measurement * unit, step * unit)


def _beside(checkpoint: str | Path | None, part: str) -> Path | None:
    """The checkpoint of one of the two fits."""
    return None if checkpoint is None else Path(checkpoint).with_stem(f"{Path(checkpoint).stem}_{part}")
