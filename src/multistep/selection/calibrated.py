"""`calibrate`: how far a model's forecasts may be off, found on episodes that it was not trained on."""

from dataclasses import replace

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float
from numpy import ndarray

from multistep.data import Episodes
from multistep.dynamics import AbstractModel, MemoryModel, Model, Observer, Uncertainty
from multistep.dynamics.uncertainty import NORMAL, SHARES, normal_scales
from multistep.evaluation import score, usual_horizon
from multistep.evaluation.calibration import forecasts_of
from multistep.training import fit_observer, has_noise
from multistep.training.judge import num_measurements
from multistep.training.smoothing import CannotSmooth
from multistep.types import Key

HORIZON = 100
"""Steps ahead that scales are fitted for, where episodes are long enough."""
LEAST_EPISODES = 4
"""Held-out episodes that the scales need: errors within one are of one kind."""
WINDOWS = 600
NEIGHBOURS = 0.25
"""Of a horizon, on both sides: horizons that share what they show of the scale."""


def calibrate(
    model: Model | MemoryModel,
    train: Episodes,
    held_out: Episodes,
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
    - `held_out`: others. Windows of one episode are alike: what counts is how many episodes there are.
    - `key`: for the particles.
    - `observer`: the noise, if it is known already.
    """
    horizon = usual_horizon(held_out, HORIZON, model.num_past)
    first = _by_noise(model, train, observer, horizon)
    if isinstance(model, AbstractModel):
        horizon = min(horizon, usual_horizon(held_out, HORIZON, first.num_past))
    if len(held_out) < LEAST_EPISODES or horizon < 1:
        return replace(model, uncertainty=first)
    return replace(model, uncertainty=fit_scales(model, first, held_out, horizon, key=key))


def fit_scales(
    model: Model | MemoryModel, first: Uncertainty, held_out: Episodes, horizon: int, *, key: Key
) -> Uncertainty:
    """With the scales that make intervals hold as many of the held-out measurements as they promise."""
    parts = [
        (np.abs(part.measured - part.mean), part.spread)
        for part in forecasts_of(model, first, held_out, horizon=horizon, key=key, num_windows=WINDOWS)
    ]
    error, spread = (np.concatenate(values) for values in zip(*parts, strict=True))
    with np.errstate(divide="ignore", invalid="ignore"):
        scales = np.quantile(np.where(spread > 0, error / spread, np.nan), SHARES, axis=0)
    scales = np.where(np.isfinite(scales), scales, np.asarray(NORMAL)[:, None, None])
    smooth = _over_neighbours(np.maximum.accumulate(scales, axis=0))
    return replace(first, scales=jnp.asarray(smooth, float), num_episodes=len(held_out))


def _by_noise(
    model: Model | MemoryModel, train: Episodes, observer: Observer | None, horizon: int
) -> Uncertainty:
    """What follows from the noise on measurements and steps; of a model with a memory of its own, from its
    errors in training."""
    size = train.state_size
    nothing, scales = jnp.zeros(size), normal_scales(max(1, horizon), size)
    if isinstance(model, AbstractModel):
        try:
            found = fit_observer(model, train) if observer is None else observer
            past = num_measurements(train) if has_noise(found, train) else 1
            rest = jnp.zeros((max(1, horizon), size))
            return Uncertainty(found.measurement_noise, found.step_noise, rest, scales, 0, past)
        except CannotSmooth:
            pass
    steps = usual_horizon(train, HORIZON, model.num_past)
    errors = score(model, train, horizon=steps).rmse
    assert errors is not None
    rest = jnp.asarray(np.where(np.isfinite(errors), errors, 0), float)
    return Uncertainty(nothing, nothing, rest, scales, 0, model.num_past)


def _over_neighbours(scales: Float[ndarray, "shares steps state"]) -> Float[ndarray, "shares steps state"]:
    """The mean of each scale's logarithm over neighbouring horizons."""
    steps = scales.shape[1]
    logs = np.log(np.maximum(scales, np.finfo(float).tiny))
    sums = np.concatenate([np.zeros_like(logs[:, :1]), np.cumsum(logs, axis=1)], axis=1)
    place = np.arange(steps)
    reach = (NEIGHBOURS * (place + 1)).astype(int)
    low, high = np.maximum(place - reach, 0), np.minimum(place + reach + 1, steps)
    return np.exp((sums[:, high] - sums[:, low]) / (high - low)[None, :, None])
