"""`Learner`: the network while it trains, with batch norm and dropout; `freeze` makes the network that is used."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from multistep.dynamics.network import ACTIVATIONS, Linear, Network, NetworkConfig, make_network
from multistep.types import Action, Key, State

BATCH = "batch"  # the axis of `vmap` over which batch norm takes its statistics
EPSILON = 1e-5  # added to a variance before its root, as in PyTorch

Masks = Bool[Array, "layers hidden"]


class Statistics(eqx.Module):
    """Mean and variance of each unit of a layer before its activation."""

    mean: Float[Array, " hidden"]
    variance: Float[Array, " hidden"]


class BatchNorm(eqx.Module):
    """y = scale (x - mean) / sqrt(variance) + shift."""

    scale: Float[Array, " hidden"]
    shift: Float[Array, " hidden"]

    def __call__(self, x: Float[Array, " hidden"], statistics: Statistics) -> Float[Array, " hidden"]:
        return (x - statistics.mean) * (self.scale * jax.lax.rsqrt(statistics.variance + EPSILON)) + self.shift


class Learner(eqx.Module):
    """A network that trains. Its step is applied under `vmap` with the axis name `BATCH`.

    Nothing is hidden in it: the statistics of the batch come out of each step, and dropout masks go in.
    """

    network: Network
    norms: tuple[BatchNorm, ...]  # one per common layer, or none
    dropout: float = eqx.field(static=True)

    def step(
        self, carried: tuple[State, tuple[Statistics, ...]], given: tuple[Action, Masks]
    ) -> tuple[State, tuple[Statistics, ...]]:
        """Next normalised state and the statistics of this step's batch, from state, action and dropout masks."""
        (state, _), (action, masks) = carried, given
        features, statistics = self._features(jnp.concatenate([state, action]), masks)
        return state + self.network.mean_head(features), statistics

    def draw_masks(self, num_steps: int, *, key: Key) -> Bool[Array, "steps layers hidden"]:
        """Dropout masks for the steps of one rollout: which units of each common layer stay, none drawn without dropout.

        A unit stays with probability 1 - dropout, to the nearest of 1/256, ..., 255/256: four units share a random word of
        32 bits, as drawing them is what dropout costs.
        """
        num_units, num_layers = self.network.common[0].bias.size, len(self.network.common) if self.dropout else 0
        num_words = -(-num_units // 4)
        words = jax.random.bits(key, (num_steps, num_layers, num_words), jnp.uint32)
        draws = jax.lax.bitcast_convert_type(words, jnp.uint8).reshape(num_steps, num_layers, 4 * num_words)
        return draws[..., :num_units] < self._kept_of_256

    @property
    def _kept_of_256(self) -> int:
        return min(max(round((1 - self.dropout) * 256), 1), 255)

    def freeze(self, statistics: tuple[Statistics, ...]) -> Network:
        """The network for use: no dropout, batch norm with these statistics folded into the linear layers."""
        if not self.norms:
            return self.network
        common = tuple(map(_fold, self.network.common, self.norms, statistics))
        return eqx.tree_at(lambda network: network.common, self.network, common)

    def _features(self, x: Float[Array, " inputs"], masks: Masks) -> tuple[Float[Array, " hidden"], tuple[Statistics, ...]]:
        batch_statistics = []
        for layer, linear in enumerate(self.network.common):
            x = linear(x)
            if self.norms:
                batch_statistics.append(_of_batch(x))
                x = self.norms[layer](x, batch_statistics[-1])
            x = ACTIVATIONS[self.network.activation](x)
            if self.dropout:
                x = jnp.where(masks[layer], x * (256 / self._kept_of_256), 0)
        return x, tuple(batch_statistics)


def make_learner(config: NetworkConfig, state_size: int, action_size: int, *, key: Key) -> Learner:
    network = make_network(config, state_size, action_size, key=key)
    num_norms = config.num_common_layers if config.batch_norm else 0
    norms = tuple(BatchNorm(jnp.ones(config.hidden_size), jnp.zeros(config.hidden_size)) for _ in range(num_norms))
    return Learner(network, norms, config.dropout)


def no_statistics(learner: Learner) -> tuple[Statistics, ...]:
    """Statistics of the right shapes, before any batch has been seen."""
    return tuple(Statistics(jnp.zeros_like(norm.shift), jnp.ones_like(norm.scale)) for norm in learner.norms)


def _of_batch(x: Float[Array, " hidden"]) -> Statistics:
    mean = jax.lax.pmean(x, BATCH)
    return Statistics(mean, jax.lax.pmean((x - mean) ** 2, BATCH))


def _fold(linear: Linear, norm: BatchNorm, statistics: Statistics) -> Linear:
    factor = norm.scale * jax.lax.rsqrt(statistics.variance + EPSILON)
    return Linear(linear.weight * factor[None], (linear.bias - statistics.mean) * factor + norm.shift)
