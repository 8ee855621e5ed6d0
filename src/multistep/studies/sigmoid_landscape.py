"""The loss of the two-parameter network on a grid around the truth, and its global minima."""

import numpy as np
import polars as pl
from jaxtyping import Float
from numpy import ndarray

from multistep.runs.row_log import Row
from multistep.studies.sigmoid_system import TRUE_PARAMETERS, observe

LANDSCAPE_NOISES = (0.0, 0.2, 0.4, 0.6)
LANDSCAPE_ALPHAS = (0.0, 0.5, 1.0)
NUM_DRAWS = 10


def landscape(num_samples: int, side: int, seed: int) -> tuple[pl.DataFrame, list[Row]]:
    """The mean loss over ten noise draws on a grid around the truth, and where it is smallest for each
    draw."""
    rng = np.random.default_rng([seed, 1])
    states = rng.uniform(-2, 2, num_samples)
    first = np.linspace(TRUE_PARAMETERS[0] - 1, TRUE_PARAMETERS[0] + 1, side)
    second = np.linspace(TRUE_PARAMETERS[1] - 4, TRUE_PARAMETERS[1] + 4, side)
    grid = np.stack(np.meshgrid(first, second, indexing="ij"), axis=-1).reshape(-1, 2)
    one = grid[:, :1] / (1 + np.exp(-grid[:, 1:] * states))
    two = grid[:, :1] / (1 + np.exp(-grid[:, 1:] * one))
    surfaces, minima = [], []
    for noise in LANDSCAPE_NOISES:
        observed = observe(states, noise, NUM_DRAWS, rng)
        errors = [_mean_squares(ahead, observed[..., step]) for step, ahead in ((1, one), (2, two))]
        for alpha in LANDSCAPE_ALPHAS:
            losses = alpha * errors[0] + (1 - alpha) * errors[1]
            best = grid[losses.argmin(axis=0)]
            minima += [
                {
                    "noise": noise,
                    "alpha": alpha,
                    "draw": draw,
                    "theta_1": float(a),
                    "theta_2": float(b),
                    "at_edge": bool(a in first[[0, -1]] or b in second[[0, -1]]),
                    "distance": float(np.hypot(a - TRUE_PARAMETERS[0], b - TRUE_PARAMETERS[1])),
                }
                for draw, (a, b) in enumerate(best)
            ]
            surfaces.append(_surface(noise, alpha, grid, losses.mean(axis=1), side))
    return pl.concat(surfaces), minima


def _mean_squares(
    predicted: Float[ndarray, "grid samples"], observed: Float[ndarray, "draws samples"]
) -> Float[ndarray, "grid draws"]:
    """Mean squared difference of every prediction to every draw, by one matrix product."""
    cross = predicted @ observed.T
    return ((predicted**2).sum(axis=1)[:, None] - 2 * cross + (observed**2).sum(axis=1)) / observed.shape[1]


def _surface(noise: float, alpha: float, grid: ndarray, losses: ndarray, side: int) -> pl.DataFrame:
    """The surface as rows, thinned out to what a figure can show."""
    every = max(1, (side - 1) // 100)
    kept = (np.arange(side)[:, None] % every == 0) & (np.arange(side) % every == 0)
    kept = kept.ravel()
    columns = {"theta_1": grid[kept, 0], "theta_2": grid[kept, 1], "loss": losses[kept]}
    return pl.DataFrame({name: values.astype(np.float32) for name, values in columns.items()}).with_columns(
        noise=pl.lit(noise), alpha=pl.lit(alpha)
    )
