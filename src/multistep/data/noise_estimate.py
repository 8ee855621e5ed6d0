"""How noisy measured states are, from the states themselves."""

from math import comb

import numpy as np
from jaxtyping import Float, Int
from numpy import ndarray

from multistep.types import Lengths

MOST_ROWS = 100_000
DIFFERENCE_ORDER = 4


def estimate_noise(
    states: Float[ndarray, "all_states state"], actions: Float[ndarray, "all_steps action"], lengths: Lengths
) -> Float[ndarray, " state"]:
    r"""At most this much of each state is white noise: an upper estimate of its standard deviation.

    Two estimates, both too large if anything; the smaller one counts. NaN where there are too few finite
    values.

    1. Of a smooth signal, differences of order k vanish and those of white noise do not:
       $\operatorname{Var}[\Delta^k \varepsilon] = \binom{2k}{k} \sigma^2$, with k = 4.
    2. Each state is predicted by least squares from the states before and after it and the actions on both
       sides. With weights W the residual of dimension i has the variance $\sigma_i^2 + \sum_j W_{ji}^2
       \sigma_j^2$, which is solved for $\sigma^2 \ge 0$. What is not linear in the dynamics counts as noise.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        squares = np.where(np.isfinite(states), states, 0) ** 2
    if not np.isfinite(squares.sum()):
        return np.full(states.shape[1], np.nan)  # such numbers have no squares
    middles = _middles(lengths)[:MOST_ROWS]
    middles = middles[np.isfinite(states[middles[:, 0, None] + np.arange(-1, 2)]).all(axis=(1, 2))]
    middles = middles[np.isfinite(actions[middles[:, 1, None] + np.arange(-1, 1)]).all(axis=(1, 2))]
    by_difference = np.array([_by_difference(column, lengths) for column in states.T])
    if len(middles) < 10 * (2 * states.shape[1] + 2 * actions.shape[1]):
        return by_difference
    return np.fmin(_by_prediction(states, actions, middles), by_difference)


def _middles(lengths: Lengths) -> Int[ndarray, "middles 2"]:
    """Index of every state that has one before and one after it, and of the action taken in it."""
    counts = np.maximum(lengths - 1, 0)
    within = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts) + 1
    first_action = np.cumsum(lengths) - lengths
    first_state = first_action + np.arange(len(lengths))
    return np.stack(
        [np.repeat(first_state, counts) + within, np.repeat(first_action, counts) + within], axis=1
    )


def _by_difference(column: Float[ndarray, " all_states"], lengths: Lengths) -> float:
    ends = np.cumsum(lengths + 1)
    parts = [np.diff(part.astype(np.float64), DIFFERENCE_ORDER) for part in np.split(column, ends[:-1])]
    differences = np.concatenate(parts)
    differences = differences[np.isfinite(differences)]
    if len(differences) < 10:
        return float("nan")
    return float(np.sqrt(np.mean(differences**2) / comb(2 * DIFFERENCE_ORDER, DIFFERENCE_ORDER)))


def _by_prediction(
    states: ndarray, actions: ndarray, middles: Int[ndarray, "middles 2"]
) -> Float[ndarray, " state"]:
    from scipy.optimize import nnls  # slow to import, and most commands do without it

    at, acting = middles.T
    around = np.concatenate(
        [states[at - 1], states[at + 1], actions[acting - 1], actions[acting]], axis=1
    ).astype(np.float64)
    here = states[at].astype(np.float64)
    around, here = around - around.mean(axis=0), here - here.mean(axis=0)
    # In units of each column's deviation, so that none is lost in the rounding of another.
    unit, scale = here.std(axis=0), around.std(axis=0)
    unit, scale = np.where(unit > 0, unit, 1), np.where(scale > 0, scale, 1)
    weights, *_ = np.linalg.lstsq(around / scale, here / unit, rcond=None)
    # Divided by what the weights leave free: otherwise a short log would look less noisy than it is.
    residual = np.sum((here / unit - around / scale @ weights) ** 2, axis=0) / (len(here) - len(weights) - 1)
    size = here.shape[1]
    neighbours = (weights[: 2 * size] / scale[: 2 * size, None]) * np.tile(unit, 2)[:, None]
    mixing = np.eye(size) + (neighbours[:size] ** 2).T + (neighbours[size:] ** 2).T
    return np.sqrt(nnls(mixing, residual)[0]) * unit
