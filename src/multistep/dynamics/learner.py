"""`Learner`: the network while it trains, with batch norm and dropout; `freeze` makes the network that is
used."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PyTree

from multistep.data import Past
from multistep.dynamics.base import AbstractDynamics, Prediction
from multistep.dynamics.network import ACTIVATIONS, Linear, Network
from multistep.types import Action, Actions, Key, State

BATCH = "batch"  # the axis of `vmap` over which batch norm takes its statistics
EPSILON = 1e-5  # added to a variance before its root, as in PyTorch
MOMENTUM = 0.1  # share of the newest batch in the running statistics of batch norm, as in PyTorch

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
        return (x - statistics.mean) * (
            self.scale * jax.lax.rsqrt(statistics.variance + EPSILON)
        ) + self.shift


class Learner(AbstractDynamics):
    """A network that trains. Its step is applied under `vmap` with the axis name `BATCH`.

    The statistics of the batch come out of each step with the state, and dropout masks go in with the action.
    """

    network: Network
    norms: tuple[BatchNorm, ...]
    """One per common layer, or none."""
    statistics: tuple[Statistics, ...]
    """Running ones, of each norm."""
    dropout: float = eqx.field(static=True)

    @property
    def num_past(self) -> int:
        return 1

    def start(self, past: Past) -> tuple[State, tuple[Statistics, ...]]:
        return self.network.start(past), jax.tree.map(jnp.zeros_like, self.statistics)

    def step(
        self, memory: tuple[State, tuple[Statistics, ...]], given: tuple[Action, Masks]
    ) -> tuple[State, tuple[Statistics, ...]]:
        """Next normalised state and the statistics of this step's batch, from state, action and dropout
        masks."""
        (state, _), (action, masks) = memory, given
        features, statistics = self._features(jnp.concatenate([state, action]), masks)
        return self.network.add_change(state, features), statistics

    def step_both(
        self, memory: tuple[State, tuple[Statistics, ...]], given: tuple[Action, Masks]
    ) -> tuple[tuple[State, tuple[Statistics, ...]], State]:
        """The same, and what the network's second head says of that step."""
        (state, _), (action, masks) = memory, given
        features, statistics = self._features(jnp.concatenate([state, action]), masks)
        after = self.network.add_change(state, features), statistics
        return after, self.network.deviation_head(features)

    def predict(self, memory: tuple[State, tuple[Statistics, ...]]) -> Prediction:
        state, statistics = memory
        return Prediction(state, noted=statistics)

    def inputs(self, actions: Actions, key: Key | None) -> tuple[Actions, Bool[Array, "time layers hidden"]]:
        return actions, self.draw_masks(len(actions), key=key)

    def draw_masks(self, num_steps: int, *, key: Key | None) -> Bool[Array, "steps layers hidden"]:
        """Dropout masks for the steps of one rollout: which units of each common layer stay, none drawn
        without dropout.

        A unit stays with probability 1 - dropout, to the nearest of 1/256, ..., 255/256: four units share a
        random word of 32 bits, as drawing them is what dropout costs.
        """
        num_units = self.network.common[0].bias.size
        if not self.dropout:
            return jnp.zeros((num_steps, 0, num_units), bool)
        assert key is not None, "dropout draws its masks with a key"
        num_layers, num_words = len(self.network.common), -(-num_units // 4)
        words = jax.random.bits(key, (num_steps, num_layers, num_words), jnp.uint32)
        draws = jax.lax.bitcast_convert_type(words, jnp.uint8).reshape(num_steps, num_layers, 4 * num_words)
        return draws[..., :num_units] < self._kept_of_256

    def trained(self) -> PyTree[bool]:
        """All but the running statistics, and the deviation head, which has no part in a loss on the mean.

        Leaving that out saves a third of the optimiser's work.
        """
        everything = jax.tree.map(lambda _: True, self)
        left_out = (self.network.deviation_head, self.statistics)
        return eqx.tree_at(
            lambda spec: (spec.network.deviation_head, spec.statistics),
            everything,
            jax.tree.map(lambda _: False, left_out),
        )

    def note(self, noted: tuple[Statistics, ...]) -> "Learner":
        """The running statistics see the mean over the steps of a rollout, once per gradient step."""
        new = jax.tree.map(lambda values: values.mean(axis=0), noted)
        running = jax.tree.map(lambda old, new: (1 - MOMENTUM) * old + MOMENTUM * new, self.statistics, new)
        return Learner(self.network, self.norms, running, self.dropout)

    def freeze(self) -> Network:
        """The network for use: no dropout, batch norm with the running statistics folded into the linear
        layers."""
        if not self.norms:
            return self.network
        common = tuple(map(_fold, self.network.common, self.norms, self.statistics))
        return eqx.tree_at(lambda network: network.common, self.network, common)

    @property
    def _kept_of_256(self) -> int:
        return min(max(round((1 - self.dropout) * 256), 1), 255)

    def _features(
        self, x: Float[Array, " inputs"], masks: Masks
    ) -> tuple[Float[Array, " hidden"], tuple[Statistics, ...]]:
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


def make_learner(network: Network, *, batch_norm: bool, dropout: float) -> Learner:
    """The network, ready to train."""
    sizes = [linear.bias.size for linear in network.common] if batch_norm else []
    norms = tuple(BatchNorm(jnp.ones(size), jnp.zeros(size)) for size in sizes)
    statistics = tuple(Statistics(jnp.zeros(size), jnp.ones(size)) for size in sizes)
    return Learner(network, norms, statistics, dropout)


def _of_batch(x: Float[Array, " hidden"]) -> Statistics:
    mean = jax.lax.pmean(x, BATCH)
    return Statistics(mean, jax.lax.pmean((x - mean) ** 2, BATCH))


def _fold(linear: Linear, norm: BatchNorm, statistics: Statistics) -> Linear:
    factor = norm.scale * jax.lax.rsqrt(statistics.variance + EPSILON)
    return Linear(linear.weight * factor[None], (linear.bias - statistics.mean) * factor + norm.shift)
