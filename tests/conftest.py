from pathlib import Path

import jax
import pytest

from multistep.dynamics import NetworkConfig
from multistep.losses import Uniform
from multistep.training import Once
from systems import oscillator_episodes

jax.config.update("jax_enable_x64", True)
jax.config.update("jax_numpy_rank_promotion", "raise")
jax.config.update("jax_numpy_dtype_promotion", "strict")


# Minutes each: they start first, so that no core waits for them at the end.
LONGEST = (
    "test_readme.py",
    "test_docs.py",
    "test_cli.py",
    "test_agent.py",
    "test_bench.py",
    "test_planners.py",
)


def pytest_collection_modifyitems(items):
    items.sort(key=lambda item: LONGEST.index(item.path.name) if item.path.name in LONGEST else len(LONGEST))


MOST_MAPPINGS = 25_000
"""Each compiled program takes some of the 65,530 memory mappings that Linux allows a process; past them it
crashes."""


@pytest.fixture(scope="module", autouse=True)
def few_programs():
    """No module of tests starts with so many programs of others that it may not end."""
    mappings = Path("/proc/self/maps")
    if mappings.exists() and mappings.read_bytes().count(b"\n") > MOST_MAPPINGS:
        jax.clear_caches()


@pytest.fixture
def getkey():
    """A function that gives a new key at every call, the same ones in every run."""
    seeds = iter(range(1_000_000))
    return lambda: jax.random.key(next(seeds))


@pytest.fixture(scope="session")
def oscillators():
    """Nine noisy episodes."""
    return oscillator_episodes(9, 60, noise=0.05)


@pytest.fixture(scope="session")
def small():
    """A fit of a second or so."""
    return Once(network=NetworkConfig(hidden_size=8), horizon=1, weights=Uniform(), epochs=4, least_steps=100)
