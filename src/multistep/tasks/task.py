"""`Task`: an environment, its reward as a function of observations, and what its true dynamics would
score."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import jax
import numpy as np
from jaxtyping import Float
from numpy import ndarray

from multistep.data import Episode, Episodes, unit_of, with_angles
from multistep.errors import InputError
from multistep.evaluation import ErrorSums, Scores, check_horizon, scores_of
from multistep.tasks.simulator import simulate
from multistep.types import Action, Key, Scalar, State

if TYPE_CHECKING:
    import gymnasium

SimulatorStates = Float[ndarray, "*batch simulator"]
Observations = Float[ndarray, "*batch state"]


@dataclass(frozen=True)
class Task:
    """An environment of the paper: everything that is known of it, in one object."""

    name: str
    state_names: tuple[str, ...]
    action_names: tuple[str, ...]
    episode_steps: int
    """Steps after which an episode ends."""
    simulator_steps: int
    """Steps of the simulator in one step of the environment."""
    load: Callable[[], "gymnasium.Env[Any, Any]"]
    """Makes the environment; needs the extra `tasks`."""
    reward: Callable[[State, Action, State], Scalar]
    """The reward of (observation, action, next observation), for compiled code."""
    observe: Callable[[SimulatorStates], Observations]
    """Observations of the simulator's states (positions, velocities)."""
    simulator_states_of: Callable[[Observations], SimulatorStates]
    """The simulator's states nearest to these observations; what is not observed is zero."""
    rewards: Callable[
        [Float[ndarray, "steps_and_one simulator"], Float[ndarray, "steps action"]], Float[ndarray, " steps"]
    ]
    """The environment's own rewards along an episode of simulator states; they may use what is not
    observed."""
    angles: tuple[str, ...] = ()
    """States that are angles which turn."""

    def make(self) -> "gymnasium.Env[Any, Any]":
        """The environment itself, under Gymnasium's interface."""
        try:
            return self.load()
        except ImportError as error:
            raise InputError(
                f"The task {self.name} needs the simulator: install multistep with the extra 'tasks' "
                "(multistep[tasks])."
            ) from error

    def collect_random(self, num_episodes: int, *, key: Key, num_steps: int | None = None) -> Episodes:
        """Episodes of the random policy: actions uniform in [-1, 1]. The same key gives the same episodes."""
        if num_episodes < 1:
            raise InputError(f"{num_episodes} episodes were asked for: collect at least 1.")
        num_steps = self.episode_steps if num_steps is None else num_steps
        seed_key, action_key = jax.random.split(key)
        environment = self.make()
        seed = int(jax.random.randint(seed_key, (), 0, 2**31 - 1))
        starts, warmstarts = zip(
            *(_reset(environment, None if n else seed) for n in range(num_episodes)), strict=True
        )
        shape = (num_episodes, num_steps, len(self.action_names))
        actions = np.asarray(jax.random.uniform(action_key, shape, np.float32, -1, 1))
        model = environment.unwrapped.model  # pyright: ignore[reportAttributeAccessIssue]
        after = simulate(
            model, np.stack(starts), actions, self.simulator_steps, warmstarts=np.stack(warmstarts)
        )
        states = np.concatenate([np.stack(starts)[:, None], after], axis=1)
        rewards = [self.rewards(*episode) for episode in zip(states, actions, strict=True)]
        observations = self.observe(states).astype(np.float32)
        episodes = map(Episode, observations, actions, np.stack(rewards).astype(np.float32))
        found = Episodes.of(episodes, state_names=self.state_names, action_names=self.action_names)
        return with_angles(found, self.angles)

    def ceiling(self, episodes: Episodes, *, horizon: int) -> Scores:
        """R2 of the true simulator rolled out from the same, noisy, first observations.

        What exact dynamics are worth: a model can pass it only by a little, by learning to discount the noise
        in its start.
        """
        check_horizon(episodes, horizon)
        model, unit = self.make().unwrapped.model, unit_of(episodes.states)  # pyright: ignore[reportAttributeAccessIssue]
        sums = sum(
            (self._episode_errors(model, episodes[number], unit, horizon) for number in range(len(episodes))),
            start=ErrorSums(np.zeros((horizon, episodes.state_size)), np.zeros(horizon, int)),
        )
        return scores_of(sums, episodes, unit)

    def _episode_errors(
        self, model: Any, episode: Episode, unit: Float[ndarray, " state"], horizon: int
    ) -> ErrorSums:
        """Sums of the simulator's squared errors over the rollouts from every state of one episode."""
        length = len(episode.actions)
        steps = np.arange(length)[:, None] + np.arange(horizon)
        within = steps < length
        steps = np.minimum(steps, length - 1)
        starts = self.simulator_states_of(episode.states[:-1].astype(np.float64))
        predicted = self.observe(simulate(model, starts, episode.actions[steps], self.simulator_steps))
        errors = ((predicted - episode.states[steps + 1]) / unit) ** 2
        diverged = within & ~np.isfinite(errors).all(axis=-1)
        return ErrorSums(np.where(within[..., None], errors, 0).sum(axis=0), diverged.sum(axis=0))


def _reset(
    environment: Any, seed: int | None
) -> tuple[Float[ndarray, " simulator"], Float[ndarray, " velocities"]]:
    """Positions and velocities after a reset, and the accelerations that the contact solver starts from."""
    environment.reset(seed=seed)
    data = environment.unwrapped.data
    return np.concatenate([data.qpos, data.qvel]), np.array(data.qacc_warmstart)
