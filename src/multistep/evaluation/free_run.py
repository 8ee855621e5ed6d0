"""`free_run`: simulate whole episodes from their first outputs, as a plant's simulator is used; errors in the
plant's units."""

from collections.abc import Sequence
from dataclasses import dataclass

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int
from numpy import ndarray

from multistep.data import Episodes, Past
from multistep.dynamics import AbstractDynamics, check_names, check_time_step, check_units, forecast
from multistep.errors import InputError
from multistep.types import Lengths

MOST_AT_ONCE = 256
"""Episodes that are simulated side by side."""


@dataclass(frozen=True, eq=False)
class FreeRun:
    """One episode simulated from its first outputs and all of its actions."""

    episode: int
    """Its place among those that were simulated."""
    num_past: int
    """Outputs that were given to start from."""
    measured: Float[ndarray, "time output"]
    """What was measured after those."""
    predicted: Float[ndarray, "time output"]
    """What the model says of it."""

    @property
    def errors(self) -> Float[ndarray, "time output"]:
        return self.measured.astype(np.float64) - self.predicted

    @property
    def rmse(self) -> Float[ndarray, " output"]:
        """Root of the mean squared error of each output, in its unit; infinite if the run diverges."""
        return _root_mean_square(self.errors)


@dataclass(frozen=True, eq=False)
class FreeRunScores:
    """Errors of free runs over all samples of all episodes, one number for each output."""

    rmse: Float[ndarray, " output"]
    """In the output's unit."""
    nrmse: Float[ndarray, " output"]
    """As a share of its deviation; NaN where it does not change."""
    state_names: tuple[str, ...]

    @property
    def fit_percent(self) -> Float[ndarray, " output"]:
        r"""$100 (1 - \|y - \hat y\| / \|y - \bar y\|)$: 100 is perfect, 0 as good as the mean."""
        return 100 * (1 - self.nrmse)

    @property
    def r2(self) -> float:
        """The share of the variance that is explained, averaged over the outputs that change."""
        of_each = 1 - self.nrmse[~np.isnan(self.nrmse)] ** 2
        return float(of_each.mean()) if of_each.size else float("nan")


def free_run(
    model: AbstractDynamics, episodes: Episodes, *, num_past: int | None = None
) -> tuple[FreeRun, ...]:
    """Each episode, simulated to its end from its first outputs alone.

    **Arguments:**

    - `model`: in the units of the episodes.
    - `episodes`: those that are long enough to start from are simulated.
    - `num_past`: outputs at the start that are given and not scored, as a benchmark's rules may say; the
      model starts from the last ones of them that it needs (default: as many as it needs).
    """
    check_names(model, episodes.state_names, episodes.action_names)
    check_units(model, episodes.units)
    check_time_step(model, episodes)
    given = model.num_past if num_past is None else num_past
    if given < model.num_past:
        raise InputError(
            f"A free run from {given} outputs, but the model needs {model.num_past} to start: give so many, "
            "or fit with fewer lags."
        )
    chosen = np.flatnonzero(episodes.lengths >= given)
    if not len(chosen):
        raise InputError(
            f"No episode is long enough for a free run: the model starts from {given} outputs, and the "
            f"longest episode has {episodes.lengths.max() + 1}: give longer ones."
        )
    runs: dict[int, FreeRun] = {}
    for group in _groups(chosen, episodes.lengths):
        for each, predicted in zip(group, _simulated(model, episodes, group, given), strict=True):
            measured = episodes[each].states[given:]
            # A copy: what was simulated past the end of the episode is not kept.
            runs[each] = FreeRun(each, given, measured, predicted[: len(measured)].copy())
    return tuple(runs[int(each)] for each in chosen)


def free_run_scores(runs: tuple[FreeRun, ...], state_names: tuple[str, ...]) -> FreeRunScores:
    """The errors of all runs together."""
    measured = np.concatenate([run.measured for run in runs]).astype(np.float64)
    rmse = _root_mean_square(np.concatenate([run.errors for run in runs]))
    deviation = measured.std(axis=0)
    with np.errstate(divide="ignore", invalid="ignore"):
        nrmse = np.where(np.ptp(measured, axis=0) > 0, rmse / deviation, np.nan)
    return FreeRunScores(rmse, nrmse, state_names)


@dataclass(frozen=True)
class FreeRunR2:
    """R2 of free runs as a function of model and episodes: the validation score where a simulator of whole
    records is asked for."""

    def __call__(self, model: AbstractDynamics, episodes: Episodes) -> float:
        return free_run_scores(free_run(model, episodes), episodes.state_names).r2


def _groups(chosen: Int[ndarray, " chosen"], lengths: Lengths) -> list[list[int]]:
    """The episodes in groups that are simulated at once, padded to the longest: none of a group has less than
    half of its steps."""
    longest_first = sorted(map(int, chosen), key=lambda each: -lengths[each])
    groups = [longest_first[:1]]
    for each in longest_first[1:]:
        if 2 * lengths[each] < lengths[groups[-1][0]] or len(groups[-1]) == MOST_AT_ONCE:
            groups.append([])
        groups[-1].append(each)
    return groups


def _simulated(
    model: AbstractDynamics, episodes: Episodes, group: Sequence[int], given: int
) -> Float[ndarray, "episodes steps output"]:
    longest = int(episodes.lengths[group].max())
    states = np.stack([episodes[each].states[:given] for each in group])
    actions = np.stack([_padded(episodes[each].actions, longest) for each in group])
    return np.asarray(_simulate(model, jnp.asarray(states, float), jnp.asarray(actions, float)))


def _padded(values: ndarray, length: int) -> ndarray:
    """With its last row again and again up to this length: what is simulated there is left out."""
    return np.concatenate([values, np.repeat(values[-1:], length - len(values), axis=0)])


def _root_mean_square(errors: Float[ndarray, "time output"]) -> Float[ndarray, " output"]:
    with np.errstate(over="ignore", invalid="ignore"):
        found = np.sqrt((errors**2).mean(axis=0))
    return np.where(np.isfinite(found), found, np.inf)


@eqx.filter_jit
def _simulate(
    model: AbstractDynamics,
    states: Float[Array, "episodes given output"],
    actions: Float[Array, "episodes time action"],
) -> Float[Array, "episodes steps output"]:
    given = states.shape[1]

    def of_episode(
        states: Float[Array, "given output"], actions: Float[Array, "time action"]
    ) -> Float[Array, "steps output"]:
        first = given - model.num_past
        past = Past(states[first:], actions[first : given - 1])
        return forecast(model, past, actions[given - 1 :]).mean

    return jax.vmap(of_episode)(states, actions)
