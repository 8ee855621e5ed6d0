"""`ModelVecEnv`: a learned model as a vector environment of Stable-Baselines3, which sbx uses too."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from gymnasium import spaces
from numpy import ndarray
from stable_baselines3.common.vec_env import VecEnv

from multistep.agents.model_env import ModelEnv


class ModelVecEnv(VecEnv):
    """`ModelEnv` under the interface of Stable-Baselines3."""

    def __init__(self, env: ModelEnv):
        self.env = env
        self._actions: ndarray | None = None
        self._lengths, self._returns = np.zeros(env.num_envs, int), np.zeros(env.num_envs)
        # Without bounds: those of the model grow with its data, and an agent must fit the next model too.
        states = spaces.Box(-np.inf, np.inf, env.single_observation_space.shape, np.float32)
        super().__init__(env.num_envs, states, env.single_action_space)

    def reset(self) -> ndarray:
        self._lengths[:], self._returns[:] = 0, 0
        seed = self._seeds[0]
        self._reset_seeds()
        return self.env.reset(seed=seed)[0]

    def step_async(self, actions: ndarray) -> None:
        self._actions = actions

    def step_wait(self) -> tuple[ndarray, ndarray, ndarray, list[dict[str, Any]]]:
        assert self._actions is not None, "call step_async first"
        moment = self.env.advance(self._actions)
        self._lengths += 1
        self._returns += moment.rewards
        infos: list[dict[str, Any]] = [{} for _ in range(self.num_envs)]
        for number in np.flatnonzero(moment.ended):
            infos[number] = {
                "terminal_observation": moment.next_states[number],
                "TimeLimit.truncated": bool(moment.truncated[number]),
                "episode": {"r": float(self._returns[number]), "l": int(self._lengths[number]), "t": 0.0},
            }
        self._lengths[moment.ended], self._returns[moment.ended] = 0, 0
        return moment.states, moment.rewards, moment.ended, infos

    def close(self) -> None:
        self.env.close()

    def get_attr(self, attr_name: str, indices: Any = None) -> list[Any]:
        return [getattr(self.env, attr_name)] * len(self._numbers(indices))

    def set_attr(self, attr_name: str, value: Any, indices: Any = None) -> None:
        raise AttributeError("The rollouts of a model have no attributes of their own.")

    def env_method(
        self, method_name: str, *method_args: Any, indices: Any = None, **method_kwargs: Any
    ) -> list[Any]:
        raise AttributeError("The rollouts of a model have no methods of their own.")

    def env_is_wrapped(self, wrapper_class: Any, indices: Any = None) -> list[bool]:
        return [False] * len(self._numbers(indices))

    def _numbers(self, indices: Any) -> Sequence[int]:
        return list(self._get_indices(indices))
