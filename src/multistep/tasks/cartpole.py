"""Cartpole swing-up of the DeepMind Control Suite.

Observations are (x, cos theta, sin theta, x_dot, theta_dot), theta being zero when the pole stands upright;
the one action is the force on the cart, from -1 to 1. An episode has 1000 steps of 0.01 s.
"""

import math
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float
from numpy import ndarray

from multistep.tasks.task import Task
from multistep.types import Action, Scalar, State

if TYPE_CHECKING:
    import gymnasium


def reward(observation: State, action: Action, next_observation: State) -> Scalar:
    r"""$\frac{1+\cos\theta}2\cdot\frac{1+e^{-\ln(10)\,x^2/4}}2\cdot\left(1-\frac{a^2}5\right)\cdot\frac{1+e^{-\ln(10)\,\dot\theta^2/25}}2$.

    All of the NEXT observation, with the action clipped to [-1, 1]. The paper prints the velocity of the cart
    in the last factor; the suite uses the angular velocity of the pole.
    """
    x, cos_theta, _, _, theta_dot = next_observation
    upright = (1 + cos_theta) / 2
    centred = (1 + jnp.exp(-math.log(10) / 4 * x**2)) / 2
    small_action = 1 - jnp.clip(action[0], -1, 1) ** 2 / 5
    slow = (1 + jnp.exp(-math.log(10) / 25 * theta_dot**2)) / 2
    return upright * centred * small_action * slow


def observe(states: Float[ndarray, "*batch 4"]) -> Float[ndarray, "*batch 5"]:
    """Observations of the simulator's states (x, theta, x_dot, theta_dot)."""
    x, theta, x_dot, theta_dot = np.moveaxis(states, -1, 0)
    return np.stack([x, np.cos(theta), np.sin(theta), x_dot, theta_dot], axis=-1)


def simulator_states_of(observations: Float[ndarray, "*batch 5"]) -> Float[ndarray, "*batch 4"]:
    """The simulator's states nearest to these observations: noisy cosine and sine give the angle of their
    direction."""
    x, cos_theta, sin_theta, x_dot, theta_dot = np.moveaxis(observations, -1, 0)
    return np.stack([x, np.arctan2(sin_theta, cos_theta), x_dot, theta_dot], axis=-1)


def rewards(
    states: Float[ndarray, "steps_and_one 4"], actions: Float[ndarray, "steps 1"]
) -> Float[ndarray, " steps"]:
    """The environment's rewards: here all that they need is observed."""
    observations = jnp.asarray(observe(states), jnp.float32)
    return np.asarray(
        jax.vmap(reward)(observations[:-1], jnp.asarray(actions, jnp.float32), observations[1:])
    )


def _load() -> "gymnasium.Env[Any, Any]":
    from multistep.tasks.cartpole_environment import CartpoleEnvironment

    return CartpoleEnvironment()


CARTPOLE = Task(
    name="cartpole",
    state_names=("x", "cos_theta", "sin_theta", "x_dot", "theta_dot"),
    action_names=("force",),
    episode_steps=1000,
    simulator_steps=1,
    load=_load,
    reward=reward,
    observe=observe,
    simulator_states_of=simulator_states_of,
    rewards=rewards,
)
