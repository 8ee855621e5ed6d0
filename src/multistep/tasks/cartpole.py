"""Cartpole swing-up of the DeepMind Control Suite: data, reward and the score of the true dynamics.

Observations are (x, cos theta, sin theta, x_dot, theta_dot), theta being zero when the pole stands upright; the one
action is the force on the cart, from -1 to 1. An episode has 1000 steps of 0.01 s.
"""

import math
import warnings
from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float
from numpy import ndarray

from multistep.data import Episode, Episodes
from multistep.errors import InputError
from multistep.evaluation import ErrorSums, Scores, check_horizon, scores_of, state_unit
from multistep.process import available_cores
from multistep.types import Action, Key, Scalar, State

if TYPE_CHECKING:
    from dm_control.rl.control import Environment

STATE_NAMES = ("x", "cos_theta", "sin_theta", "x_dot", "theta_dot")
ACTION_NAMES = ("force",)
EPISODE_STEPS = 1000
DATASET_SEED = 6  # of the 50 random-policy episodes that demo and benchmark use


def load_environment(seed: int) -> "Environment":
    """The suite's own environment, its start positions drawn with this seed."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a machine without a screen warns on import; nothing here renders
            from dm_control import suite
    except ImportError as error:
        raise InputError(
            "Cartpole needs the simulator: install multistep with the extra 'tasks' (multistep[tasks])."
        ) from error
    return suite.load("cartpole", "swingup", task_kwargs={"random": seed})


def collect_random(num_episodes: int, *, key: Key, num_steps: int = EPISODE_STEPS) -> Episodes:
    """Episodes of the random policy: actions uniform in [-1, 1]. The same key gives the same episodes."""
    if num_episodes < 1:
        raise InputError(f"{num_episodes} episodes were asked for: collect at least 1.")
    seed_key, action_key = jax.random.split(key)
    environment = load_environment(int(jax.random.randint(seed_key, (), 0, 2**31 - 1)))
    starts = np.stack([_reset(environment) for _ in range(num_episodes)])
    actions = np.asarray(jax.random.uniform(action_key, (num_episodes, num_steps, 1), np.float32, -1, 1))
    states = np.concatenate([starts[:, None], simulate(environment, starts, actions)], axis=1)
    observations = observe(states).astype(np.float32)
    rewards = jax.vmap(jax.vmap(reward))(*map(jnp.asarray, (observations[:, :-1], actions, observations[:, 1:])))
    episodes = map(Episode, observations, actions, np.asarray(rewards))
    return Episodes.of(episodes, state_names=STATE_NAMES, action_names=ACTION_NAMES)


def reward(observation: State, action: Action, next_observation: State) -> Scalar:
    r"""$\frac{1+\cos\theta}2\cdot\frac{1+e^{-\ln(10)\,x^2/4}}2\cdot\left(1-\frac{a^2}5\right)\cdot\frac{1+e^{-\ln(10)\,\dot\theta^2/25}}2$.

    All of the NEXT observation, with the action clipped to [-1, 1]. The paper prints the velocity of the cart in the last
    factor; the suite uses the angular velocity of the pole.
    """
    x, cos_theta, _, _, theta_dot = next_observation
    upright = (1 + cos_theta) / 2
    centred = (1 + jnp.exp(-math.log(10) / 4 * x**2)) / 2
    small_action = 1 - jnp.clip(action[0], -1, 1) ** 2 / 5
    slow = (1 + jnp.exp(-math.log(10) / 25 * theta_dot**2)) / 2
    return upright * centred * small_action * slow


def ceiling(episodes: Episodes, *, horizon: int) -> Scores:
    """R2 of the true simulator rolled out from the same, noisy, first observations.

    What exact dynamics are worth: a model can pass it only by a little, by learning to discount the noise in its start.
    """
    check_horizon(episodes, horizon)
    environment, unit = load_environment(0), state_unit(episodes)
    sums = sum(
        (_episode_errors(environment, episodes[number], unit, horizon) for number in range(len(episodes))),
        start=ErrorSums(np.zeros((horizon, episodes.state_size)), np.zeros(horizon, int)),
    )
    return scores_of(sums, episodes, unit)


def simulate(
    environment: "Environment", starts: Float[ndarray, "rollouts 4"], actions: Float[ndarray, "rollouts steps 1"]
) -> Float[ndarray, "rollouts steps 4"]:
    """Positions and velocities after each action, all rollouts side by side in C on all cores."""
    from mujoco import MjData, rollout  # pyright: ignore[reportAttributeAccessIssue]

    model = environment.physics.model.ptr
    workers = [MjData(model) for _ in available_cores()]
    timed = np.concatenate([np.zeros((len(starts), 1)), starts], axis=1)
    states, _ = rollout.rollout(model, workers, timed, actions.astype(np.float64))
    return np.asarray(states)[..., 1:]


def observe(states: Float[ndarray, "*batch 4"]) -> Float[ndarray, "*batch 5"]:
    """Observations of the simulator's states (x, theta, x_dot, theta_dot)."""
    x, theta, x_dot, theta_dot = np.moveaxis(states, -1, 0)
    return np.stack([x, np.cos(theta), np.sin(theta), x_dot, theta_dot], axis=-1)


def set_to(observations: Float[ndarray, "*batch 5"]) -> Float[ndarray, "*batch 4"]:
    """The simulator's states nearest to these observations: noisy cosine and sine give the angle of their direction."""
    x, cos_theta, sin_theta, x_dot, theta_dot = np.moveaxis(observations.astype(np.float64), -1, 0)
    return np.stack([x, np.arctan2(sin_theta, cos_theta), x_dot, theta_dot], axis=-1)


def _reset(environment: "Environment") -> Float[ndarray, " 4"]:
    environment.reset()
    data = environment.physics.data
    return np.concatenate([data.qpos, data.qvel])


def _episode_errors(environment: "Environment", episode: Episode, unit: Float[ndarray, " state"], horizon: int) -> ErrorSums:
    """Sums of the simulator's squared errors over the rollouts from every state of one episode."""
    length = len(episode.actions)
    steps = np.arange(length)[:, None] + np.arange(horizon)
    within = steps < length
    steps = np.minimum(steps, length - 1)
    predicted = observe(simulate(environment, set_to(episode.states[:-1]), episode.actions[steps]))
    errors = ((predicted - episode.states[steps + 1]) / unit) ** 2
    diverged = within & ~np.isfinite(errors).all(axis=-1)
    return ErrorSums(np.where(within[..., None], errors, 0).sum(axis=0), diverged.sum(axis=0))
