"""`Uncertainty`: what a model knows of how far its forecasts may be off; `Forecast`: one with its spread."""

from statistics import NormalDist
from typing import Any

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float
from numpy import ndarray

from multistep.errors import InputError
from multistep.types import Scalar, State, States

SHARES = (0.25, 0.5, 0.6827, 0.8, 0.9, 0.95, 0.99)
"""Of what is measured, within a central interval: for each of them its own scale."""
ONE_DEVIATION = SHARES.index(0.6827)
NORMAL = tuple(NormalDist().inv_cdf((1 + share) / 2) for share in SHARES)
"""Half of the width of these intervals in deviations, of a normal distribution."""

Scales = Float[Array, "shares steps state"]


class Uncertainty(eqx.Module):
    """Noise on measurements and on steps, what particles do not know of, and how wide intervals are to be.

    The scales are fitted on episodes that were held out: within so many deviations of the mean lie so many of
    what was measured there, at each step ahead and for each state.
    """

    measurement_noise: State
    """Deviation of the noise on a measured state."""
    step_noise: State
    """Deviation of what one step is off by."""
    rest: Float[Array, "steps state"]
    """Deviation, at each step ahead, of what neither the noise nor the members account for."""
    scales: Scales
    """Half of the width of intervals in deviations, for each of `SHARES`."""
    disagreement: Scalar
    """Of the members of an ensemble, in the training episode in which it was greatest; 0 of one model."""
    num_episodes: int = eqx.field(static=True)
    """Held-out episodes that the scales are fitted to; 0: they are those of a normal distribution."""
    num_past: int = eqx.field(static=True)
    """Measurements that its forecasts started from."""

    @property
    def sizes(self) -> dict[str, int]:
        """What `empty` makes one of the same shapes of, for the header of a model file."""
        return {"steps": len(self.rest), "num_episodes": self.num_episodes, "num_past": self.num_past}

    @staticmethod
    def empty(state_size: int, *, steps: int, num_episodes: int, num_past: int) -> "Uncertainty":
        """One that knows of nothing yet."""
        nothing = jnp.zeros(state_size)
        rest, scales = jnp.zeros((steps, state_size)), jnp.zeros((len(SHARES), steps, state_size))
        return Uncertainty(nothing, nothing, rest, scales, jnp.zeros(()), num_episodes, num_past)

    def scales_at(self, horizon: int) -> Float[Array, "shares horizon state"]:
        """Those of each step ahead; beyond the last that is known, those of the last."""
        return self.scales[:, self._places(horizon)]

    def rest_at(self, horizon: int) -> Float[Array, "horizon state"]:
        return self.rest[self._places(horizon)]

    def _places(self, horizon: int) -> Any:
        return jnp.minimum(jnp.arange(horizon), len(self.rest) - 1)


class Forecast(eqx.Module):
    """What will be measured after each of the actions: mean, deviation, quantiles, samples, in the user's
    units."""

    mean: States
    spread: States
    """Deviation of the particles and of the noise, as it is before the scales are applied."""
    samples: Float[Array, "samples time state"]
    """What may be measured, equally likely each; errors of one sample belong together, over time and over
    the states."""
    scales: Float[Array, "shares time state"]
    state_names: tuple[str, ...] = eqx.field(static=True)
    time_step: float | None = eqx.field(static=True)
    num_episodes: int = eqx.field(static=True)

    @property
    def is_calibrated(self) -> bool:
        """Whether the width of intervals was fitted to held-out episodes."""
        return self.num_episodes > 0

    @property
    def deviation(self) -> States:
        """Standard deviation: half of the width of what holds 68 % of all measurements."""
        return self.spread * self.scales[ONE_DEVIATION]

    def quantile(self, share: float) -> States:
        """What so large a share of the measurements is below, at each step ahead."""
        if not 0 < share < 1:
            raise InputError(f"A quantile of {share}: it must be between 0 and 1, as 0.05 or 0.95.")
        return self.mean + jnp.sign(share - 0.5) * self.spread * width_of(abs(2 * share - 1), self.scales)

    def interval(self, share: float = 0.9) -> tuple[States, States]:
        """Between what the given share of the measurements is, symmetric about the mean."""
        if not 0 < share < 1:
            raise InputError(f"An interval for a share of {share}: it must be between 0 and 1, as 0.9.")
        half = self.spread * width_of(share, self.scales)
        return self.mean - half, self.mean + half


def width_of(share: float, scales: Float[Array | ndarray, "shares ..."]) -> Float[Array, "..."]:
    """Half of the width of a central interval in deviations: linear in that of a normal distribution between
    the shares that are known, in proportion to it beyond the last."""
    normal = NormalDist().inv_cdf((1 + share) / 2)
    known = jnp.concatenate([jnp.zeros_like(scales[:1]), jnp.asarray(scales)])
    places = (0.0, *NORMAL)
    if normal >= places[-1]:
        return known[-1] * (normal / places[-1])
    above = next(place for place, value in enumerate(places) if value > normal)
    part = (normal - places[above - 1]) / (places[above] - places[above - 1])
    return known[above - 1] + part * (known[above] - known[above - 1])


def normal_scales(steps: int, state_size: int) -> Scales:
    """Those of a normal distribution, where nothing was held out to fit others to."""
    return jnp.broadcast_to(jnp.asarray(NORMAL)[:, None, None], (len(NORMAL), steps, state_size))
