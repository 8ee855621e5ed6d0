"""`multistep agent plan`: what an agent would do, step by step, in the model itself."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np

from multistep.agents.planning import plan
from multistep.commands.agent_options import Planning, find_scene, make_planner
from multistep.data import Past
from multistep.errors import InputError
from multistep.runs.run_folder import check_run, write_run

COMMAND = "agent plan"


@dataclass(frozen=True)
class PlanConfig(Planning):
    """Plan in a learned model, step by step, from a state."""

    state: tuple[float, ...] = ()
    """State to start in (default: the first one of the data)."""
    steps: int = 100
    """Decisions to take."""
    out: Path = Path("runs/plan")
    """Folder for rows and figure."""


def run_plan(config: PlanConfig) -> dict[str, Any]:
    """Plan, leave the episode in `config.out` and return the summary."""
    check_run(config.out, COMMAND)
    scene = find_scene(config)
    imagination, planner = make_planner(config, scene)
    past = imagination.num_past
    if past > 1 and config.state:
        raise InputError(
            f"The model starts from {past} states: leave out --state, it starts as the data does."
        )
    first = scene.starts[int(np.argmax(scene.starts.lengths >= past - 1))]  # that is long enough
    state = np.asarray(config.state) if config.state else first.states[past - 1].astype(np.float64)
    names = scene.starts.state_names
    if len(state) != len(names):
        raise InputError(
            f"The state has {len(state)} numbers, the model {len(names)} ({', '.join(names)}): give one for "
            "each."
        )
    for name, value, low, high in zip(names, state, imagination.low, imagination.high, strict=True):
        if not low <= value <= high:
            raise InputError(
                f"The state has {name} = {value:g}, but the model is rolled out within {low:.4g} and "
                f"{high:.4g}: give a state inside, or a larger --margin."
            )
    if config.steps < 1:
        raise InputError(f"{config.steps} steps were asked for: plan at least 1.")
    start = Past(jnp.asarray(first.states[:past], float), jnp.asarray(first.actions[: past - 1], float))
    planned = plan(
        planner, imagination, state if past == 1 else start, num_steps=config.steps, seed=config.seed
    )
    rows = [
        {
            "step": step,
            **{name: float(value) for name, value in zip(names, planned.states[step], strict=True)},
            **{
                name: float(value)
                for name, value in zip(scene.starts.action_names, planned.actions[step], strict=True)
            },
            "reward": float(planned.rewards[step]),
        }
        for step in range(len(planned.actions))
    ]
    first_action = {name: rows[0][name] for name in scene.starts.action_names}
    summary = {
        "first_action": first_action,
        "return": float(planned.rewards.sum()),
        "steps": len(rows),
        "left": planned.left,
    }
    write_run(
        config.out, COMMAND, config, rows, summary | {"states": names, "actions": scene.starts.action_names}
    )
    return summary
