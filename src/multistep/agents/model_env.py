"""`ModelEnv`: a learned model as a Gymnasium vector environment; `SingleModelEnv`: as a plain one."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space
from jaxtyping import Bool, Float
from numpy import ndarray

from multistep.agents.imagination import ROLLOUT_STEPS, ActionRange, Imagination, Reward, Rollouts, imagine
from multistep.data import Episodes
from multistep.dynamics import AbstractDynamics
from multistep.errors import InputError

_start = jax.jit(Imagination.start, static_argnums=1)
_step = jax.jit(Imagination.step, donate_argnums=1)


class ModelEnv(VectorEnv[ndarray, ndarray, ndarray]):
    """Rollouts in a learned model (or in an ensemble, whose members share them evenly), compiled, all at
    once.

    ```python
    env = ModelEnv(fit.model, reward=reward, starts=train, num_envs=100)
    states, _ = env.reset(seed=0)
    states, rewards, left, truncated, infos = env.step(env.action_space.sample())
    ```
    A rollout that ends starts anew in the same step, with its last state in `infos["final_obs"]`. One that
    leaves the range of states is terminated there and counted in `num_left`; where rewards are negative, it
    is charged the lowest of the data, or that of the edge, for a hundred steps more.

    **Arguments:**

    - `model`: one model, an ensemble, several models, or `multistep.dynamics.particles_of` one.
    - `reward`: a function of one (state, action, next state), in JAX.
    - `starts`: episodes; rollouts start in states drawn uniformly from them.
    - `num_envs`: rollouts at once.
    - `rollout_steps`: steps after which a rollout is truncated.
    - `margin`: states are kept within the range of `starts`, widened by this share of it on both sides.
    - `action_range`: the lowest and the highest action; by default -1 and 1, or the range of those of
      `starts` if some there are beyond.
    - `penalty`: what the members' disagreement on where a step leads costs of its reward (MOPO's form), for
      each share of the states' range.
    """

    metadata: dict[str, Any] = {"autoreset_mode": AutoresetMode.SAME_STEP, "render_modes": []}  # noqa: RUF012 - Gymnasium's

    def __init__(
        self,
        model: AbstractDynamics | Sequence[AbstractDynamics],
        reward: Reward,
        starts: Episodes,
        *,
        num_envs: int = 100,
        rollout_steps: int = ROLLOUT_STEPS,
        margin: float = 0.5,
        action_range: ActionRange | None = None,
        penalty: float = 0.0,
    ):
        if num_envs < 1:
            raise InputError(f"{num_envs} environments: give 1 or more.")
        self.imagination = imagine(
            model,
            reward,
            starts,
            margin=margin,
            rollout_steps=rollout_steps,
            action_range=action_range,
            penalty=penalty,
        )
        self.num_envs = num_envs
        self.single_observation_space = _box(self.imagination.low, self.imagination.high)
        self.single_action_space = _box(self.imagination.action_low, self.imagination.action_high)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self.num_left = 0
        """Rollouts that left the range so far."""
        self.num_ended = 0
        """Rollouts that ended so far, for whatever reason."""
        self._rollouts: Rollouts | None = None

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[ndarray, dict[str, Any]]:
        super().reset(seed=seed)
        key = jax.random.key(int(self.np_random.integers(2**31)))
        rollouts = _start(self.imagination, self.num_envs, key)
        self._rollouts = rollouts
        return np.array(rollouts.states), {}

    def step(self, actions: ndarray) -> tuple[ndarray, ndarray, ndarray, ndarray, dict[str, Any]]:
        moment = self.advance(actions)
        infos = {"final_obs": moment.next_states, "_final_obs": moment.ended} if moment.ended.any() else {}
        return moment.states, moment.rewards, moment.left, moment.truncated, infos

    def advance(self, actions: ndarray) -> "Moment":
        """One step of every rollout, what it came to and the states to act in next."""
        rollouts = self._rollouts
        if rollouts is None:
            raise gymnasium.error.ResetNeeded("Call reset before the first step.")
        inside = np.clip(actions, self.imagination.action_low, self.imagination.action_high)
        clipped = jnp.asarray(inside, rollouts.states.dtype)
        rollouts, result = _step(self.imagination, rollouts, clipped)
        self._rollouts = rollouts
        next_states, rewards, left, truncated = map(np.array, result)
        moment = Moment(np.array(rollouts.states), next_states, rewards, left, truncated & ~left)
        if not np.isfinite(rewards).all():
            where = next_states[np.flatnonzero(~np.isfinite(rewards))[0]]
            raise InputError(
                "The reward is not a finite number at a state that the model reaches "
                f"({np.array2string(where, precision=4)}): make it finite everywhere."
            )
        self.num_left += int(left.sum())
        self.num_ended += int(moment.ended.sum())
        return moment


class Moment(NamedTuple):
    """One step of every rollout, as NumPy arrays."""

    states: Float[ndarray, "rollouts state"]
    """States to act in next: where a rollout ended, the start of a new one."""
    next_states: Float[ndarray, "rollouts state"]
    """States that were reached."""
    rewards: Float[ndarray, " rollouts"]
    left: Bool[ndarray, " rollouts"]
    truncated: Bool[ndarray, " rollouts"]

    @property
    def ended(self) -> Bool[ndarray, " rollouts"]:
        return self.left | self.truncated


class SingleModelEnv(gymnasium.Env[ndarray, ndarray]):
    """The same for one rollout at a time, under Gymnasium's plain interface; slow, for what cannot take
    many."""

    metadata: dict[str, Any] = {"render_modes": []}  # noqa: RUF012 - Gymnasium's

    def __init__(
        self,
        model: AbstractDynamics,
        reward: Reward,
        starts: Episodes,
        *,
        rollout_steps: int = ROLLOUT_STEPS,
        margin: float = 0.5,
        action_range: ActionRange | None = None,
    ):
        self._vector = ModelEnv(
            model,
            reward,
            starts,
            num_envs=1,
            rollout_steps=rollout_steps,
            margin=margin,
            action_range=action_range,
        )
        self.observation_space = self._vector.single_observation_space
        self.action_space = self._vector.single_action_space

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[ndarray, dict[str, Any]]:
        super().reset(seed=seed)
        states, _ = self._vector.reset(seed=int(self.np_random.integers(2**31)))
        return states[0], {}

    def step(self, action: ndarray) -> tuple[ndarray, float, bool, bool, dict[str, Any]]:
        moment = self._vector.advance(action[None])
        state, reward, left, truncated = (values[0] for values in moment[1:])
        return state, float(reward), bool(left), bool(truncated), {}


def _box(low: Float[jax.Array, " size"], high: Float[jax.Array, " size"]) -> spaces.Box:
    return spaces.Box(np.asarray(low, np.float32), np.asarray(high, np.float32), dtype=np.float32)
