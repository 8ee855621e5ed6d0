"""What Gymnasium's Swimmer and HalfCheetah have in common: a body that is paid for moving forward.

Their reward is the distance covered in a step over its duration, minus a cost of the action. Where the body
is, is not observed; its velocity is.
"""

from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float
from numpy import ndarray

from multistep.tasks.simulator import without_warnings
from multistep.tasks.task import Task
from multistep.types import Action, Scalar, State


def locomotion_task(
    name: str,
    *,
    environment: str,
    state_names: tuple[str, ...],
    action_names: tuple[str, ...],
    simulator_steps: int,
    num_hidden: int,
    forward_velocity: str,
    control_cost: float,
    step_seconds: float,
    angles: tuple[str, ...],
) -> Task:
    """A task whose first `num_hidden` positions, the place of the body, are not observed."""
    velocity = state_names.index(forward_velocity)

    def load() -> Any:
        import gymnasium

        with without_warnings():  # its model file uses an attribute that MuJoCo will drop
            return gymnasium.make(environment)

    def reward(observation: State, action: Action, next_observation: State) -> Scalar:
        """Mean of the forward velocities before and after the step, minus the cost of the action.

        An approximation: the environment takes the distance covered, which is not observed.
        """
        forward = (observation[velocity] + next_observation[velocity]) / 2
        return forward - control_cost * jnp.sum(action**2)

    def observe(states: Float[ndarray, "*batch simulator"]) -> Float[ndarray, "*batch state"]:
        return states[..., num_hidden:]

    def simulator_states_of(
        observations: Float[ndarray, "*batch state"],
    ) -> Float[ndarray, "*batch simulator"]:
        # Where the body is does not change how it moves.
        return np.concatenate([np.zeros((*observations.shape[:-1], num_hidden)), observations], axis=-1)

    def rewards(
        states: Float[ndarray, "steps_and_one simulator"], actions: Float[ndarray, "steps action"]
    ) -> Float[ndarray, " steps"]:
        forward = np.diff(states[:, 0]) / step_seconds
        return forward - control_cost * (actions.astype(np.float64) ** 2).sum(axis=1)

    return Task(
        name=name,
        state_names=state_names,
        action_names=action_names,
        episode_steps=1000,
        simulator_steps=simulator_steps,
        load=load,
        reward=reward,
        observe=observe,
        simulator_states_of=simulator_states_of,
        rewards=rewards,
        angles=angles,
    )
