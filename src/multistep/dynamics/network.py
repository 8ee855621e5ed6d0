"""The network: common layers, then one head for the mean and one for the deviation of the change of state."""

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from multistep.dynamics.base import AbstractArchitecture, AbstractDynamics, AbstractModel
from multistep.errors import InputError
from multistep.types import Action, Key, State

ACTIVATIONS = {"relu": jax.nn.relu, "silu": jax.nn.silu, "tanh": jnp.tanh}
Activation = Literal["relu", "silu", "tanh"]


@dataclass(frozen=True)
class NetworkConfig(AbstractArchitecture):
    """Shape of the network. Each head has one more hidden layer of the same size, always with tanh."""

    hidden_size: int = 256
    """Units of each hidden layer."""
    num_common_layers: int = 2
    """Hidden layers shared by the two heads."""
    activation: Activation = "relu"
    """Activation of the common layers."""
    batch_norm: bool = False
    """Whether each common layer is normalised with the statistics of the batch while training."""
    dropout: float = 0.0
    """Share of the common layers' units silenced at random while training."""

    def __post_init__(self) -> None:
        if self.hidden_size < 1 or self.num_common_layers < 1:
            raise InputError(
                "The network needs at least one common layer (num_common_layers) of at least one unit "
                "(hidden_size)."
            )
        if not 0 <= self.dropout < 1:
            raise InputError(
                f"The dropout is {self.dropout}: it is the share of silenced units, from 0 to less than 1."
            )
        if self.activation not in ACTIVATIONS:
            raise InputError(
                f"The activation is {self.activation}: it must be one of {', '.join(ACTIVATIONS)}."
            )

    def make(self, state_size: int, action_size: int, *, key: Key) -> AbstractDynamics:
        from multistep.dynamics.learner import make_learner  # which is made around a network

        network = make_network(self, state_size, action_size, key=key)
        return make_learner(network, batch_norm=self.batch_norm, dropout=self.dropout)


class Linear(eqx.Module):
    """y = x W + b."""

    weight: Float[Array, "inputs outputs"]
    bias: Float[Array, " outputs"]

    def __call__(self, x: Float[Array, " inputs"]) -> Float[Array, " outputs"]:
        return x @ self.weight + self.bias


class Head(eqx.Module):
    """One tanh layer and a linear one."""

    hidden: Linear
    output: Linear

    def __call__(self, features: Float[Array, " hidden"]) -> State:
        return self.output(jnp.tanh(self.hidden(features)))


class Network(AbstractModel):
    """A Markov dynamics in normalised units: the network predicts the change of the state."""

    common: tuple[Linear, ...]
    mean_head: Head
    deviation_head: Head
    activation: Activation = eqx.field(static=True)

    def step(self, state: State, action: Action) -> State:
        return self.add_change(state, self.features(jnp.concatenate([state, action])))

    def add_change(self, state: State, features: Float[Array, " hidden"]) -> State:
        """The next state: this one and the mean of the change that the features stand for."""
        return state + self.mean_head(features)

    def step_both(self, state: State, action: Action) -> tuple[State, State]:
        """The next state, and what the second head says of it; not touched by losses on the mean alone."""
        features = self.features(jnp.concatenate([state, action]))
        return self.add_change(state, features), self.deviation_head(features)

    @property
    def architecture(self) -> NetworkConfig:
        return NetworkConfig(self.common[0].bias.size, len(self.common), self.activation)

    def features(self, x: Float[Array, " inputs"]) -> Float[Array, " hidden"]:
        for linear in self.common:
            x = ACTIVATIONS[self.activation](linear(x))
        return x


def make_network(config: NetworkConfig, state_size: int, action_size: int, *, key: Key) -> Network:
    """A network with random weights, uniform within 1 / sqrt(inputs) of zero (PyTorch's rule for linear
    layers)."""
    common_key, mean_key, deviation_key = jax.random.split(key, 3)
    sizes = [state_size + action_size] + [config.hidden_size] * config.num_common_layers
    keys = jax.random.split(common_key, config.num_common_layers)
    return Network(
        common=tuple(
            make_linear(*pair, key=layer_key) for pair, layer_key in zip(pairwise(sizes), keys, strict=True)
        ),
        mean_head=_make_head(config.hidden_size, state_size, key=mean_key),
        deviation_head=_make_head(config.hidden_size, state_size, key=deviation_key),
        activation=config.activation,
    )


def make_linear(inputs: int, outputs: int, *, key: Key) -> Linear:
    weight_key, bias_key = jax.random.split(key)
    bound = 1 / math.sqrt(inputs)
    return Linear(
        jax.random.uniform(weight_key, (inputs, outputs), float, -bound, bound),
        jax.random.uniform(bias_key, (outputs,), float, -bound, bound),
    )


def _make_head(hidden_size: int, outputs: int, *, key: Key) -> Head:
    hidden_key, output_key = jax.random.split(key)
    return Head(
        make_linear(hidden_size, hidden_size, key=hidden_key),
        make_linear(hidden_size, outputs, key=output_key),
    )
