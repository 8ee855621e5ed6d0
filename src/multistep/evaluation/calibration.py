"""How honest the spread of forecasts is: coverage, sharpness, and proper scores at every step ahead."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int
from numpy import ndarray

from multistep.data import Episodes, Windows, unit_of, window_starts
from multistep.dynamics import AbstractDynamics, Uncertainty, forecast_with_spread
from multistep.dynamics.particles import Members
from multistep.dynamics.uncertainty import ONE_DEVIATION, width_of
from multistep.errors import InputError
from multistep.types import Key, Keys

WINDOWS = 400
"""Forecasts that are looked at, spread evenly over all episodes."""
PARTICLES = 50
AT_ONCE = 25
"""Windows."""
JUDGED = (0.5, 0.9)
"""Shares whose intervals are looked at."""
LOWEST = 1e-6
"""Deviation of a forecast, as a share of the state's own."""


class Forecasts(NamedTuple):
    """Forecasts of some windows, and what was measured there."""

    mean: Float[ndarray, "windows horizon state"]
    spread: Float[ndarray, "windows horizon state"]
    samples: Float[ndarray, "windows samples horizon state"]
    measured: Float[ndarray, "windows horizon state"]
    episode: Int[ndarray, " windows"]
    """Number of the episode that each is in."""


@dataclass(frozen=True, eq=False)
class Calibration:
    """How honest forecasts are, for each step ahead and state."""

    coverage: dict[float, Float[ndarray, "horizon state"]]
    """Share of the measurements within the interval that was to hold so large a share."""
    width: dict[float, Float[ndarray, "horizon state"]]
    """Mean width of that interval, in the user's units."""
    crps: Float[ndarray, "horizon state"]
    """Continuous ranked probability score, in the user's units: the lower, the better."""
    log_likelihood: Float[ndarray, "horizon state"]
    """Mean log-density of the measurements under a normal distribution with mean and deviation of the
    forecast."""
    energy: Float[ndarray, " horizon"]
    """Energy score of all states together, each in units of its deviation."""
    r2: Float[ndarray, " horizon"]
    """R2 of the mean."""
    state_names: tuple[str, ...]
    num_windows: int

    @property
    def horizon(self) -> int:
        return len(self.energy)


def calibration(
    model: AbstractDynamics,
    uncertainty: Uncertainty,
    episodes: Episodes,
    *,
    horizon: int,
    key: Key,
    num_windows: int = WINDOWS,
    number: int = PARTICLES,
    members: Members = "kept",
) -> Calibration:
    """How well what was measured in the episodes agrees with forecasts of them.

    **Arguments:**

    - `model`, `uncertainty`: what forecasts are made by.
    - `episodes`: none of them trained on, nor used for the scales.
    - `horizon`: steps ahead.
    - `key`: for the particles.
    - `num_windows`: forecasts to look at, spread evenly.
    - `number`: particles of each.
    - `members`: what the members of an ensemble mean to a particle.
    """
    scales, unit = np.asarray(uncertainty.scales_at(horizon), np.float64), unit_of(episodes.states)
    sums, count = None, 0
    measured: list[Float[ndarray, "windows horizon state"]] = []
    for part in forecasts_of(
        model,
        uncertainty,
        episodes,
        horizon=horizon,
        key=key,
        num_windows=num_windows,
        number=number,
        members=members,
    ):
        own = _sums(part, scales, unit)
        sums = own if sums is None else jax.tree.map(np.add, sums, own)
        count += len(part.mean)
        measured.append(part.measured)
    assert sums is not None
    means = jax.tree.map(lambda values: values / count, sums)
    variance = np.concatenate(measured).var(axis=0)
    squared = np.where(np.isfinite(means["squared"]), means["squared"], np.inf)  # of a model that diverged
    with np.errstate(divide="ignore", invalid="ignore"):
        r2 = np.where(variance > 0, 1 - squared / variance, 0)
    changing = np.maximum((variance > 0).sum(axis=1), 1)
    return Calibration(
        {share: means[f"coverage {share}"] for share in JUDGED},
        {share: means[f"width {share}"] for share in JUDGED},
        means["crps"],
        means["log_likelihood"],
        means["energy"],
        r2.sum(axis=1) / changing,
        episodes.state_names,
        count,
    )


