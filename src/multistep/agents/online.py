"""The online loop: fit a model to all episodes so far, train SAC in it, act with both, repeat.

It makes the replay datasets of the paper: all episodes of an agent from its first, random ones on. SAC starts
anew in every model: in trials, an agent that went on from what it had learned in the first, poor models
stayed behind.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np

from multistep.agents.acting import act
from multistep.agents.model_based import train_on_model
from multistep.agents.model_env import ModelEnv
from multistep.agents.planners import PolicyGuided
from multistep.agents.policy import policy_of
from multistep.agents.stages import claim, stage_seed
from multistep.data import Episodes, load, save
from multistep.runs.provenance import digest
from multistep.selection.fit import fit
from multistep.tasks.catalogue import OnlineLoop
from multistep.tasks.task import Task
from multistep.training import PRESETS, Outcome


def collect_online(
    task: Task,
    loop: OnlineLoop,
    *,
    num_episodes: int,
    folder: Path,
    on_episode: Callable[[int, float | None], None] = lambda number, total: None,
) -> Episodes:
    """All episodes of the loop. Each is kept in `folder` as it ends; the same call goes on from there.

    `on_episode` is told the number of episodes at the beginning, and with the return of the last one as each
    ends.
    """
    claim(folder, digest({"task": task.name, "loop": loop}))
    paths = [folder / f"episode_{number:04d}.npz" for number in range(num_episodes)]
    start = next((number for number, path in enumerate(paths) if not path.exists()), num_episodes)
    on_episode(start, None)
    for number in range(start, num_episodes):
        episodes = _collect_next(task, loop, paths[:number], stage_seed(loop.seed, number))
        save(episodes, paths[number])
        assert episodes.returns is not None  # it has just been acted
        on_episode(number + 1, float(episodes.returns[0]))
    return load(paths)


def _collect_next(task: Task, loop: OnlineLoop, kept: list[Path], seed: int) -> Episodes:
    """One more episode, as a set of one."""
    if len(kept) < loop.num_random:
        return task.collect_random(1, key=jax.random.key(seed))
    episodes = load(kept)
    env = ModelEnv(_fit(episodes, loop, seed), task.reward, episodes, num_envs=loop.num_envs)
    fewest, most = (steps // loop.num_envs for steps in loop.sac_steps)
    num_steps = loop.num_envs * int(np.random.default_rng(seed).integers(fewest, most, endpoint=True))
    agent = train_on_model(env, num_steps=num_steps, seed=seed)
    planner = PolicyGuided(env.imagination, policy_of(agent), loop.num_sequences, loop.plan_horizon)
    acted = act(planner, task, seed=seed)
    return Episodes.of([acted.episode], state_names=task.state_names, action_names=task.action_names)


def _fit(episodes: Episodes, loop: OnlineLoop, seed: int) -> Any:
    """A model of all episodes; the last tenth of them, at least one, also chooses the epoch."""
    recipe = PRESETS[loop.preset].vary(horizon=loop.horizon)
    valid = episodes.take(range(len(episodes) - max(1, len(episodes) // 10), len(episodes)))
    fitted = fit(episodes, valid, recipe, key=jax.random.key(seed))
    if fitted.outcome is Outcome.INTERRUPTED:
        raise KeyboardInterrupt
    return fitted.model
