"""`score`: roll a model out from every state of every episode, and compare."""

from dataclasses import dataclass

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int
from numpy import ndarray

from multistep.data import Episodes, Past, unit_of
from multistep.dynamics import AbstractDynamics, check_names, check_time_step, check_units, forecast
from multistep.evaluation.intervals import mean_interval
from multistep.evaluation.r2 import (
    ErrorSums,
    Scores,
    check_horizon,
    scores_of,
    spread_of,
    usual_horizon,
)
from multistep.types import AllActions, AllStates

CHUNK = 512  # rollouts side by side: large enough for full speed, small enough for the cache


def score(model: AbstractDynamics, episodes: Episodes, *, horizon: int) -> Scores:
    """R2(1), ..., R2(horizon) of the model over all sub-trajectories of the episodes, actions known.

    ```python
    scores = score(fit.model, test, horizon=100)
    scores.r2          # at each horizon
    scores.r2bar(100)  # their mean
    ```

    **Arguments:**

    - `model`: any dynamics in the units of the episodes, learned or not.
    - `episodes`: what it is compared with; none of them should have been trained on.
    - `horizon`: steps ahead to score.
    """
    check_horizon(episodes, horizon, model.num_past)
    check_names(model, episodes.state_names, episodes.action_names)
    check_units(model, episodes.units)
    check_time_step(model, episodes)
    unit = unit_of(episodes.states)  # R2 does not depend on it, overflow does
    chunks = _chunks(_rollout_starts(episodes, model.num_past))
    sums = _sum_errors(model, episodes, chunks, unit, horizon)
    return scores_of(sums, episodes, unit, model.num_past)


def unexplained(model: AbstractDynamics, episodes: Episodes, *, horizon: int) -> Float[ndarray, " episodes"]:
    """What each episode adds to 1 - R2bar(horizon): together they are that."""
    unit, rollouts = unit_of(episodes.states), _rollout_starts(episodes, model.num_past)
    spread = spread_of(episodes, unit, horizon, model.num_past)
    ends = np.cumsum(np.maximum(episodes.lengths - model.num_past + 1, 0))
    shares = []
    for own in np.split(rollouts, ends[:-1]):
        sums = _sum_errors(model, episodes, _chunks(own), unit, horizon)
        squared = np.where((sums.diverged > 0)[:, None], np.inf, sums.squared)
        with np.errstate(divide="ignore", invalid="ignore"):
            of_states = np.where(spread > 0, squared / spread, np.nan)
        shares.append(np.nanmean(np.nanmean(of_states, axis=1)))
    return np.array(shares)


def advantage(
    model: AbstractDynamics, other: AbstractDynamics, episodes: Episodes, *, horizon: int
) -> tuple[float, float, float]:
    """How much higher the model's R2bar(horizon) is than the other's, and a 95 % interval by its episodes."""
    more = unexplained(other, episodes, horizon=horizon) - unexplained(model, episodes, horizon=horizon)
    low, high = mean_interval(more)
    return float(more.sum()), len(more) * low, len(more) * high


def _sum_errors(
    model: AbstractDynamics,
    episodes: Episodes,
    chunks: Int[ndarray, "chunks side_by_side 3"],
    unit: Float[ndarray, " state"],
    horizon: int,
) -> ErrorSums:
    squared, diverged = _error_sums(
        model,
        jnp.asarray(episodes.states, float),
        jnp.asarray(episodes.actions, float),
        jnp.asarray(chunks),
        jnp.asarray(unit, float),
        horizon,
    )
    return ErrorSums(np.asarray(squared, np.float64).sum(axis=0), np.asarray(diverged, np.int64).sum(axis=0))


@dataclass(frozen=True)
class R2Bar:
    """R2bar(horizon) as a function of model and episodes: the validation score of a fit.

    Where the episodes are too short or too few for that, a shorter horizon is taken.
    """

    horizon: int

    def __call__(self, model: AbstractDynamics, episodes: Episodes) -> float:
        horizon = usual_horizon(episodes, self.horizon, model.num_past)
        return score(model, episodes, horizon=horizon).r2bar()


@eqx.filter_jit
def _error_sums(
    model: AbstractDynamics,
    states: AllStates,
    actions: AllActions,
    starts: Int[Array, "chunks rollouts 3"],
    unit: Float[Array, " state"],
    horizon: int,
) -> tuple[Float[Array, "chunks horizon state"], Int[Array, "chunks horizon"]]:
    """Sum of squared errors and number of diverged rollouts at each step ahead, of each chunk of rollouts."""
    steps = jnp.arange(horizon, dtype=starts.dtype)
    before = jnp.arange(1 - model.num_past, 1, dtype=starts.dtype)

    def errors_of(start: Int[Array, " 3"]) -> tuple[Float[Array, "horizon state"], Bool[Array, " horizon"]]:
        first_state, first_action, remaining = start
        within = steps < remaining  # past the end of the episode nothing counts
        past = Past(states[first_state + before], actions[first_action + before[:-1]])
        predicted = forecast(model, past, actions[first_action + steps]).mean
        errors = ((predicted - states[first_state + 1 + steps]) / unit[None]) ** 2
        return jnp.where(within[:, None], errors, 0), within & ~jnp.isfinite(errors).all(axis=-1)

    def sums_of(
        chunk: Int[Array, "rollouts 3"],
    ) -> tuple[Float[Array, "horizon state"], Int[Array, " horizon"]]:
        errors, diverged = jax.vmap(errors_of)(chunk)
        return errors.sum(axis=0), diverged.sum(axis=0)

    return jax.lax.map(sums_of, starts)


def _rollout_starts(episodes: Episodes, num_past: int) -> Int[ndarray, "rollouts 3"]:
    """Last state of the past, first action and number of steps to the episode's end of every rollout."""
    within = np.arange(episodes.num_steps) - np.repeat(episodes.action_offsets, episodes.lengths)
    first_state = np.repeat(episodes.state_offsets, episodes.lengths) + within
    remaining = np.repeat(episodes.lengths, episodes.lengths) - within
    return np.stack([first_state, np.arange(episodes.num_steps), remaining], axis=1)[within >= num_past - 1]


def _chunks(starts: Int[ndarray, "rollouts 3"]) -> Int[ndarray, "chunks side_by_side 3"]:
    """The rollouts in chunks, the last one padded with rollouts of no steps."""
    padding = np.zeros((-len(starts) % CHUNK, 3), int)
    return np.concatenate([starts, padding]).reshape(-1, CHUNK, 3).astype(np.int32)
