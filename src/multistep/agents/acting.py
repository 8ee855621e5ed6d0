"""Episodes in the real environment, with a planner that sees noisy observations if asked; many of them on all
cores."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float
from numpy import ndarray

from multistep.agents.planners import AbstractPlanner, decide
from multistep.data import Episode, Past
from multistep.runs.row_log import Row
from multistep.runs.sweep import AbstractJob
from multistep.tasks import TASKS
from multistep.tasks.task import Task

NUM_POSES = 10
"""States of the simulator in the row of an episode, evenly spread over it, for pictures."""


class Acted(NamedTuple):
    """An episode as it was seen, and the simulator's states behind it."""

    episode: Episode
    simulator_states: Float[ndarray, "steps_and_one simulator"]

    @property
    def total(self) -> float:
        """The return: the sum of the environment's own rewards."""
        assert self.episode.rewards is not None
        return float(np.sum(self.episode.rewards, dtype=np.float64))


def act(
    planner: AbstractPlanner[Any],
    task: Task,
    *,
    seed: int,
    noise: Float[ndarray, " state"] | None = None,
    num_steps: int | None = None,
) -> Acted:
    """One episode. `noise` is the deviation of the Gaussian noise on each observation that the planner
    sees."""
    environment, rng = task.make(), np.random.default_rng(seed)
    key, memory = jax.random.key(seed), planner.start()
    deviation = np.zeros(len(task.state_names)) if noise is None else noise

    def observe(state: Float[ndarray, " state"]) -> Float[ndarray, " state"]:
        return state + deviation * rng.standard_normal(deviation.shape)

    states, actions, rewards = [observe(environment.reset(seed=seed)[0])], [], []
    behind = [_state(environment)]
    for step in range(task.episode_steps if num_steps is None else num_steps):
        past = _past(states, actions, planner.num_past, len(task.action_names))
        chosen, memory = decide(planner, past, memory, jax.random.fold_in(key, step))
        actions.append(np.asarray(chosen, np.float32))
        state, reward, *_ = environment.step(actions[-1])
        states.append(observe(state))
        rewards.append(reward)
        behind.append(_state(environment))
    parts = (np.asarray(values, np.float32) for values in (states, actions, rewards))
    return Acted(Episode(*parts), np.stack(behind))


@dataclass(frozen=True)
class EpisodeJob(AbstractJob):
    """One episode of an evaluation. Its data are the planner and the deviation of the noise."""

    data: str
    task: str
    seed: int
    num_steps: int | None = None

    @property
    def work(self) -> float:
        return 1.0

    def labels(self) -> Row:
        return {"planner": self.data, "task": self.task, "seed": self.seed}

    def run(self, data: tuple[AbstractPlanner[Any], Float[ndarray, " state"] | None]) -> Row:
        planner, noise = data
        acted = act(planner, TASKS[self.task], seed=self.seed, noise=noise, num_steps=self.num_steps)
        shown = np.linspace(0, len(acted.simulator_states) - 1, NUM_POSES).round().astype(int)
        return {
            "outcome": "finished",
            "reason": None,
            "return": acted.total,
            "steps": len(acted.episode.actions),
            "poses": acted.simulator_states[shown].tolist(),
        }


def _past(states: list[ndarray], actions: list[ndarray], num_past: int, action_size: int) -> Past:
    """The last observations; before there are as many, the first one is repeated, with actions of zero."""
    missing = max(0, num_past - len(states))
    seen = [states[0]] * missing + states[-num_past:]
    done = [np.zeros(action_size)] * missing + actions[len(actions) - (num_past - 1 - missing) :]
    return Past(jnp.asarray(np.stack(seen), float), jnp.asarray(np.reshape(done, (-1, action_size)), float))


def _state(environment: Any) -> Float[ndarray, " simulator"]:
    data = environment.unwrapped.data
    return np.concatenate([data.qpos, data.qvel])
