"""Observation noise: o = s + eps, eps ~ N(0, (scale x range)^2) per state dimension."""

from collections.abc import Sequence

import jax
import numpy as np

from multistep.data.episodes import Episodes
from multistep.errors import InputError
from multistep.types import Key


def add_noise(episodes: Episodes, scale: float | Sequence[float | int], *, key: Key) -> Episodes:
    r"""The episodes as a noisy sensor would have logged them.

    $o_t = s_t + \varepsilon_t$ with $\varepsilon_t \sim \mathcal N(0, \operatorname{diag}(c \odot r)^2)$,
    r the range (largest minus smallest value) of each state dimension over all these episodes.

    **Arguments:**

    - `episodes`: their actions and rewards stay as they are.
    - `scale`: c, one for all state dimensions or one for each.
    - `key`: the same key gives the same noise.
    """
    scales = np.broadcast_to(np.asarray(scale, np.float64), _shape(scale, episodes.state_size))
    if not (np.isfinite(scales) & (scales >= 0)).all():
        raise InputError(
            f"The noise scale is {scale}: it must be a finite number, 0 or more (0.02 is 2 % of the range)."
        )
    deviation = np.broadcast_to(scales, episodes.state_size) * np.ptp(episodes.states, axis=0)
    noise = np.asarray(jax.random.normal(key, episodes.states.shape, np.float32)) * deviation
    return episodes.with_states((episodes.states + noise).astype(episodes.states.dtype))


def _shape(scale: float | Sequence[float | int], state_size: int) -> tuple[int, ...]:
    shape = np.shape(scale)
    if shape not in ((), (state_size,)):
        raise InputError(
            f"There are {shape[0]} noise scales for {state_size} state dimensions: give one, or one for each."
        )
    return shape
