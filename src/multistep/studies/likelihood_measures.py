"""What is measured of a Gaussian model: what its likelihood weighs, and how often its intervals hold."""

import jax
import jax.numpy as jnp
import numpy as np

from multistep.data import Episodes, Window, Windows, gather_all, window_starts
from multistep.dynamics import Drawn, Gaussian, GaussianLearner, Model
from multistep.losses import forecast_batch, precisions, squared_errors
from multistep.runs.row_log import Row
from multistep.types import Key

SHARE, DEVIATIONS = 0.9, 1.6449
"""Of what is measured, in an interval of so many deviations to each side, if errors are normal."""
EVERY = 20
"""Rollouts start from every so many-th sample: a few hundred are enough for a share."""
DRAWS = 20
WAYS = ("last_step", "propagated", "drawn")
"""Deviations of a forecast: that of the last step alone, the propagated one, that of many drawn rollouts."""
STEPS = (1, 2, 5, 10, 20, 50, 100)
"""Steps ahead at which intervals are looked at."""


def learned_weights(model: Model, episodes: Episodes, horizon: int, *, key: Key) -> list[float]:
    r"""$\alpha_j \propto \langle 1 / 2\sigma_j^2 \rangle$ over all windows, in normalised units, in rollouts
    like those of the training (Figure "stoch_vs_det", left)."""
    batch = _windows(model, episodes, horizon)
    deviation = forecast_batch(_gaussian(model).thaw(), batch, key).deviation
    assert deviation is not None
    alphas = precisions(deviation)
    return np.asarray(alphas / alphas.sum(), float).tolist()


def free_weights(model: Model, episodes: Episodes, horizon: int) -> list[float]:
    r"""$\alpha_j \propto 1 / e_j$ over all windows, in normalised units: what a likelihood with one free
    variance for each step ahead would weigh, as its best one is $\sigma_j^2 = e_j$."""
    batch = _windows(model, episodes, horizon)
    predicted = forecast_batch(model.learned, batch, jax.random.key(0)).mean
    errors = np.asarray(squared_errors(predicted, batch.states).mean(axis=0), float)
    return (1 / errors / (1 / errors).sum()).tolist()


def coverage(model: Model, episodes: Episodes, horizon: int, *, key: Key) -> Row:
    """Share of what was measured within the central 90 % intervals, by deviation and steps ahead."""
    learned, batch = _gaussian(model), _windows(model, episodes, horizon, EVERY)
    last_step, propagated = (
        GaussianLearner(learned.inner, learned.bounds, rollouts) for rollouts in ("mean", "propagated")
    )
    shares: dict[str, dict[str, float]] = {}
    for way, dynamics in zip(WAYS, (last_step, propagated, Drawn(learned, key, DRAWS)), strict=True):
        predicted = forecast_batch(dynamics, batch, key)
        assert predicted.deviation is not None
        held = jnp.abs(predicted.mean - batch.states) <= DEVIATIONS * predicted.deviation
        by_step = held.mean(axis=(0, 2))
        shares[way] = {str(step): float(by_step[step - 1]) for step in STEPS if step <= horizon}
    return shares


def _gaussian(model: Model) -> Gaussian:
    assert isinstance(model.learned, Gaussian)
    return model.learned


def _windows(model: Model, episodes: Episodes, horizon: int, every: int = 1) -> Window:
    """Windows of the episodes in normalised units."""
    normaliser = jax.tree.map(np.asarray, model.normaliser)
    states, actions = normaliser.normalise(episodes)
    windows = Windows(states, actions, horizon)
    return gather_all(windows, jnp.asarray(window_starts(episodes, horizon)[::every]))
