"""The online loop: refit the model to all episodes so far, improve the policy in it, act with both, repeat.

It makes the replay datasets of the paper: all episodes of an agent from its first, random ones on.
"""

import os
import shutil
import uuid
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import jax

from multistep.agents.acting import act
from multistep.agents.model_env import ModelEnv
from multistep.agents.planners import PolicyGuided
from multistep.agents.policy import policy_of
from multistep.agents.stages import AGENT, BUFFER, claim, load_training, save_training, sbx_sac, stage_seed
from multistep.data import Episodes, load, save
from multistep.dynamics import Model
from multistep.evaluation import R2Bar
from multistep.selection.provenance import digest
from multistep.tasks.catalogue import OnlineLoop
from multistep.tasks.task import Task
from multistep.training import PRESETS, Outcome, fit

if TYPE_CHECKING:
    from sbx import SAC


def collect_online(
    task: Task,
    loop: OnlineLoop,
    *,
    num_episodes: int,
    folder: Path,
    on_episode: Callable[[int, float | None], None] = lambda number, total: None,
) -> Episodes:
    """All episodes of the loop. Each is kept in `folder` as it ends; the same call goes on from there.

    `on_episode` is told the number of episodes at the beginning, and with the return of the last one as each ends.
    """
    claim(folder, digest({"task": task.name, "loop": loop}))
    on_episode(len(list(folder.glob("episode_*"))), None)
    while len(kept := sorted(folder.glob("episode_*"))) < num_episodes:
        number = len(kept)
        episodes, agent = _collect_next(task, loop, kept, stage_seed(loop.seed, number))
        _keep(folder, number, episodes, agent)
        assert episodes.returns is not None  # it has just been acted
        on_episode(number + 1, float(episodes.returns[0]))
    return _episodes(kept[:num_episodes])


def _collect_next(task: Task, loop: OnlineLoop, kept: list[Path], seed: int) -> tuple[Episodes, "SAC | None"]:
    """One more episode (as a set of one) and the agent that acted."""
    if len(kept) < loop.num_random:
        return task.collect_random(1, key=jax.random.key(seed)), None
    episodes = _episodes(kept)
    model = _refit(episodes, loop, seed)
    env = ModelEnv(model, task.reward, episodes, num_envs=loop.num_envs)
    acted_before = len(kept) - loop.num_random
    starts_anew = acted_before == 0 or (loop.restart_every is not None and acted_before % loop.restart_every == 0)
    agent = _improve(env, None if starts_anew else kept[-1], loop, seed)
    planner = PolicyGuided(env.imagination, policy_of(agent), loop.num_sequences, loop.plan_horizon)
    acted = act(planner, task, seed=seed)
    return Episodes.of([acted.episode], state_names=task.state_names, action_names=task.action_names), agent


def _refit(episodes: Episodes, loop: OnlineLoop, seed: int) -> Model:
    """A model of all episodes; the last tenth of them, at least one, also chooses the epoch."""
    config = replace(PRESETS[loop.preset], horizon=loop.horizon)
    valid = episodes.take(range(len(episodes) - max(1, len(episodes) // 10), len(episodes)))
    fitted = fit(episodes, valid, config, key=jax.random.key(seed), score=R2Bar(50))
    if fitted.outcome is Outcome.INTERRUPTED:
        raise KeyboardInterrupt
    return fitted.model


def _improve(env: ModelEnv, before: Path | None, loop: OnlineLoop, seed: int) -> "SAC":
    """SAC after some more steps in the model, from the agent in the folder of the episode before if there is one."""
    from multistep.agents.model_vec_env import ModelVecEnv

    agent = sbx_sac()("MlpPolicy", ModelVecEnv(env), gradient_steps=env.num_envs, buffer_size=loop.buffer_steps, seed=0)
    if before is not None:
        agent = load_training(before, agent)
    agent.set_random_seed(seed)
    return agent.learn(loop.sac_steps, reset_num_timesteps=False)


def _episodes(kept: list[Path]) -> Episodes:
    return load([path / "episode.npz" for path in kept])


def _keep(folder: Path, number: int, episode: Episodes, agent: "SAC | None") -> None:
    """Keep the episode and the agent, both or neither; agents before the last are not needed any more."""
    temporary = folder / f".writing_{uuid.uuid4().hex}"
    temporary.mkdir(parents=True)
    try:
        save(episode, temporary / "episode.npz")
        if agent is not None:
            save_training(temporary, agent)
        os.replace(temporary, folder / f"episode_{number:04d}")
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    for name in (AGENT, BUFFER):
        for old in sorted(folder.glob(f"episode_*/{name}"))[:-1]:
            old.unlink()
