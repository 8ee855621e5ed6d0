"""What a planner would do: an episode in the model itself, decision by decision."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float
from numpy import ndarray

from multistep.agents.imagination import Imagination
from multistep.agents.planners import AbstractPlanner, decide


class Planned(NamedTuple):
    """An episode in the model."""

    states: Float[ndarray, "steps_and_one state"]
    actions: Float[ndarray, "steps action"]
    rewards: Float[ndarray, " steps"]
    left: bool
    """Whether it ended because the model left the range of its states."""


def plan(
    planner: AbstractPlanner[Any],
    imagination: Imagination,
    state: Float[ndarray, " state"],
    *,
    num_steps: int,
    seed: int,
) -> Planned:
    """Decide, take the step in the model, decide again, until `num_steps` or until the model leaves its
    range."""
    key, memory = jax.random.key(seed), planner.start()
    states, actions, rewards, left = [jnp.asarray(state, float)], [], [], False
    while len(actions) < num_steps and not left:
        action, memory = decide(planner, states[-1], memory, jax.random.fold_in(key, len(actions)))
        # Every member of an ensemble takes a step; the episode follows the first.
        copies = [
            jnp.broadcast_to(values, (imagination.num_members, values.size))
            for values in (states[-1], action)
        ]
        reached, reward, has_left = _try_actions(imagination, *copies)
        states.append(reached[0])
        actions.append(action)
        rewards.append(reward[0])
        left = bool(has_left[0])
    return Planned(np.stack(states), np.stack(actions), np.stack(rewards), left)


_try_actions = jax.jit(Imagination.try_actions)
