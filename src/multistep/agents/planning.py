"""What a planner would do: an episode in the model itself, decision by decision."""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float
from numpy import ndarray

from multistep.agents.imagination import Imagination
from multistep.agents.planners import AbstractPlanner, Sequences, decide, past_of
from multistep.data import Past
from multistep.types import Action, State


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
    start: Float[ndarray, " state"] | Past,
    *,
    num_steps: int,
    seed: int,
) -> Planned:
    """Decide, take the step in the model, decide again, until `num_steps` or until the model leaves its
    range."""
    key, memory = jax.random.key(seed), planner.start()
    observed = start if isinstance(start, Past) else jnp.asarray(start, float)
    past = past_of(observed, imagination.num_past)
    # Every member of an ensemble takes a step; the episode follows the first.
    now = _start(imagination, past)
    states, actions, rewards, left = [past.states[-1]], [], [], False
    while len(actions) < num_steps and not left:
        action, memory = decide(planner, past, memory, jax.random.fold_in(key, len(actions)))
        copies = jnp.broadcast_to(action, (imagination.num_members, action.size))
        now = _try_actions(imagination, now.memories, now.states, copies)
        states.append(now.states[0])
        actions.append(action)
        rewards.append(now.rewards[0])
        left = bool(now.left[0])
        past = _later(past, action, states[-1])
    return Planned(np.stack(states), np.stack(actions), np.stack(rewards), left)


def _later(past: Past, action: Action, state: State) -> Past:
    """The past one step later."""
    actions = jnp.concatenate([past.actions, action[None]])[1:] if len(past.actions) else past.actions
    return Past(jnp.concatenate([past.states, state[None]])[1:], actions)


@eqx.filter_jit
def _start(imagination: Imagination, past: Past) -> Sequences:
    return Sequences.start(imagination, past, imagination.num_members)


_try_actions = jax.jit(Imagination.try_actions)
