"""The online loop: refit the model to all episodes so far, improve the policy in it, act with both, repeat.

It makes the replay datasets of the paper: all episodes of an agent from its first, random ones on.
"""

import os
import shutil
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jax

from multistep.agents.acting import act
from multistep.agents.model_env import ModelEnv
from multistep.agents.planners import PolicyGuided
from multistep.agents.policy import policy_of
from multistep.agents.stages import claim, reporter, sbx_sac, stage_seed
from multistep.data import Episodes, load, save
from multistep.dynamics import Model
from multistep.evaluation import R2Bar
from multistep.selection.provenance import digest
from multistep.tasks.task import Task
from multistep.training import FitConfig, Outcome, fit

if TYPE_CHECKING:
    from sbx import SAC


@dataclass(frozen=True)
class OnlineConfig:
    """How the loop goes."""

    fit: FitConfig
    """How the model is trained, anew after every episode."""
    sac_steps: int
    """Steps of SAC in the model after every refit."""
    keeps_agent: bool
    """Whether SAC goes on from what it had learned; an agent that starts anew on every model is unstable."""
    num_random: int = 3
    """Episodes of random actions at the beginning."""
    num_envs: int = 100
    """Rollouts in the model side by side."""
    num_sequences: int = 500
    """Sequences that a decision tries."""
    plan_horizon: int = 20
    """Steps that a decision looks ahead."""


def collect_online(
    task: Task,
    config: OnlineConfig,
    *,
    num_episodes: int,
    seed: int,
    folder: Path,
    on_episode: Callable[[int, float], None] = lambda number, total: None,
) -> Episodes:
    """All episodes of the loop. Each is kept in `folder` as it ends; the same call goes on from there.

    `on_episode` is told the number of episodes and the return of the last one.
    """
    claim(folder, digest({"task": task.name, "config": config, "seed": seed}))
    while len(kept := sorted(folder.glob("episode_*"))) < num_episodes:
        number = len(kept)
        episodes, agent = _collect_next(task, config, kept, stage_seed(seed, number))
        _keep(folder, number, episodes, agent)
        on_episode(number + 1, float(episodes.returns[0]) if episodes.returns is not None else 0.0)
    return _episodes(kept[:num_episodes])


def _collect_next(task: Task, config: OnlineConfig, kept: list[Path], seed: int) -> tuple[Episodes, "SAC | None"]:
    """One more episode (as a set of one) and the agent that acted."""
    if len(kept) < config.num_random:
        return task.collect_random(1, key=jax.random.key(seed)), None
    episodes = _episodes(kept)
    model = _refit(episodes, config.fit, seed)
    env = ModelEnv(model, task.reward, episodes, num_envs=config.num_envs)
    agent = _improve(env, kept[-1] / "agent.zip" if config.keeps_agent else None, config.sac_steps, seed)
    planner = PolicyGuided(env.imagination, policy_of(agent), config.num_sequences, config.plan_horizon)
    acted = act(planner, task, seed=seed)
    return Episodes.of([acted.episode], state_names=task.state_names, action_names=task.action_names), agent


def _refit(episodes: Episodes, config: FitConfig, seed: int) -> Model:
    """A model of all episodes; the last tenth of them, at least one, also chooses the epoch."""
    valid = episodes.take(range(len(episodes) - max(1, len(episodes) // 10), len(episodes)))
    fitted = fit(episodes, valid, config, key=jax.random.key(seed), score=R2Bar(50))
    if fitted.outcome is Outcome.INTERRUPTED:
        raise KeyboardInterrupt
    return fitted.model


def _improve(env: ModelEnv, before: Path | None, num_steps: int, seed: int) -> "SAC":
    """SAC after so many steps in the model, from the agent before if there is one."""
    from multistep.agents.model_vec_env import ModelVecEnv

    vector, sac = ModelVecEnv(env), sbx_sac()
    options: dict[str, Any] = {"gradient_steps": env.num_envs, "buffer_size": num_steps}
    if before is not None and before.exists():
        agent = sac.load(before, env=vector, **options)
    else:
        agent = sac("MlpPolicy", vector, seed=0, **options)
    agent.set_random_seed(seed)
    return agent.learn(num_steps, callback=reporter(lambda steps: None), reset_num_timesteps=False)


def _episodes(kept: list[Path]) -> Episodes:
    return load([path / "episode.npz" for path in kept])


def _keep(folder: Path, number: int, episode: Episodes, agent: "SAC | None") -> None:
    """Keep the episode and the agent, both or neither; agents before the last are not needed any more."""
    temporary = folder / f".writing_{uuid.uuid4().hex}"
    temporary.mkdir(parents=True)
    try:
        save(episode, temporary / "episode.npz")
        if agent is not None:
            agent.save(temporary / "agent.zip")
        os.replace(temporary, folder / f"episode_{number:04d}")
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    for old in sorted(folder.glob("episode_*/agent.zip"))[:-1]:
        old.unlink()
