import jax
import pytest

jax.config.update("jax_enable_x64", True)
jax.config.update("jax_numpy_rank_promotion", "raise")
jax.config.update("jax_numpy_dtype_promotion", "strict")


@pytest.fixture
def getkey():
    """A function that gives a new key at every call, the same ones in every run."""
    seeds = iter(range(1_000_000))
    return lambda: jax.random.key(next(seeds))
