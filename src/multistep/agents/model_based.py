"""Soft actor-critic on a learned model: sbx's SAC with its defaults, on many rollouts of `ModelEnv` at
once."""

import math
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from multistep.agents.imagination import imagination_digest
from multistep.agents.model_env import ModelEnv
from multistep.agents.sbx_agents import sbx_sac
from multistep.agents.stages import check_seed, claim, train_in_stages
from multistep.errors import InputError

if TYPE_CHECKING:
    from sbx import SAC

PAPER_STEPS = 500_000


def train_on_model(
    env: ModelEnv,
    *,
    num_steps: int = PAPER_STEPS,
    seed: int,
    folder: Path | None = None,
    least_stage_steps: int = 10_000,
    on_steps: Callable[[int], None] = lambda steps: None,
    on_stage: Callable[["SAC"], None] = lambda agent: None,
) -> "SAC":
    """The agent after `num_steps` steps in the model.

    Every call of the environment takes a step in each of its rollouts, and is followed by as many gradient
    steps: the ratio of updates to steps is that of one environment.

    **Arguments:**

    - `env`: the model as an environment.
    - `num_steps`: steps in all rollouts together.
    - `seed`: of the agent and of the rollouts.
    - `folder`: where the training is checkpointed after each stage; the same call goes on from there.
    - `least_stage_steps`: a stage starts anew from states of the data, and is as long as whole rollouts of at
      least this many steps in all.
    - `on_steps`, `on_stage`: are handed the steps taken, and the agent after each stage.
    """
    sac = sbx_sac()  # or a sentence on what to install
    from multistep.agents.model_vec_env import ModelVecEnv

    if num_steps < 1 or num_steps % env.num_envs:
        raise InputError(
            f"{num_steps} steps in {env.num_envs} rollouts at once: give a multiple of that, 1 or more."
        )
    check_seed(seed)
    rollout_steps = env.num_envs * env.imagination.rollout_steps
    stage_steps = max(1, math.ceil(least_stage_steps / rollout_steps)) * rollout_steps
    agent = sac("MlpPolicy", ModelVecEnv(env), gradient_steps=env.num_envs, buffer_size=num_steps, seed=seed)
    if folder is not None:
        claim(folder, imagination_digest(env.imagination, num_steps, stage_steps, env.num_envs, seed))
    whole, rest = divmod(num_steps, stage_steps)
    stages = [stage_steps] * whole + [rest] * (rest > 0)
    return train_in_stages(agent, stages, seed=seed, folder=folder, on_steps=on_steps, on_stage=on_stage)
