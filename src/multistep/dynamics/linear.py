"""A line through the points, found by least squares; and the network as a correction of it."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PyTree
from numpy import ndarray

from multistep.data import Windows
from multistep.dynamics.base import AbstractArchitecture, AbstractModel
from multistep.dynamics.network import Activation, Linear, Network, NetworkConfig, make_network
from multistep.types import Action, Key, State

RIDGES = tuple(10.0 ** np.arange(-9, 1))
"""Ridges that are tried, as shares of the number of transitions."""


@dataclass(frozen=True)
class LineConfig(AbstractArchitecture):
    """A linear model: nothing to choose."""

    def make(self, state_size: int, action_size: int, *, key: Key) -> "Line":
        return Line(_zero_line(state_size, action_size))


@dataclass(frozen=True)
class CorrectedConfig(AbstractArchitecture):
    """A linear model and a network that corrects it; both are trained.

    The network's last layer starts at zero: before the first epoch the whole is the linear model.
    """

    hidden_size: int = 256
    """Units of each hidden layer."""
    num_common_layers: int = 2
    """Hidden layers before the head, which has one more."""
    activation: Activation = "relu"
    """Activation of these layers."""

    def make(self, state_size: int, action_size: int, *, key: Key) -> "Corrected":
        network = make_network(NetworkConfig(**asdict(self)), state_size, action_size, key=key)
        silent = jax.tree.map(jnp.zeros_like, network.mean_head.output)
        network = eqx.tree_at(lambda network: network.mean_head.output, network, silent)
        return Corrected(Line(_zero_line(state_size, action_size)), network)


class Persistence(AbstractModel):
    """Nothing ever changes: the least that a model must beat."""

    def step(self, state: State, action: Action) -> State:
        return state


class Line(AbstractModel):
    r"""$s' = s + W^\top (s, a) + b$, in normalised units."""

    change: Linear

    def step(self, state: State, action: Action) -> State:
        return state + self.change(jnp.concatenate([state, action]))

    def begin(self, windows: Windows, starts: Int[ndarray, "windows 2"]) -> "Line":
        return Line(fit_line(windows, starts))

    @property
    def architecture(self) -> LineConfig:
        return LineConfig()


class Corrected(AbstractModel):
    """The linear model's step, and what the network adds to it."""

    line: Line
    network: Network

    def step(self, state: State, action: Action) -> State:
        features = self.network.features(jnp.concatenate([state, action]))
        return self.network.add_change(self.line.step(state, action), features)

    def begin(self, windows: Windows, starts: Int[ndarray, "windows 2"]) -> "Corrected":
        return Corrected(self.line.begin(windows, starts), self.network)

    def trained(self) -> PyTree[bool]:
        """All but the deviation head, which has no part in a loss on the mean."""
        head = self.network.deviation_head
        everything, none = jax.tree.map(lambda _: True, self), jax.tree.map(lambda _: False, head)
        return eqx.tree_at(lambda spec: spec.network.deviation_head, everything, none)

    @property
    def architecture(self) -> CorrectedConfig:
        return CorrectedConfig(**{name: getattr(self.network.architecture, name) for name in _NAMES})


_NAMES = tuple(asdict(CorrectedConfig()))


def fit_line(windows: Windows, starts: Int[ndarray, "windows 2"], ridges: Sequence[float] = RIDGES) -> Linear:
    r"""The change of the state by least squares: $\min_W \|Y - X W\|^2 + \lambda N \|W\|^2$.

    Of the ridges $\lambda$ the one with the least generalised cross-validation error is taken,
    $N \|Y - X W_\lambda\|^2 / (N - d_\lambda)^2$ with $d_\lambda$ the degrees of freedom: what leaving out
    one transition at a time would find, without doing so.
    """
    states, actions = np.asarray(windows.states, np.float64), np.asarray(windows.actions, np.float64)
    first, action = starts.T
    inputs = np.concatenate([states[first], actions[action]], axis=1)
    changes = states[first + 1] - states[first]
    means = inputs.mean(axis=0), changes.mean(axis=0)
    inputs, changes = inputs - means[0], changes - means[1]
    squares, directions = np.linalg.eigh(inputs.T @ inputs)
    squares, projected = np.maximum(squares, 0), directions.T @ (inputs.T @ changes)
    num, total = len(inputs), (changes**2).sum()

    def error(ridge: float) -> float:
        shrunk = squares + ridge * num
        explained = ((2 / shrunk - squares / shrunk**2)[:, None] * projected**2).sum()
        return num * max(total - explained, 0.0) / max(num - 1 - (squares / shrunk).sum(), 1e-9) ** 2

    best = min(ridges, key=error)
    weight = directions @ (projected / (squares + best * num)[:, None])
    return Linear(jnp.asarray(weight, float), jnp.asarray(means[1] - means[0] @ weight, float))


def _zero_line(state_size: int, action_size: int) -> Linear:
    weight: Float[Array, "inputs outputs"] = jnp.zeros((state_size + action_size, state_size))
    return Linear(weight, jnp.zeros(state_size))
