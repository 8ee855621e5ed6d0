"""R2(h): the share of the variance that a rollout of h steps explains, over all sub-trajectories; R2bar(H),
its mean.

The definitions are those of the section "Static evaluation".
"""

import math
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int
from numpy import ndarray

from multistep.data import Episodes, count_windows
from multistep.errors import InputError, counted


@dataclass(frozen=True, eq=False)
class Scores:
    """R2 at every horizon 1, ..., H.

    Where the true states of a dimension do not differ there is no variance to explain: its R2 is NaN there
    and left out of the mean over the dimensions. Where no dimension varies R2(h) is NaN, and left out of the
    mean over the horizons.
    """

    per_dimension: Float[ndarray, "horizon state"]
    diverged: Float[ndarray, " horizon"]
    """Share of the sub-trajectories of each length whose rollout left the finite range; R2 is minus infinity
    there."""
    num_rollouts: Int[ndarray, " horizon"]
    """Number of sub-trajectories of each length."""
    state_names: tuple[str, ...]
    rmse: Float[ndarray, "horizon state"] | None = None
    """Root of the mean squared error in the units of the states; infinite where a rollout diverged."""

    @property
    def horizon(self) -> int:
        return len(self.diverged)

    @property
    def r2(self) -> Float[ndarray, " horizon"]:
        """R2(h) for h = 1, ..., H, averaged over the dimensions that vary."""
        varying = ~np.isnan(self.per_dimension)
        with np.errstate(invalid="ignore"):
            return np.where(varying, self.per_dimension, 0).sum(axis=1) / varying.sum(axis=1)

    def r2bar(self, horizon: int | None = None) -> float:
        """Mean of R2(1), ..., R2(horizon); of all of them if no horizon is given. NaN if there is nothing to
        explain."""
        horizon = self.horizon if horizon is None else horizon
        if not 1 <= horizon <= self.horizon:
            raise InputError(
                f"R2bar({horizon}) was asked for, but the rollouts were scored up to {self.horizon} steps."
            )
        r2 = self.r2[:horizon]
        explainable = r2[~np.isnan(r2)]
        return float(explainable.mean()) if explainable.size else math.nan


@dataclass(frozen=True, eq=False)
class ErrorSums:
    """Sums over rollouts, from which the R2 follows; errors are in units of the state's deviation."""

    squared: Float[ndarray, "horizon state"]
    diverged: Int[ndarray, " horizon"]

    def __add__(self, other: "ErrorSums") -> "ErrorSums":
        return ErrorSums(self.squared + other.squared, self.diverged + other.diverged)


def scores_of(
    sums: ErrorSums, episodes: Episodes, unit: Float[ndarray, " state"], num_past: int = 1
) -> Scores:
    r"""R2 per horizon h and dimension.

    $1 - \sum_i (s_{i,t+h} - \hat s_{i,t+h})^2 / \sum_i (s_{i,t+h} - \bar s_{t+h})^2$. The sums go over all N
    sub-trajectories of length h in the episodes that have `num_past` states to start from, their mean
    $\bar s_{t+h}$ included.
    """
    horizon = len(sums.diverged)
    spread = spread_of(episodes, unit, horizon, num_past)
    num_rollouts = np.array(
        [count_windows(episodes.lengths, h, num_past).sum() for h in range(1, horizon + 1)]
    )
    finite = np.isfinite(sums.squared) & (sums.diverged == 0)[:, None]
    with np.errstate(divide="ignore", invalid="ignore"):
        r2 = np.where(finite, 1 - sums.squared / spread, -np.inf)
    r2[spread == 0] = np.nan
    with np.errstate(invalid="ignore"):
        rmse = np.where(finite, unit * np.sqrt(sums.squared / num_rollouts[:, None]), np.inf)
    return Scores(r2, sums.diverged / num_rollouts, num_rollouts, episodes.state_names, rmse)


def spread_of(
    episodes: Episodes, unit: Float[ndarray, " state"], horizon: int, num_past: int = 1
) -> Float[ndarray, "horizon state"]:
    """Sum of squared deviations from their mean of the states that are reached at each horizon; 0 where all
    are the same."""
    spread = []
    for h in range(1, horizon + 1):
        values = _states_after(episodes, h + num_past - 1)
        squares = ((values - values.mean(axis=0)) ** 2).sum(axis=0) / unit**2
        spread.append(np.where(np.ptp(values, axis=0) == 0, 0, squares))
    return np.stack(spread)


def longest_horizon(episodes: Episodes, num_past: int = 1) -> int:
    """The longest horizon with two sub-trajectories or more: one alone has no variance."""
    longest = int(episodes.lengths.max())
    return (longest if (episodes.lengths == longest).sum() > 1 else longest - 1) - (num_past - 1)


def usual_horizon(episodes: Episodes, most: int, num_past: int = 1) -> int:
    """The horizon to score up to where none is insisted on: `most`, or as far as scores mean something.

    That is as long as there are half as many sub-trajectories as the longest episode has steps. The very
    longest ones of a few episodes end in a few neighbouring states, whose variance is next to nothing: their
    R2 says nothing of the model, and would decide the mean.
    """
    horizons = np.arange(1, min(most, longest_horizon(episodes, num_past)) + 1)
    num_rollouts = np.array([count_windows(episodes.lengths, int(h), num_past).sum() for h in horizons])
    return int((num_rollouts >= (episodes.lengths.max() - num_past + 1) / 2).sum())


def check_horizon(episodes: Episodes, horizon: int, num_past: int = 1) -> None:
    """Raise an `InputError` unless there are sub-trajectories of this length to score."""
    longest = longest_horizon(episodes, num_past)
    if num_past > 1 and longest < 1:
        raise InputError(
            f"The model starts from {num_past} samples, and the longest of these episodes has "
            f"{episodes.lengths.max() + 1}, which leaves nothing to score: give longer episodes, or a model "
            "with fewer lags."
        )
    if horizon < 1:
        raise InputError(f"Rollouts of {horizon} steps cannot be scored: choose a horizon of 1 or more.")
    if horizon > longest:
        past = f" after {num_past} states to start from" if num_past > 1 else ""
        raise InputError(
            f"Rollouts of {counted(horizon, 'step')}{past} cannot be scored on "
            f"{counted(len(episodes), 'episode')} of up to {counted(int(episodes.lengths.max()), 'step')}, "
            f"with two or more sub-trajectories of at most {counted(longest, 'step')}: choose a shorter "
            "horizon."
        )


def _states_after(episodes: Episodes, steps: int) -> Float[ndarray, "rollouts state"]:
    """Every state that has at least `steps` steps before it in its episode, in double precision."""
    within = np.arange(len(episodes.states)) - np.repeat(episodes.state_offsets, episodes.lengths + 1)
    return episodes.states[within >= steps].astype(np.float64)
