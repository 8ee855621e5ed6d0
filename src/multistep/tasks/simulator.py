"""MuJoCo itself, without an environment around it: many rollouts side by side."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from multistep.runs.process import available_cores


def simulate(
    model: Any,
    starts: Float[ndarray, "rollouts simulator"],
    actions: Float[ndarray, "rollouts steps action"],
    simulator_steps: int,
    *,
    warmstarts: Float[ndarray, "rollouts velocities"] | None = None,
) -> Float[ndarray, "rollouts steps simulator"]:
    """Positions and velocities after each action, which is held for `simulator_steps`; in C, on all cores.

    `warmstarts` are the accelerations from which the contact solver starts; with those of an environment the
    rollout is that environment's, bit for bit.
    """
    from mujoco import MjData, rollout  # pyright: ignore[reportAttributeAccessIssue]

    workers = [MjData(model) for _ in available_cores()]
    timed = np.concatenate([np.zeros((len(starts), 1)), starts], axis=1)
    controls = np.repeat(actions.astype(np.float64), simulator_steps, axis=1)
    with without_warnings():  # a rollout that becomes unstable is seen in its states
        states, _ = rollout.rollout(model, workers, timed, controls, initial_warmstart=warmstarts)
    return np.asarray(states)[:, simulator_steps - 1 :: simulator_steps, 1:]


@contextmanager
def without_warnings() -> Iterator[None]:
    """MuJoCo's warnings dropped: left alone, it prints them and writes a file into the working folder."""
    import mujoco

    before = mujoco.get_mju_user_warning()  # pyright: ignore[reportAttributeAccessIssue]
    mujoco.set_mju_user_warning(lambda text: None)  # pyright: ignore[reportAttributeAccessIssue]
    try:
        yield
    finally:
        mujoco.set_mju_user_warning(before)  # pyright: ignore[reportAttributeAccessIssue]
