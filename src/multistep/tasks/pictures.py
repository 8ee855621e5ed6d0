"""Pictures of an episode, drawn by MuJoCo off the screen."""

import multiprocessing
import os
from concurrent.futures import ProcessPoolExecutor
from typing import Any

import numpy as np
from jaxtyping import Float, UInt8
from numpy import ndarray

from multistep.errors import InputError, reason_of
from multistep.tasks.task import Task

VARIABLE = "MUJOCO_GL"
OFF_SCREEN = "egl"


def draw_frames(
    task: Task, simulator_states: Float[ndarray, "frames simulator"], *, height: int = 240, width: int = 320
) -> UInt8[ndarray, "frames height width 3"]:
    """One picture of each state; an `InputError` says so where there is no way to draw."""
    # MuJoCo decides how to draw when it is imported, which has happened here: hence a process of its own.
    chosen = os.environ.get(VARIABLE)
    os.environ[VARIABLE] = chosen or OFF_SCREEN
    try:
        with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
            return pool.submit(_draw, task.name, simulator_states, height, width).result()
    except Exception as error:
        raise InputError(
            f"No pictures can be drawn here ({reason_of(error)}): MuJoCo needs a GL for that."
        ) from error
    finally:
        if chosen is None:
            del os.environ[VARIABLE]


def _draw(
    task: str, simulator_states: Float[ndarray, "frames simulator"], height: int, width: int
) -> UInt8[ndarray, "frames height width 3"]:
    import mujoco

    from multistep.tasks import TASKS

    model: Any = TASKS[task].make().unwrapped.model  # pyright: ignore[reportAttributeAccessIssue]
    library: Any = mujoco
    data = library.MjData(model)
    frames = []
    with library.Renderer(model, height, width) as renderer:
        for state in simulator_states:
            data.qpos[:], data.qvel[:] = state[: model.nq], state[model.nq :]
            library.mj_forward(model, data)
            renderer.update_scene(data, camera=0 if model.ncam else -1)
            frames.append(renderer.render().copy())
    return np.stack(frames)
