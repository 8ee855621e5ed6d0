"""Candidates of a selection: recipes, most often a grid of horizons and betas."""

from collections.abc import Sequence

from multistep.losses import Exponential, Uniform
from multistep.training import AbstractRecipe

PAPER_HORIZONS = (1, 2, 3, 4, 10)
PAPER_BETAS = (0.1, 0.3, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0, 5.0, 20.0)


def grid(base: AbstractRecipe, horizons: Sequence[int], betas: Sequence[float]) -> list[AbstractRecipe]:
    """`base` with every horizon and, for those above 1, every beta of exponential weights.

    **Arguments:**

    - `base`: the recipe that is varied.
    - `horizons`: steps ahead of the loss; 1 is the one-step loss, which has no weights.
    - `betas`: of `Exponential`.
    """
    return [
        base.vary(horizon=horizon, weights=weights)
        for horizon in horizons
        for weights in ([Uniform()] if horizon == 1 else [Exponential(beta) for beta in betas])
    ]