def _sums(
    part: Forecasts, scales: Float[ndarray, "shares horizon state"], unit: Float[ndarray, " state"]
) -> dict[str, Float[ndarray, "..."]]:
    """Of everything that is averaged over windows."""
    import scoringrules  # slow to import

    error, found = part.measured - part.mean, {}
    for share in JUDGED:
        half = part.spread * np.asarray(width_of(share, scales))
        found[f"coverage {share}"] = (np.abs(error) <= half).astype(float)
        found[f"width {share}"] = 2 * half
    # A state that never changes has no density.
    deviation = np.maximum(part.spread * scales[ONE_DEVIATION], LOWEST * unit)
    measured, samples = part.measured / unit, part.samples / unit
    found |= {
        "squared": error**2,
        "log_likelihood": -0.5 * (error / deviation) ** 2 - np.log(np.sqrt(2 * np.pi) * deviation),
        "crps": np.asarray(scoringrules.crps_ensemble(measured, samples, m_axis=1)) * unit,  # pyright: ignore
        "energy": np.asarray(scoringrules.es_ensemble(measured, samples, m_axis=1)),  # pyright: ignore
    }
    return {name: values.sum(axis=0) for name, values in found.items()}


def forecasts_of(
    model: AbstractDynamics,
    uncertainty: Uncertainty,
    episodes: Episodes,
    *,
    horizon: int,
    key: Key,
    num_windows: int = WINDOWS,
    number: int = PARTICLES,
    members: Members = "kept",
) -> Iterator[Forecasts]:
    """Forecasts of windows spread evenly over the episodes, some at a time."""
    starts = window_starts(episodes, horizon, uncertainty.num_past)
    if not len(starts):
        raise InputError(
            f"Forecasts of {horizon} steps after {uncertainty.num_past} measurements cannot be compared with "
            f"episodes of up to {int(episodes.lengths.max())} steps: ask for a shorter horizon."
        )
    starts = starts[np.unique(np.linspace(0, len(starts) - 1, num_windows).round().astype(int))]
    windows = Windows(
        jnp.asarray(episodes.states, float),
        jnp.asarray(episodes.actions, float),
        horizon,
        uncertainty.num_past,
    )
    keys = jax.random.split(key, len(starts))
    for first in range(0, len(starts), AT_ONCE):
        own, own_keys = (values[first : first + AT_ONCE] for values in (starts, keys))
        missing = AT_ONCE - len(own)  # one program for all
        padded = np.pad(own, ((0, missing), (0, 0)), mode="edge")
        padded_keys = jnp.concatenate([own_keys, jnp.broadcast_to(own_keys[-1:], (missing,))])
        found = _forecasts(model, uncertainty, windows, jnp.asarray(padded), padded_keys, number, members)
        episode = np.searchsorted(episodes.state_offsets, own[:, 0], side="right") - 1
        arrays = (np.asarray(values, np.float64)[: len(own)] for values in found)
        yield Forecasts(*arrays, episode=episode)  # pyright: ignore[reportCallIssue] - four of them


@eqx.filter_jit
def _forecasts(
    model: AbstractDynamics,
    uncertainty: Uncertainty,
    windows: Windows,
    starts: Int[Array, "windows 2"],
    keys: Keys,
    number: int,
    members: Members,
) -> tuple[Any, ...]:
    """Means, spreads, samples and measurements of all windows."""

    def of_window(start: Int[Array, " 2"], key: Key) -> tuple[Any, ...]:
        past, actions, states = windows.gather(start)
        found = forecast_with_spread(
            model, uncertainty, past, actions, number=number, key=key, members=members
        )
        return found.mean, found.spread, found.samples, states

    return jax.vmap(of_window)(starts, keys)
