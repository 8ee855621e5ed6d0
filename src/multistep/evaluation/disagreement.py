"""`disagreement`: where the members of an ensemble differ more than where they were trained, nobody was."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int
from numpy import ndarray

from multistep.data import Episodes, Windows, count_windows, window_starts
from multistep.dynamics import AbstractDynamics, MemoryModel, Model, forecast, last_of
from multistep.types import State

HORIZON = 10
"""Steps ahead that members are compared at: one step shows little of what they have learned."""
WINDOWS = 400


def disagreement(model: Model | MemoryModel, episodes: Episodes) -> Float[ndarray, " episodes"]:
    """Deviation of the members' forecasts about their mean, in deviations of the training's states, the mean
    over each episode; 0 of a model without members, and of episodes that are too short to say.

    **Arguments:**

    - `model`: an ensemble.
    - `episodes`: those of the training, or others to compare with them.
    """
    members, found = model.separate(), np.zeros(len(episodes))
    starts = window_starts(episodes, HORIZON, model.num_past)
    if len(members) < 2 or not len(starts):
        return found
    owners = np.repeat(np.arange(len(episodes)), count_windows(episodes.lengths, HORIZON, model.num_past))
    chosen = np.unique(np.linspace(0, len(starts) - 1, WINDOWS).round().astype(int))
    data = jnp.asarray(episodes.states, float), jnp.asarray(episodes.actions, float)
    unit = jnp.asarray(model.normaliser.state_deviation, float)
    differences = np.asarray(
        _differences(members, Windows(*data, HORIZON, model.num_past), jnp.asarray(starts[chosen]), unit)
    )
    for number in np.unique(owners[chosen]):
        found[number] = differences[owners[chosen] == number].mean()
    return np.where(np.isfinite(found), found, np.inf)


@eqx.filter_jit
def _differences(
    members: tuple[AbstractDynamics, ...], windows: Windows, starts: Int[Array, "windows 2"], unit: State
) -> Float[Array, " windows"]:
    def of_window(start: Int[Array, " 2"]) -> Float[Array, ""]:
        past, actions, _ = windows.gather(start)
        last = jnp.stack(
            [forecast(member, last_of(past, member.num_past), actions).mean[-1] for member in members]
        )
        return jnp.sqrt((last.var(axis=0) / unit**2).mean())

    return jax.lax.map(of_window, starts, batch_size=50)
