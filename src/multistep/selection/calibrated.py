"""`calibrate`: how far a model's forecasts may be off, found on episodes that it was not trained on."""

from dataclasses import replace
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float
from numpy import ndarray

from multistep.data import Episodes
from multistep.dynamics import AbstractModel, MemoryModel, Model, Observer, Uncertainty
from multistep.dynamics.uncertainty import NORMAL, SHARES, normal_scales
from multistep.evaluation import score, usual_horizon
from multistep.evaluation.calibration import forecasts_of
from multistep.evaluation.disagreement import disagreement
from multistep.training import fit_observer, has_noise
from multistep.training.judge import num_measurements
from multistep.training.smoothing import CannotSmooth
from multistep.types import Key

HORIZON = 100
"""Steps ahead that scales are fitted for, where episodes are long enough."""
LEAST_EPISODES = 4
"""Held-out episodes that the scales need: errors within one are of one kind."""
WINDOWS, PARTICLES = 200, 30
"""Of the forecasts that scales are fitted to: more of the same few episodes show little more."""
LEAST, MOST = 1e-3, 1e6
"""Deviations that an error counts at least and at most."""
NEIGHBOURS = 0.25
"""Of a horizon, on both sides: horizons that share what they show of the scale."""


def calibrate(
    model: Model | MemoryModel,
    train: Episodes,
    held_out: Episodes | None,
    *,
    key: Key,
    observer: Observer | None = None,
) -> Model | MemoryModel:
    """The model, knowing how far it may be off: its `predict` gives intervals that hold what they promise.

    ```python
    model = ms.calibrate(fit.model, train, valid, key=key)
    low, high = model.predict(state, actions).interval(0.9)
    ```
    With fewer than four held-out episodes the intervals are those of a normal distribution, and say so.

    **Arguments:**

    - `model`: what a fit returned.
    - `train`: the episodes that it was trained on: the noise is found there.
    - `held_out`: others; none, if there are none. Windows of one episode are alike: what counts is how many
    episodes there are.
    - `key`: for the particles.
    - `observer`: the noise, if it is known already.
    """
    first = _by_noise(model, train, observer)
    if held_out is None or len(held_out) < LEAST_EPISODES:
        return replace(model, uncertainty=first)
    # Half of an episode at most: its windows start all along it, not at its beginning alone; and no longer
    # than as many episodes are as it takes.
    longest = min(int(np.sort(part.lengths)[-min(LEAST_EPISODES, len(part))]) for part in (train, held_out))
    horizon = min(HORIZON, (longest - first.num_past + 1) // 2)
    known = fit_scales(model, first, train, held_out, horizon, key=key) if horizon > 0 else first
    return replace(model, uncertainty=known)


def fit_scales(
    model: Model | MemoryModel,
    first: Uncertainty,
    train: Episodes,
    held_out: Episodes,
    horizon: int,
    *,
    key: Key,
) -> Uncertainty:
    """With the scales that make intervals hold as many of the measurements as they promise.

    What is held out is a few episodes, and errors within one are of one kind. So the scales are those of the
    training episodes, which are many, times by how much more the model is off by in the others: of all states
    together, and of each by itself as far as they are sure of that. With the difference d of a state's mean
    logarithm from that of all and its standard error e that is d max(0, 1 - (e/d)^2) (James and Stein's).
    """
    seen_key, new_key = jax.random.split(key)
    seen = _errors_of(model, first, train, horizon, seen_key)
    new = _errors_of(model, first, held_out, horizon, new_key)
    excess = _trend(new.by_episode.mean(axis=0) - seen.by_episode.mean(axis=0))
    of_all = excess.mean(axis=1, keepdims=True)
    own = excess - of_all
    about_all = seen.by_episode - seen.by_episode.mean(axis=2, keepdims=True)
    variance = about_all.var(axis=0) * (1 / len(seen.by_episode) + 1 / len(new.by_episode))
    with np.errstate(divide="ignore", invalid="ignore"):
        sure = np.nan_to_num(1 - np.maximum(_trend(variance), 0) / own**2, nan=0.0, neginf=0.0)
    scales = jnp.asarray(seen.scales * np.exp(of_all + np.clip(sure, 0, 1) * own)[None], float)
    return replace(first, rest=first.rest_at(horizon), scales=scales, num_episodes=len(new.by_episode))


class _Errors(NamedTuple):
    """How far measurements are from forecasts, in deviations of these."""

    scales: Float[ndarray, "shares steps state"]
    """Within so many are as many measurements as each share says."""
    by_episode: Float[ndarray, "episodes steps state"]
    """Mean logarithm in each episode."""


def _errors_of(
    model: Model | MemoryModel, first: Uncertainty, episodes: Episodes, horizon: int, key: Key
) -> _Errors:
    found = forecasts_of(
        model, first, episodes, horizon=horizon, key=key, num_windows=WINDOWS, number=PARTICLES
    )
    with np.errstate(invalid="ignore"):  # of forecasts that run away
        parts = [
            (np.abs(part.measured - part.mean) / np.where(part.spread > 0, part.spread, np.inf), part.episode)
            for part in found
        ]
    errors, episode = (np.concatenate(values) for values in zip(*parts, strict=True))
    errors = np.where(np.isfinite(errors), np.minimum(errors, MOST), MOST)  # some forecasts run away
    scales = np.quantile(errors, SHARES, axis=0)
    # A state that never changes is not off by anything: as a normal distribution has it.
    scales = np.where(scales > 0, scales, np.asarray(NORMAL)[:, None, None])
    logs = np.log(np.maximum(errors, LEAST))
    by_episode = np.stack([logs[episode == number].mean(axis=0) for number in np.unique(episode)])
    return _Errors(_over_neighbours(scales), by_episode)


def _trend(values: Float[ndarray, "steps state"]) -> Float[ndarray, "steps state"]:
    """The straight line through each column over the logarithm of the horizon."""
    steps = np.log1p(np.arange(len(values)))
    columns = np.stack([np.ones_like(steps), steps], axis=1)
    return columns @ np.linalg.lstsq(columns, values, rcond=None)[0]


def _by_noise(model: Model | MemoryModel, train: Episodes, observer: Observer | None) -> Uncertainty:
    """What follows from the noise on measurements and steps; of a model with a memory of its own, from its
    errors in training."""
    size = train.state_size
    nothing = jnp.zeros(size)
    if isinstance(model, AbstractModel):
        try:
            found = fit_observer(model, train) if observer is None else observer
            past = num_measurements(train) if has_noise(found, train) else 1
            none, scales = jnp.zeros((HORIZON, size)), normal_scales(HORIZON, size)
            own = disagreement(model, train).max()
            return Uncertainty(
                found.measurement_noise, found.step_noise, none, scales, jnp.asarray(own, float), 0, past
            )
        except CannotSmooth:
            pass
    steps = max(1, usual_horizon(train, HORIZON, model.num_past))
    errors = score(model, train, horizon=steps).rmse
    assert errors is not None
    rest = jnp.asarray(np.where(np.isfinite(errors), errors, 0), float)
    own = jnp.asarray(disagreement(model, train).max(), float)
    return Uncertainty(nothing, nothing, rest, normal_scales(steps, size), own, 0, model.num_past)


def _over_neighbours(scales: Float[ndarray, "shares steps state"]) -> Float[ndarray, "shares steps state"]:
    """The mean of each scale's logarithm over neighbouring horizons."""
    steps = scales.shape[1]
    logs = np.log(np.maximum(scales, np.finfo(float).tiny))
    sums = np.concatenate([np.zeros_like(logs[:, :1]), np.cumsum(logs, axis=1)], axis=1)
    place = np.arange(steps)
    reach = (NEIGHBOURS * (place + 1)).astype(int)
    low, high = np.maximum(place - reach, 0), np.minimum(place + reach + 1, steps)
    return np.exp((sums[:, high] - sums[:, low]) / (high - low)[None, :, None])
