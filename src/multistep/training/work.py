"""How long a training takes on this machine, before it starts."""

import time

import equinox as eqx
import jax
import jax.numpy as jnp

from multistep.data import Episodes
from multistep.dynamics import AbstractArchitecture

SHARE = 0.5
"""Of the speed of bare products, what a training reaches with validation and all (`multistep bench
training`: 0.66 without)."""
SIDE, PRODUCTS = 256, 400


def seconds_of(model_steps: int, network: AbstractArchitecture, train: Episodes) -> float:
    """About how long so many steps of this network take, forth and back, by the speed of products of its
    size."""
    made = network.suited_to(train).make(train.state_size, train.action_size, key=jax.random.key(0))
    num_weights = sum(leaf.size for leaf in jax.tree.leaves(eqx.filter(made, made.trained())))
    return 6.0 * num_weights * model_steps / (SHARE * product_speed())


def product_speed() -> float:
    """Floating-point operations per second in a chain of 64 x 256 x 256 products."""
    weight, batch = jnp.eye(SIDE), jnp.ones((64, SIDE))
    run = jax.jit(lambda x: jax.lax.fori_loop(0, PRODUCTS, lambda _, x: x @ weight, x))
    run(batch).block_until_ready()
    started = time.perf_counter()
    run(batch).block_until_ready()
    return 2.0 * 64 * SIDE**2 * PRODUCTS / (time.perf_counter() - started)
