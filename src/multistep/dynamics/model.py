"""`Model`: what a fit returns and everything else uses. One step of the dynamics in the user's own units."""

from abc import abstractmethod

import equinox as eqx
import jax
import jax.numpy as jnp
from numpy.typing import ArrayLike

from multistep.dynamics.network import Network
from multistep.dynamics.normaliser import Normaliser
from multistep.dynamics.rollout import rollout
from multistep.types import Action, Actions, State, States


class AbstractModel(eqx.Module):
    """Anything with a `step`: the contract for losses, scoring and agents."""

    @abstractmethod
    def step(self, state: State, action: Action) -> State:
        """The state after `action` was taken in `state`. Pure, on one example: `jax.vmap` it for many."""


class Model(AbstractModel):
    """A learned model: normalise, add the network's change, restore the units.

    ```python
    next_state = model.step(state, action)
    states = model.rollout(state, actions)     # (horizon, state)
    ```
    """

    network: Network
    normaliser: Normaliser
    state_names: tuple[str, ...] = eqx.field(static=True)
    action_names: tuple[str, ...] = eqx.field(static=True)

    def step(self, state: State, action: Action) -> State:
        return self.normaliser.restore_state(self._normalised_step(self.normaliser.normalise_state(state), action))

    def rollout(self, state: ArrayLike, actions: ArrayLike) -> States:
        """The states after each of the actions."""
        return _rollout(self, jnp.asarray(state, float), jnp.asarray(actions, float))

    def _normalised_step(self, state: State, action: Action) -> State:
        return state + self.network(jnp.concatenate([state, self.normaliser.normalise_action(action)]))


@jax.jit
def _rollout(model: Model, state: State, actions: Actions) -> States:
    return rollout(model.step, state, actions)
