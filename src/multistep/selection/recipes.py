"""The recipes that can be typed."""

from multistep.registry import Registry
from multistep.selection.automatic import Automatic
from multistep.training import AbstractRecipe, LeastSquares, QuasiNewton, Smoothed

RECIPES = Registry(
    "recipe",
    AbstractRecipe,
    {
        "automatic": Automatic.of,
        "once": lambda recipe: recipe,
        "smoothed": Smoothed.of,
        "linear": lambda recipe: LeastSquares(),
        "small": lambda recipe: QuasiNewton(),
    },
)
"""What is typed wraps the one fit that the other options describe."""
