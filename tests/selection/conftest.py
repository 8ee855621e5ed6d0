import jax
import pytest


@pytest.fixture(autouse=True)
def standard_promotion():
    """Adam of optax mixes integer counts with floats."""
    with jax.numpy_dtype_promotion("standard"):
        yield
