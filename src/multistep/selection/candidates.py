"""Candidates of a selection: fit configurations, most often a grid of horizons and betas."""

from collections.abc import Sequence
from dataclasses import replace

from multistep.losses import Exponential, Uniform
from multistep.training import FitConfig

PAPER_HORIZONS = (1, 2, 3, 4, 10)
PAPER_BETAS = (0.1, 0.3, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0, 5.0, 20.0)


def grid(base: FitConfig, horizons: Sequence[int], betas: Sequence[float]) -> list[FitConfig]:
    """`base` with every horizon and, for those above 1, every beta of exponential weights."""
    return [
        replace(base, horizon=horizon, weights=weights)
        for horizon in horizons
        for weights in ([Uniform()] if horizon == 1 else [Exponential(beta) for beta in betas])
    ]
