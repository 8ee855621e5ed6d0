"""Normaliser: states and actions to zero mean and unit deviation, with the statistics of the training
episodes."""

from collections.abc import Sequence

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from numpy import ndarray

from multistep.data import Episodes, unit_of
from multistep.types import Action, AllActions, AllStates, State


class Normaliser(eqx.Module):
    """z = (s - mean) / deviation for states and, with statistics of their own, for actions."""

    state_mean: Float[Array | ndarray, " state"]
    state_deviation: Float[Array | ndarray, " state"]
    action_mean: Float[Array | ndarray, " action"]
    action_deviation: Float[Array | ndarray, " action"]
    state_range: Float[Array | ndarray, "2 state"] | None = None
    """Lowest and highest of each; none in models that were saved before it was kept."""
    action_range: Float[Array | ndarray, "2 action"] | None = None

    def normalise_state(self, state: State) -> State:
        return (state - self.state_mean) / self.state_deviation

    def normalise_action(self, action: Action) -> Action:
        return (action - self.action_mean) / self.action_deviation

    def restore_state(self, normalised: State) -> State:
        return normalised * self.state_deviation + self.state_mean

    def normalise(self, episodes: Episodes) -> tuple[AllStates, AllActions]:
        """All states and actions, normalised in double precision before they are rounded to the working
        one."""
        states = (episodes.states.astype(np.float64) - self.state_mean) / self.state_deviation
        actions = (episodes.actions.astype(np.float64) - self.action_mean) / self.action_deviation
        return jnp.asarray(states, float), jnp.asarray(actions, float)


def fit_normaliser(episodes: Episodes) -> Normaliser:
    """The normaliser of these episodes; a constant column keeps its unit, so that it normalises to zero."""
    (state_mean, state_unit), (action_mean, action_unit) = (
        (values.mean(axis=0, dtype=np.float64), unit_of(values))
        for values in (episodes.states, episodes.actions)
    )
    ranges = _range_of(episodes.states, episodes.turns), _range_of(episodes.actions)
    return Normaliser(state_mean, state_unit, action_mean, action_unit, *ranges)


def over_all_ranges(normalisers: Sequence[Normaliser]) -> Normaliser:
    """The first of them, with a range that holds those of all; with none, if one of them does not know
    its own."""

    def widest(ranges: list[Float[Array | ndarray, "2 column"] | None]) -> Float[ndarray, "2 column"] | None:
        known = [np.asarray(each) for each in ranges if each is not None]
        if len(known) < len(ranges):
            return None
        return np.stack(
            [np.min([low for low, _ in known], axis=0), np.max([high for _, high in known], axis=0)]
        )

    ranges = [
        widest([getattr(each, name) for each in normalisers]) for name in ("state_range", "action_range")
    ]
    first = normalisers[0]
    units = first.state_mean, first.state_deviation, first.action_mean, first.action_deviation
    return Normaliser(*units, *ranges)


def _range_of(
    values: Float[ndarray, "rows column"], turns: tuple[float, ...] = ()
) -> Float[ndarray, "2 column"]:
    """Lowest and highest of each column; of an angle that was seen all around, everything."""
    low, high = (found.astype(np.float64) for found in (values.min(axis=0), values.max(axis=0)))
    turn = np.asarray(turns or np.zeros(len(low)))
    is_whole = (turn > 0) & (high - low >= turn)
    return np.stack([np.where(is_whole, -np.inf, low), np.where(is_whole, np.inf, high)])
