"""The recipes that can be typed, and what a memory makes of a recipe."""

from dataclasses import replace

import jax

from multistep.data import Episodes
from multistep.dynamics import (
    AbstractArchitecture,
    AbstractMemory,
    HiddenConfig,
    HiddenState,
    LaggedConfig,
    Lags,
    NetworkConfig,
    NoMemory,
)
from multistep.errors import InputError
from multistep.registry import Registry
from multistep.selection.automatic import Automatic
from multistep.selection.validated import Validated
from multistep.training import AbstractRecipe, Aggregated, LeastSquares, Once, QuasiNewton, Smoothed

RECIPES = Registry(
    "recipe",
    AbstractRecipe,
    {
        "automatic": Automatic.of,
        "once": lambda recipe: recipe,
        "smoothed": Smoothed.of,
        "linear": lambda recipe: LeastSquares(),
        "small": lambda recipe: QuasiNewton(),
        "aggregated": Aggregated.of,
        "validated": Validated.of,
    },
)
"""What is typed wraps the one fit that the other options describe."""


def with_memory(recipe: AbstractRecipe, memory: AbstractMemory) -> AbstractRecipe:
    """The recipe whose models have this memory."""
    if isinstance(memory, NoMemory):
        return recipe
    if isinstance(recipe, Automatic):
        return replace(recipe, memory=memory)
    network = network_of(recipe)
    if network is None:
        raise InputError(
            f"{type(recipe).__name__} has no network that lags or a hidden state can be put around: leave "
            "them out."
        )
    return recipe.vary(network=memory.around(network))


def memory_in(recipe: AbstractRecipe) -> AbstractMemory:
    """What `with_memory` has put into the recipe."""
    network = recipe.memory if isinstance(recipe, Automatic) else network_of(recipe)
    if isinstance(network, AbstractMemory):
        return network
    if isinstance(network, HiddenConfig):
        return HiddenState(network.size, network.lags)
    return Lags(network.lags) if isinstance(network, LaggedConfig) else NoMemory()


def num_past_of(recipe: AbstractRecipe, episodes: Episodes) -> int:
    """Samples that the recipe's models start from, as far as that is known before they are fitted to these
    episodes."""
    memory, network = memory_in(recipe), network_of(recipe)
    if network is None or isinstance(network, NetworkConfig) or not isinstance(memory, NoMemory):
        return memory.num_past
    sizes = episodes.state_size, episodes.action_size
    return network.suited_to(episodes).make(*sizes, key=jax.random.key(0)).num_past


def network_of(recipe: AbstractRecipe) -> AbstractArchitecture | None:
    """What the recipe's one fit learns; none if it has no such thing."""
    one = recipe if isinstance(recipe, LeastSquares | QuasiNewton) else recipe.settings
    return one.network if isinstance(one, LeastSquares | QuasiNewton | Once) else None
