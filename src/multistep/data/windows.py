"""Windows: what is known of an episode up to a moment, the actions after it and the states that they led
to."""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int
from numpy import ndarray

from multistep.data.episodes import Episodes
from multistep.types import AllActions, AllStates, Key, Lengths


class Past(NamedTuple):
    """The last states that were observed, the newest at the end, and the actions between them."""

    states: Float[Array, "past state"]
    actions: Float[Array, "past_less_one action"]


class Window(NamedTuple):
    """The past of a moment, `horizon` actions from then on, and the state after each of them."""

    past: Past
    actions: Float[Array, "horizon action"]
    states: Float[Array, "horizon state"]


class Windows(eqx.Module):
    """Windows of one horizon in a set of episodes; `gather` cuts out the one at a start, also in compiled
    code.

    They are kept as start indices into the flat arrays: memory is that of the data, whatever the horizon.
    """

    states: AllStates
    actions: AllActions
    horizon: int = eqx.field(static=True)
    num_past: int = eqx.field(static=True, default=1)

    def gather(self, start: Int[Array, " 2"]) -> Window:
        """The window whose first state and first action are at these indices."""
        steps = jnp.arange(self.num_past + self.horizon, dtype=start.dtype)
        states, actions = self.states[start[0] + steps], self.actions[start[1] + steps[:-1]]
        past = Past(states[: self.num_past], actions[: self.num_past - 1])
        return Window(past, actions[self.num_past - 1 :], states[self.num_past :])


@eqx.filter_jit
def gather_all(windows: Windows, starts: Int[Array, "windows 2"]) -> Window:
    """The windows at these starts, stacked."""
    return jax.vmap(windows.gather)(starts)


def count_windows(lengths: Lengths, horizon: int, num_past: int = 1) -> Lengths:
    """The number of windows in episodes of so many steps."""
    return np.maximum(lengths - (horizon + num_past - 1) + 1, 0)


def window_starts(episodes: Episodes, horizon: int, num_past: int = 1) -> Int[ndarray, "windows 2"]:
    """Index of the first state and of the first action of every window that lies within one episode."""
    counts = count_windows(episodes.lengths, horizon, num_past)
    within = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
    return np.stack(
        [
            np.repeat(episodes.state_offsets, counts) + within,
            np.repeat(episodes.action_offsets, counts) + within,
        ],
        axis=1,
    ).astype(np.int32)


def deal(starts: Int[ndarray, "windows 2"], batch_size: int, *, key: Key) -> Int[ndarray, "batches batch 2"]:
    """The starts in random order, in batches; those that do not fill the last batch wait for another deal.

    Shuffled by NumPy: a sort on the device takes a twentieth of a one-step epoch.
    """
    seed = np.asarray(jax.random.key_data(key)).tolist()
    order = np.random.default_rng(seed).permutation(len(starts))[: len(starts) // batch_size * batch_size]
    return starts[order].reshape(-1, batch_size, 2)
