"""The suite's Cartpole under Gymnasium's interface; importing this module needs the extra `tasks`."""

import warnings
from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Box
from jaxtyping import Float
from numpy import ndarray

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # a machine without a screen warns on import; nothing here renders
    from dm_control import suite


class CartpoleEnvironment(gymnasium.Env[ndarray, ndarray]):
    """Observations as one array, the end of the time as truncation; `model` and `data` are MuJoCo's."""

    observation_space = Box(-np.inf, np.inf, (5,), np.float64)
    action_space = Box(-1.0, 1.0, (1,), np.float32)

    def __init__(self) -> None:
        self._suite = suite.load("cartpole", "swingup")

    @property
    def model(self) -> Any:
        return self._suite.physics.model.ptr

    @property
    def data(self) -> Any:
        return self._suite.physics.data.ptr

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[ndarray, dict[str, Any]]:
        super().reset(seed=seed)
        if seed is not None:
            self._suite = suite.load("cartpole", "swingup", task_kwargs={"random": seed})
        return _flat(self._suite.reset()), {}

    def step(self, action: ndarray) -> tuple[ndarray, float, bool, bool, dict[str, Any]]:
        moment = self._suite.step(action)
        # The suite ends an episode by time only, which its discount of 1 says.
        return _flat(moment), float(moment.reward or 0.0), False, moment.last(), {}


def _flat(moment: Any) -> Float[ndarray, " 5"]:
    return np.concatenate([moment.observation["position"], moment.observation["velocity"]])
