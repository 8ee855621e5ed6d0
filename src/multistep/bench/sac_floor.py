"""A bare SAC update, compiled: what a training in the model cannot be faster than. Sizes are sbx's
defaults."""

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, PyTree

from multistep.bench.workload import ACTIONS, HIDDEN, STATES, Work
from multistep.types import Key

BATCH_SIZE, DISCOUNT, RATE, TARGET_RATE = 256, 0.99, 3e-4, 0.005
OPTIMISER = optax.adam(RATE)
Layers = list[tuple[Array, Array]]


class Floor(NamedTuple):
    """Parameters and optimiser states."""

    actor: Layers
    critics: Layers
    targets: Layers
    log_temperature: Array
    optimisers: PyTree


class Batch(NamedTuple):
    """Transitions, a batch for each update."""

    states: Float[Array, "*updates batch state"]
    actions: Float[Array, "*updates batch action"]
    rewards: Float[Array, "*updates batch"]
    next_states: Float[Array, "*updates batch state"]


def sac_floor_work(num_updates: int) -> Work:
    """So many updates as one compiled program."""
    keys = jax.random.split(jax.random.key(0), 8)
    critic_keys = jax.random.split(keys[0], 2)
    actor = _layers([STATES, HIDDEN, HIDDEN, 2 * ACTIONS], keys[1])
    critics = jax.vmap(lambda key: _layers([STATES + ACTIONS, HIDDEN, HIDDEN, 1], key))(critic_keys)
    temperature = jnp.zeros(())
    start = Floor(
        actor, critics, critics, temperature, tuple(map(OPTIMISER.init, (actor, critics, temperature)))
    )
    shape = (num_updates, BATCH_SIZE)
    batches = Batch(
        jax.random.normal(keys[2], (*shape, STATES)),
        jax.random.uniform(keys[3], (*shape, ACTIONS), minval=-1, maxval=1),
        jax.random.normal(keys[4], shape),
        jax.random.normal(keys[5], (*shape, STATES)),
    )

    def work() -> None:
        jax.block_until_ready(_train(start, batches, keys[6]))

    return work


@jax.jit
def _train(floor: Floor, batches: Batch, key: Key) -> Floor:
    updates = len(batches.rewards)
    return jax.lax.scan(
        lambda state, given: (_update(state, *given), None), floor, (batches, jax.random.split(key, updates))
    )[0]


def _update(floor: Floor, batch: Batch, key: Key) -> Floor:
    """Critics, then actor, then temperature, then targets."""
    actor_optimiser, critic_optimiser, temperature_optimiser = floor.optimisers
    next_key, key = jax.random.split(key)
    temperature = jnp.exp(floor.log_temperature)
    next_actions, next_log_density = _act(floor.actor, batch.next_states, next_key)
    next_values = (
        _value(floor.targets, batch.next_states, next_actions).min(axis=0) - temperature * next_log_density
    )
    wanted = jax.lax.stop_gradient(batch.rewards + DISCOUNT * next_values)

    def critic_loss(critics: Layers) -> Array:
        return 0.5 * ((_value(critics, batch.states, batch.actions) - wanted) ** 2).mean(axis=1).sum()

    critics, critic_optimiser = _descend(critic_loss, floor.critics, critic_optimiser)

    def actor_loss(actor: Layers) -> tuple[Array, Array]:
        actions, log_density = _act(actor, batch.states, key)
        value = _value(critics, batch.states, actions).min(axis=0)
        return (temperature * log_density - value).mean(), log_density.mean()

    gradient, log_density = jax.grad(actor_loss, has_aux=True)(floor.actor)
    change, actor_optimiser = OPTIMISER.update(gradient, actor_optimiser)
    actor: Any = optax.apply_updates(floor.actor, change)
    log_temperature, temperature_optimiser = _descend(
        lambda value: -value * (log_density - ACTIONS), floor.log_temperature, temperature_optimiser
    )
    targets: Any = optax.incremental_update(critics, floor.targets, TARGET_RATE)
    return Floor(
        actor, critics, targets, log_temperature, (actor_optimiser, critic_optimiser, temperature_optimiser)
    )


def _descend(loss: Any, parameters: Any, optimiser: Any) -> tuple[Any, Any]:
    change, optimiser = OPTIMISER.update(jax.grad(loss)(parameters), optimiser)
    return optax.apply_updates(parameters, change), optimiser


def _act(
    actor: Layers, states: Float[Array, "batch state"], key: Key
) -> tuple[Float[Array, "batch action"], Float[Array, " batch"]]:
    """Actions sampled from the squashed Gaussian, and the logarithm of their density."""
    mean, log_deviation = jnp.split(_forward(actor, states), 2, axis=-1)
    log_deviation = jnp.clip(log_deviation, -20, 2)
    noise = jax.random.normal(key, mean.shape)
    raw = mean + jnp.exp(log_deviation) * noise
    log_density = -0.5 * noise**2 - log_deviation - 0.5 * jnp.log(2 * jnp.pi)
    squashing = 2 * (jnp.log(2.0) - raw - jax.nn.softplus(-2 * raw))
    return jnp.tanh(raw), (log_density - squashing).sum(axis=-1)


def _value(
    critics: Layers, states: Float[Array, "batch state"], actions: Float[Array, "batch action"]
) -> Float[Array, "critic batch"]:
    inputs = jnp.concatenate([states, actions], axis=-1)
    return jax.vmap(partial(_forward, x=inputs))(critics)[..., 0]


def _forward(layers: Layers, x: Float[Array, "batch size"]) -> Float[Array, "batch out"]:
    for weights, bias in layers[:-1]:
        x = jax.nn.relu(x @ weights + bias)
    weights, bias = layers[-1]
    return x @ weights + bias


def _layers(sizes: list[int], key: Key) -> Layers:
    keys = jax.random.split(key, len(sizes))
    return [
        (jax.random.normal(k, (before, after)) / jnp.sqrt(before), jnp.zeros(after))
        for k, before, after in zip(keys, sizes[:-1], sizes[1:], strict=False)
    ]
