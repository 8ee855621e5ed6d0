"""A line through the points, found by least squares; and the network as a correction of it."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PyTree
from numpy import ndarray

from multistep.data import Episodes, Windows
from multistep.dynamics.base import AbstractArchitecture, AbstractModel
from multistep.dynamics.network import Activation, Linear, Network, NetworkConfig, make_network
from multistep.dynamics.normaliser import Normaliser
from multistep.types import Action, Key, State

RIDGES = tuple(10.0 ** np.arange(-9, 1))
"""Ridges that are tried, as shares of the number of transitions."""
LARGEST_MODE = 1.0
"""Of a linear state space that is not to run away: an integrator stays one."""
Inputs = Float[Array, " inputs"]


@dataclass(frozen=True)
class LineConfig(AbstractArchitecture):
    """A linear model: nothing to choose."""

    turns: tuple[float, ...] = ()
    """Of each state the size of one turn if it is an angle, else 0; none: there are no angles."""

    def suited_to(self, episodes: Episodes) -> "LineConfig":
        return replace(self, turns=episodes.turns)

    def make(self, state_size: int, action_size: int, *, key: Key) -> "Line":
        turning = _make_turning(self.turns)
        weight = jnp.zeros((turning.count_inputs(state_size, action_size), state_size))
        return Line(turning, Linear(weight, jnp.zeros(state_size)))


@dataclass(frozen=True)
class CorrectedConfig(AbstractArchitecture):
    """A linear model and a network that corrects it; both are trained.

    The network's last layer starts at zero: before the first epoch the whole is the linear model. Of an angle
    both see sine and cosine, and predict its change.
    """

    hidden_size: int = 256
    """Units of each hidden layer."""
    num_common_layers: int = 2
    """Hidden layers before the head, which has one more."""
    activation: Activation = "relu"
    """Activation of these layers."""
    turns: tuple[float, ...] = ()
    """Of each state the size of one turn if it is an angle, else 0; none: there are no angles."""

    def suited_to(self, episodes: Episodes) -> "CorrectedConfig":
        return replace(self, turns=episodes.turns)

    def make(self, state_size: int, action_size: int, *, key: Key) -> "Corrected":
        line = LineConfig(self.turns).make(state_size, action_size, key=key)
        config = NetworkConfig(self.hidden_size, self.num_common_layers, self.activation)
        num_inputs = line.turning.count_inputs(state_size, action_size)
        network = make_network(config, state_size, num_inputs - state_size, key=key)
        silent = jax.tree.map(jnp.zeros_like, network.mean_head.output)
        return Corrected(line, eqx.tree_at(lambda network: network.mean_head.output, network, silent))


class Turning(eqx.Module):
    """What a model sees of a state: sine and cosine of angles, everything else as it is."""

    phase: Float[Array, " angles"]
    """Radians of each angle where its normalised value is 0."""
    rate: Float[Array, " angles"]
    """Radians of one normalised unit of each angle."""
    turns: tuple[float, ...] = eqx.field(static=True)

    def __call__(self, state: State, action: Action) -> Inputs:
        if not self.turns:
            return jnp.concatenate([state, action])
        is_angle = np.array(self.turns) > 0
        radians = jax.lax.stop_gradient(self.phase) + jax.lax.stop_gradient(self.rate) * state[is_angle]
        return jnp.concatenate([state[~is_angle], jnp.sin(radians), jnp.cos(radians), action])

    def count_inputs(self, state_size: int, action_size: int) -> int:
        return state_size + self.phase.size + action_size

    def in_units_of(self, normaliser: Normaliser) -> "Turning":
        sizes = np.array(self.turns)
        is_angle = sizes > 0
        radians = 2 * math.pi / sizes[is_angle]
        means, deviations = (
            np.asarray(values)[is_angle] for values in (normaliser.state_mean, normaliser.state_deviation)
        )
        # Whole turns are left out: single precision has better use for its digits.
        phase = np.remainder(means * radians, 2 * math.pi)
        return Turning(jnp.asarray(phase, float), jnp.asarray(deviations * radians, float), self.turns)


@eqx.filter_jit
def _inputs(turning: Turning, states: Array, actions: Array) -> Float[Array, "examples inputs"]:
    return jax.vmap(turning)(states, actions)


class Persistence(AbstractModel):
    """Nothing ever changes: the least that a model must beat."""

    def step(self, state: State, action: Action) -> State:
        return state


class Line(AbstractModel):
    r"""$s' = s + W^\top x + b$ with x the state and the action, in normalised units."""

    turning: Turning
    change: Linear

    def step(self, state: State, action: Action) -> State:
        return state + self.change(self.turning(state, action))

    def begin(self, windows: Windows, starts: Int[ndarray, "windows 2"], normaliser: Normaliser) -> "Line":
        turning = self.turning.in_units_of(normaliser) if self.turning.turns else self.turning
        all_states, all_actions = np.asarray(windows.states), np.asarray(windows.actions)
        states, actions = all_states[starts[:, 0]], all_actions[starts[:, 1]]
        inputs = np.asarray(_inputs(turning, jnp.asarray(states), jnp.asarray(actions)), np.float64)
        changes = all_states[starts[:, 0] + 1].astype(np.float64) - states
        return Line(turning, least_squares(inputs, changes))

    def trained(self) -> PyTree[bool]:
        everything = jax.tree.map(lambda _: True, self)
        return eqx.tree_at(lambda spec: spec.turning, everything, jax.tree.map(lambda _: False, self.turning))

    @property
    def architecture(self) -> LineConfig:
        return LineConfig(self.turning.turns)


