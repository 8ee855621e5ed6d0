"""Windows: an episode's states and actions over `horizon` steps, kept as start indices into the flat arrays."""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int
from numpy import ndarray

from multistep.data.episodes import Episodes
from multistep.types import AllActions, AllStates, Key


class Window(NamedTuple):
    """`horizon` actions and the states before, between and after them."""

    states: Float[Array, "horizon_and_one state"]
    actions: Float[Array, "horizon action"]


class Windows(eqx.Module):
    """Windows of one horizon in a set of episodes; `gather` cuts out the one at a start, also inside compiled code.

    Memory is that of the data, whatever the horizon.
    """

    states: AllStates
    actions: AllActions
    horizon: int = eqx.field(static=True)

    def gather(self, start: Int[Array, " 2"]) -> Window:
        """The window whose first state and first action are at these indices."""
        steps = jnp.arange(self.horizon + 1, dtype=start.dtype)
        return Window(self.states[start[0] + steps], self.actions[start[1] + steps[:-1]])


def window_starts(episodes: Episodes, horizon: int) -> Int[ndarray, "windows 2"]:
    """Index of the first state and of the first action of every window that lies within one episode."""
    counts = np.maximum(episodes.lengths - horizon + 1, 0)
    within = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
    return np.stack(
        [np.repeat(episodes.state_offsets, counts) + within, np.repeat(episodes.action_offsets, counts) + within],
        axis=1,
    ).astype(np.int32)


def deal(starts: Int[ndarray, "windows 2"], batch_size: int, *, key: Key) -> Int[ndarray, "batches batch 2"]:
    """The starts in random order, in batches; those that do not fill the last batch wait for another deal.

    Shuffled by NumPy: a sort on the device takes a twentieth of a one-step epoch.
    """
    seed = np.asarray(jax.random.key_data(key)).tolist()
    order = np.random.default_rng(seed).permutation(len(starts))[: len(starts) // batch_size * batch_size]
    return starts[order].reshape(-1, batch_size, 2)
