"""The recipes that come with the package, and those that can be typed."""

from typing import Literal

from multistep.dynamics import NetworkConfig
from multistep.losses import Exponential
from multistep.registry import Registry
from multistep.training.base import AbstractRecipe
from multistep.training.least_squares import LeastSquares
from multistep.training.once import Once
from multistep.training.smoothed import Smoothed

DEFAULT = Once()
"""Ours: neither batch norm nor dropout, a long horizon, balanced weights. One fit; `SMOOTHED` is two."""

PAPER = Once(
    network=NetworkConfig(batch_norm=True, dropout=0.1),
    horizon=4,
    weights=Exponential(1.5),
    epochs=30,
    least_steps=1,
)
"""The paper's network, optimiser and batch size, with the horizon and weights it found best for noisy
Cartpole data."""

SMOOTHED = Smoothed.of(DEFAULT)
"""What `multistep.fit` does by itself."""

Preset = Literal["default", "paper"]
PRESETS: dict[Preset, Once] = {"default": DEFAULT, "paper": PAPER}
RECIPES = Registry(
    "recipe",
    AbstractRecipe,
    {"once": lambda recipe: recipe, "smoothed": Smoothed.of, "linear": lambda recipe: LeastSquares()},
)
"""What is typed wraps the one fit that the other options describe."""
