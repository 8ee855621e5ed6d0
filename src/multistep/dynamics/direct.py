"""`Direct`: a network for each number of steps ahead, from one state and all actions since; nothing is rolled
out within its horizon."""

from dataclasses import dataclass, field, replace
from functools import partial
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PyTree

from multistep.data import Episodes, Past
from multistep.dynamics.base import AbstractArchitecture, AbstractDynamics, AbstractModel, Prediction
from multistep.dynamics.network import NetworkConfig
from multistep.dynamics.stacked import stacked
from multistep.errors import InputError
from multistep.types import Action, Key, State


@dataclass(frozen=True)
class DirectConfig(AbstractArchitecture):
    """A network for each number of steps ahead."""

    horizon: int = 10
    """How many: further ahead it goes in strides of so many steps."""
    network: AbstractArchitecture = field(default_factory=NetworkConfig)
    """What each of them is; its action is all actions of the horizon."""

    def __post_init__(self) -> None:
        if self.horizon < 1:
            raise InputError(f"A direct model of {self.horizon} steps ahead: it takes 1 or more.")

    def suited_to(self, episodes: Episodes) -> "DirectConfig":
        return replace(self, network=self.network.suited_to(episodes))

    def make(self, state_size: int, action_size: int, *, key: Key) -> "Direct":
        members = [
            self.network.make(state_size, self.horizon * action_size, key=own).freeze()
            for own in jax.random.split(key, self.horizon)
        ]
        networks = stacked(members)
        if not isinstance(networks, AbstractModel):
            raise InputError(
                f"A direct model was asked for around {type(self.network).__name__}, which has a memory of "
                "its own: leave one of the two out."
            )
        return Direct(networks, self.network, self.horizon)


class Anchored(NamedTuple):
    """The memory: where the stride began, what has been done since, and where that has led."""

    anchor: State
    actions: Float[Array, "horizon action"]
    """Zeros where there are none yet."""
    taken: Int[Array, ""]
    """Steps since the anchor."""
    state: State


class Direct(AbstractDynamics):
    r"""$\hat s_{t+j} = f_j(s_t, a_t, \ldots, a_{t+j-1})$ for j = 1, ..., H, each $f_j$ a network of its own;
    then again from $\hat s_{t+H}$.

    All networks have the same inputs, with zeros for the actions that are still to come, and predict the
    change of the state since the anchor. Within H steps no error is fed back; beyond, the last network is
    chained. A loss of a horizon of at most H trains each by itself.
    """

    networks: AbstractModel
    """Each of its arrays with a leading axis of steps ahead."""
    network: AbstractArchitecture = eqx.field(static=True)
    horizon: int = eqx.field(static=True)

    @property
    def num_past(self) -> int:
        return 1

    def start(self, past: Past) -> Anchored:
        return self._anchored(past.states[-1], past.actions.shape[1])

    def step(self, memory: Anchored, given: Action) -> Anchored:
        actions = memory.actions.at[memory.taken].set(given)
        network = jax.tree.map(lambda leaf: leaf[memory.taken], self.networks)
        state = network.step(memory.anchor, actions.ravel())
        going = Anchored(memory.anchor, actions, memory.taken + 1, state)
        again = self._anchored(state, given.size)
        return jax.tree.map(partial(jnp.where, going.taken == self.horizon), again, going)

    def predict(self, memory: Anchored) -> Prediction:
        return Prediction(memory.state)

    def trained(self) -> PyTree[bool]:
        return Direct(self.networks.trained(), self.network, self.horizon)  # pyright: ignore

    @property
    def architecture(self) -> DirectConfig:
        return DirectConfig(self.horizon, self.network)

    def _anchored(self, state: State, action_size: int) -> Anchored:
        actions = jnp.zeros((self.horizon, action_size), state.dtype)
        return Anchored(state, actions, jnp.zeros((), jnp.int32), state)
