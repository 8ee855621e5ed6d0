import jax
import pytest


@pytest.fixture(autouse=True)
def standard_promotion():
    """Adam of optax mixes integer counts with floats, so the strict rule of the other tests cannot hold
    here."""
    with jax.numpy_dtype_promotion("standard"):
        yield
