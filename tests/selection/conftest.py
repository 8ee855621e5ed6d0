import jax
import pytest

from multistep.dynamics import NetworkConfig
from multistep.losses import Uniform
from multistep.training import Once
from systems import oscillator_episodes


@pytest.fixture(autouse=True)
def standard_promotion():
    """Adam of optax mixes integer counts with floats."""
    with jax.numpy_dtype_promotion("standard"):
        yield


@pytest.fixture(scope="session")
def oscillators():
    """Nine noisy episodes."""
    return oscillator_episodes(9, 60, noise=0.05)


@pytest.fixture(scope="session")
def small():
    """A fit of a second or so."""
    return Once(network=NetworkConfig(hidden_size=8), horizon=1, weights=Uniform(), epochs=4, least_steps=100)
