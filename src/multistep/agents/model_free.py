"""Soft actor-critic on the real environment: what the HalfCheetah datasets of the paper were collected with.

Its hyper-parameters are sbx's defaults. Training goes in stages of a few episodes. Every stage starts from a
seed of its own and ends with a checkpoint, so that a killed training goes on from the last one and sees the
episodes that it would have seen.
"""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from multistep.agents.sbx_agents import sbx_sac
from multistep.agents.stages import last_stage, train_in_stages
from multistep.data import Episode, Episodes
from multistep.errors import InputError
from multistep.tasks.task import Task

if TYPE_CHECKING:
    from sbx import SAC

STAGE_EPISODES = 10


def train(
    task: Task,
    *,
    num_episodes: int,
    seed: int,
    folder: Path,
    stage_episodes: int = STAGE_EPISODES,
    on_steps: Callable[[int], None] = lambda steps: None,
) -> tuple["SAC", Episodes]:
    """The agent after `num_episodes` episodes, and those episodes: its whole replay buffer.

    `folder` keeps the last checkpoint; `on_steps` is told how many steps have been taken.
    """
    if num_episodes < 1 or num_episodes % stage_episodes:
        raise InputError(
            f"Training goes in stages of {stage_episodes} episodes: {num_episodes} is no multiple of that."
        )
    agent = _new_agent(task, num_episodes * task.episode_steps)
    stages = [stage_episodes * task.episode_steps] * (num_episodes // stage_episodes)
    agent = train_in_stages(agent, stages, seed=seed, folder=folder, on_steps=on_steps)
    return agent, _buffered_episodes(agent.replay_buffer, task)


def is_finished(folder: Path, num_episodes: int, stage_episodes: int = STAGE_EPISODES) -> bool:
    """Whether the checkpoint in the folder is that of the last stage."""
    return last_stage(folder) >= num_episodes // stage_episodes


def act_side_by_side(agent: "SAC", task: Task, *, num_episodes: int, seed: int) -> Episodes:
    """Episodes of the agent's stochastic policy in the real environment, all of them side by side."""
    environments = [task.make() for _ in range(num_episodes)]
    seeds = np.random.SeedSequence(seed).generate_state(num_episodes) >> 1
    states = [
        np.stack(
            [environment.reset(seed=int(s))[0] for environment, s in zip(environments, seeds, strict=True)]
        )
    ]
    actions, rewards = [], []
    for _ in range(task.episode_steps):
        chosen, _ = agent.predict(states[-1], deterministic=False)
        moments = [environment.step(action) for environment, action in zip(environments, chosen, strict=True)]
        states.append(np.stack([moment[0] for moment in moments]))
        actions.append(chosen)
        rewards.append([moment[1] for moment in moments])
    parts = (np.asarray(values, np.float32).swapaxes(0, 1) for values in (states, actions, rewards))
    return Episodes.of(map(Episode, *parts), state_names=task.state_names, action_names=task.action_names)


def _new_agent(task: Task, num_steps: int) -> "SAC":
    # The buffer is only as long as it will be filled; all else is the default.
    return sbx_sac()("MlpPolicy", task.make(), buffer_size=num_steps, seed=0)


def _buffered_episodes(buffer: Any, task: Task) -> Episodes:
    """The episodes in a replay buffer that has never been full and holds whole episodes only."""
    shape = (buffer.size() // task.episode_steps, task.episode_steps, -1)
    before, actions, after, rewards = (
        values[: buffer.size()].astype(np.float32).reshape(shape)
        for values in (buffer.observations, buffer.actions, buffer.next_observations, buffer.rewards)
    )
    states = np.concatenate([before, after[:, -1:]], axis=1)
    episodes = map(Episode, states, actions, rewards[..., 0])
    return Episodes.of(episodes, state_names=task.state_names, action_names=task.action_names)
