"""`multistep agent train`: SAC in a learned model."""

import statistics
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from multistep.agents.agent_files import ZIP, save_agent
from multistep.agents.model_based import PAPER_STEPS, train_on_model
from multistep.agents.model_env import ModelEnv
from multistep.commands.agent_options import (
    ABOUT_AGENT,
    InModel,
    action_range,
    find_scene,
    models_digest,
    rolled_out,
)
from multistep.runs.progress import counting_progress
from multistep.runs.row_log import RowLog
from multistep.runs.run_folder import open_run, write_json, write_run

CHECKPOINTS = "checkpoints"
COMMAND = "agent train"


@dataclass(frozen=True)
class TrainConfig(InModel):
    """Train SAC in a learned model."""

    steps: int = PAPER_STEPS
    """Steps in the model."""
    num_envs: int = 100
    """Rollouts in the model side by side."""
    rollout_steps: int = 100
    """Steps after which a rollout starts anew."""
    seed: int = 0
    """Seed of the training."""
    out: Path = Path("runs/agent")
    """Folder for the agent; the same command goes on from its last checkpoint."""


def run_train(config: TrainConfig) -> dict[str, Any]:
    """Train, leave the agent and the learning curve in `config.out` and return the summary."""
    scene = find_scene(config)
    env = ModelEnv(
        rolled_out(config, scene, config.seed),
        scene.reward,
        scene.starts,
        num_envs=config.num_envs,
        rollout_steps=config.rollout_steps,
        margin=config.margin,
        action_range=action_range(config),
        penalty=config.penalty,
    )
    open_run(config.out, COMMAND, config)
    log = RowLog(config.out / CHECKPOINTS / "stages.jsonl")
    with log.writing(), counting_progress() as progress:
        bar = progress.add_task("SAC in the model, steps", total=config.steps)

        def keep(agent: Any) -> None:
            log.append({"steps": agent.num_timesteps, **_about_rollouts(env, agent)})
            env.num_left = env.num_ended = 0

        agent = train_on_model(
            env,
            num_steps=config.steps,
            seed=config.seed,
            folder=config.out / CHECKPOINTS,
            on_steps=lambda steps: progress.update(bar, completed=steps),
            on_stage=keep,
        )
    save_agent(agent, config.out)
    write_json(config.out / ABOUT_AGENT, {"model": models_digest(scene.models), "steps": agent.num_timesteps})
    # A stage that was killed before its checkpoint is trained again, and has two rows.
    curve = list({row["steps"]: row for row in log.read()}.values())
    summary = {
        "agent": config.out / ZIP,
        "steps": agent.num_timesteps,
        "rollout_return": curve[-1]["rollout_return"],
        "left_share": sum(row["left"] for row in curve) / max(1, sum(row["ended"] for row in curve)),
    }
    write_run(config.out, COMMAND, config, curve, summary)
    return summary


def _about_rollouts(env: ModelEnv, agent: Any) -> dict[str, Any]:
    """The mean return of the last rollouts in the model, how many ended in this stage, and how many by
    leaving the range."""
    returns = [info["r"] for info in agent.ep_info_buffer or ()]
    return {
        "rollout_return": statistics.mean(returns) if returns else None,
        "ended": env.num_ended,
        "left": env.num_left,
    }
