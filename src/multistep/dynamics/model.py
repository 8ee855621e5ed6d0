"""`Model`: what a fit returns and everything else uses. One step of the dynamics in the user's own units."""

from abc import abstractmethod

import equinox as eqx
import jax
import jax.numpy as jnp
from numpy.typing import ArrayLike

from multistep.dynamics.network import Network
from multistep.dynamics.normaliser import Normaliser
from multistep.dynamics.rollout import rollout
from multistep.errors import InputError
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
        state, actions = jnp.asarray(state, float), jnp.asarray(actions, float)
        if state.shape != (len(self.state_names),) or actions.shape[1:] != (len(self.action_names),):
            raise InputError(
                f"A rollout from a state of shape {state.shape} with actions of shape {actions.shape}: give one number for "
                f"each of {', '.join(self.state_names)}, and in every step one for each of {', '.join(self.action_names)}."
            )
        return _rollout(self, state, actions)

    def _normalised_step(self, state: State, action: Action) -> State:
        return state + self.network(jnp.concatenate([state, self.normaliser.normalise_action(action)]))


@jax.jit
def _rollout(model: Model, state: State, actions: Actions) -> States:
    return rollout(model.step, state, actions)
