"""`Policy`: what SAC has learned, as pure functions for compiled code."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import equinox as eqx
import jax.numpy as jnp
from gymnasium import spaces
from jaxtyping import Array, Float, PyTree

from multistep.agents.stages import sbx_sac
from multistep.errors import InputError, reason_of
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


def load_agent(path: Path, *, state_size: int, action_size: int) -> "SAC":
    """An agent from the file that sbx saved it to, if it is for states and actions of these sizes."""
    sac = sbx_sac()
    try:
        agent = sac.load(path)
    except Exception as error:  # a zip of whatever else raises whatever
        raise InputError(f"{path} is not an agent that sbx can load: {reason_of(error)}.") from error
    found = spaces.flatdim(agent.observation_space), spaces.flatdim(agent.action_space)
    if found != (state_size, action_size):
        raise InputError(
            f"The agent in {path} acts on {found[0]} states with {found[1]} actions, the model has "
            f"{state_size} and {action_size}: give an agent that was trained for this task."
        )
    return agent
