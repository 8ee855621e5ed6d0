"""`score`: roll a model out from every state of every episode, and compare."""

from dataclasses import dataclass
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int
from numpy import ndarray

from multistep.data import Episodes
from multistep.dynamics import AbstractModel, rollout
from multistep.errors import InputError
from multistep.evaluation.r2 import ErrorSums, Scores, check_horizon, scores_of, state_unit, usual_horizon
from multistep.types import AllActions, AllStates

CHUNK = 512  # rollouts side by side: large enough for full speed, small enough for the cache


def score(model: AbstractModel, episodes: Episodes, *, horizon: int) -> Scores:
    """R2(1), ..., R2(horizon) of the model over all sub-trajectories of the episodes, actions known.

    ```python
    scores = score(fit.model, test, horizon=100)
    scores.r2          # at each horizon
    scores.r2bar(100)  # their mean
    ```
    """
    check_horizon(episodes, horizon)
    _check_widths(model, episodes)
    unit = state_unit(episodes)
    starts = _padded_starts(episodes)
    squared, diverged = _error_sums(
        model,
        jnp.asarray(episodes.states, float),
        jnp.asarray(episodes.actions, float),
        starts,
        jnp.asarray(unit, float),
        horizon,
    )
    sums = ErrorSums(np.asarray(squared, np.float64).sum(axis=0), np.asarray(diverged, np.int64).sum(axis=0))
    return scores_of(sums, episodes, unit)


@dataclass(frozen=True)
class R2Bar:
    """R2bar(horizon) as a function of model and episodes: the validation score of a fit.

    Where the episodes are too short or too few for that, a shorter horizon is taken.
    """

    horizon: int

    def __call__(self, model: AbstractModel, episodes: Episodes) -> float:
        return score(model, episodes, horizon=usual_horizon(episodes, self.horizon)).r2bar()


@partial(jax.jit, static_argnames="horizon")
def _error_sums(
    model: AbstractModel,
    states: AllStates,
    actions: AllActions,
    starts: Int[Array | ndarray, "chunks rollouts 3"],
    unit: Float[Array, " state"],
    horizon: int,
) -> tuple[Float[Array, "chunks horizon state"], Int[Array, "chunks horizon"]]:
    """Sum of squared errors and number of diverged rollouts at each step ahead, of each chunk of rollouts."""
    steps = jnp.arange(horizon, dtype=starts.dtype)

    def errors_of(start: Int[Array, " 3"]) -> tuple[Float[Array, "horizon state"], Bool[Array, " horizon"]]:
        first_state, first_action, remaining = start
        within = steps < remaining  # past the end of the episode nothing counts
        predicted = rollout(model.step, states[first_state], actions[first_action + steps])
        errors = ((predicted - states[first_state + 1 + steps]) / unit[None]) ** 2
        return jnp.where(within[:, None], errors, 0), within & ~jnp.isfinite(errors).all(axis=-1)

    def sums_of(
        chunk: Int[Array, "rollouts 3"],
    ) -> tuple[Float[Array, "horizon state"], Int[Array, " horizon"]]:
        errors, diverged = jax.vmap(errors_of)(chunk)
        return errors.sum(axis=0), diverged.sum(axis=0)

    return jax.lax.map(sums_of, starts)


def _padded_starts(episodes: Episodes) -> Int[ndarray, "chunks rollouts 3"]:
    """First state, first action and number of steps to the episode's end of every rollout; padded with
    rollouts of none."""
    within = np.arange(episodes.num_steps) - np.repeat(episodes.action_offsets, episodes.lengths)
    first_state = np.repeat(episodes.state_offsets, episodes.lengths) + within
    remaining = np.repeat(episodes.lengths, episodes.lengths) - within
    starts = np.stack([first_state, np.arange(episodes.num_steps), remaining], axis=1)
    padding = np.zeros((-len(starts) % CHUNK, 3), int)
    return np.concatenate([starts, padding]).reshape(-1, CHUNK, 3).astype(np.int32)


def _check_widths(model: AbstractModel, episodes: Episodes) -> None:
    for what, have in (("state", episodes.state_names), ("action", episodes.action_names)):
        expected = getattr(model, f"{what}_names", have)
        if len(expected) != len(have):
            raise InputError(
                f"The model has {len(expected)} {what} dimensions ({', '.join(expected)}), the data "
                f"{len(have)} "
                f"({', '.join(have)}): give data with the columns that the model was trained on."
            )
        if expected != have and sorted(expected) == sorted(have):
            raise InputError(
                f"The model's {what} dimensions are {', '.join(expected)}, the data have them in another "
                "order "
                f"({', '.join(have)}): give the columns in the model's order."
            )
