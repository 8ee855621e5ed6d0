"""`Policy`: what SAC has learned, as pure functions for compiled code."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree

from multistep.types import Key

if TYPE_CHECKING:
    from sbx import SAC

StateBatch = Float[Array, "batch state"]
ActionBatch = Float[Array, "batch action"]


class Policy(eqx.Module):
    """Actor and critics of a trained agent."""

    actor: PyTree
    critics: PyTree
    discount: float = eqx.field(static=True)
    _act: Callable[..., Any] = eqx.field(static=True)
    _criticise: Callable[..., Any] = eqx.field(static=True)

    def sample(self, states: StateBatch, key: Key) -> ActionBatch:
        """Actions drawn from the policy, within -1 and 1."""
        return self._act(self.actor, states).sample(seed=key)

    def value(self, states: StateBatch, actions: ActionBatch) -> Float[Array, " batch"]:
        """The lower of the two critics' values of actions in states."""
        return jnp.min(self._criticise(self.critics, states, actions), axis=0)[:, 0]


def policy_of(agent: "SAC") -> Policy:
    """The policy of a trained agent."""
    actor, critics = agent.policy.actor_state, agent.policy.qf_state
    return Policy(actor.params, critics.params, float(agent.gamma), actor.apply_fn, critics.apply_fn)