def pulled_back(line: Line) -> Line:
    """The line without modes that grow: what noise or few data made of a plant that settles.

    Eigenvalues of the state's matrix outside of the circle of radius `LARGEST_MODE` are moved onto it.
    """
    size = line.change.bias.size
    weight = np.array(line.change.weight, np.float64)
    if line.turning.turns or not np.isfinite(weight).all():
        return line
    modes, directions = np.linalg.eig(np.eye(size) + weight[:size].T)
    if (np.abs(modes) <= LARGEST_MODE + 1e-9).all():
        return line
    kept = modes * np.minimum(1, LARGEST_MODE / np.maximum(np.abs(modes), 1e-300))
    matrix = np.linalg.lstsq(directions.T, (directions * kept).T, rcond=None)[0].T.real
    weight[:size] = (matrix - np.eye(size)).T
    return Line(line.turning, Linear(jnp.asarray(weight, line.change.weight.dtype), line.change.bias))


class Corrected(AbstractModel):
    """The linear model's step, and what the network adds to it."""

    line: Line
    network: Network

    def step(self, state: State, action: Action) -> State:
        features = self.network.features(self.line.turning(state, action))
        return self.network.add_change(self.line.step(state, action), features)

    def step_both(self, state: State, action: Action) -> tuple[State, State]:
        """The next state, and what the network's second head says of it."""
        features = self.network.features(self.line.turning(state, action))
        after = self.network.add_change(self.line.step(state, action), features)
        return after, self.network.deviation_head(features)

    def begin(
        self, windows: Windows, starts: Int[ndarray, "windows 2"], normaliser: Normaliser
    ) -> "Corrected":
        return Corrected(self.line.begin(windows, starts, normaliser), self.network)

    def trained(self) -> PyTree[bool]:
        """All but the deviation head, which has no part in a loss on the mean."""
        head = self.network.deviation_head
        network = jax.tree.map(lambda _: True, self.network)
        none = jax.tree.map(lambda _: False, head)
        return Corrected(self.line.trained(), eqx.tree_at(lambda spec: spec.deviation_head, network, none))

    @property
    def architecture(self) -> CorrectedConfig:
        own = self.network.architecture
        turns = self.line.turning.turns
        return CorrectedConfig(own.hidden_size, own.num_common_layers, own.activation, turns)


def least_squares(
    inputs: Float[ndarray, "examples inputs"],
    outputs: Float[ndarray, "examples outputs"],
    ridges: Sequence[float] = RIDGES,
) -> Linear:
    r"""$\min_W \|Y - X W\|^2 + \lambda N \|W\|^2$, with a free constant.

    Of the ridges $\lambda$ the one with the least generalised cross-validation error is taken,
    $N \|Y - X W_\lambda\|^2 / (N - d_\lambda)^2$ with $d_\lambda$ the degrees of freedom: what leaving out
    one example at a time would find, without doing so.

    **Arguments:**

    - `inputs`, `outputs`: X and Y, an example in each row.
    - `ridges`: those to try.
    """
    input_mean, output_mean = inputs.mean(axis=0), outputs.mean(axis=0)
    inputs, outputs = inputs - input_mean, outputs - output_mean
    squares, directions = np.linalg.eigh(inputs.T @ inputs)
    squares, projected = np.maximum(squares, 0), directions.T @ (inputs.T @ outputs)
    num, total = len(inputs), (outputs**2).sum()

    def error(ridge: float) -> float:
        shrunk = squares + ridge * num
        explained = ((2 / shrunk - squares / shrunk**2)[:, None] * projected**2).sum()
        return num * max(total - explained, 0.0) / max(num - 1 - (squares / shrunk).sum(), 1e-9) ** 2

    best = min(ridges, key=error)
    weight = directions @ (projected / (squares + best * num)[:, None])
    return Linear(jnp.asarray(weight, float), jnp.asarray(output_mean - input_mean @ weight, float))


def _make_turning(turns: tuple[float, ...]) -> Turning:
    angles = jnp.zeros(sum(turn > 0 for turn in turns))
    return Turning(angles, angles, tuple(turns))
