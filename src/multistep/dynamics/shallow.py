"""`Shallow`: a line and one layer of units that corrects it, for few data or for second-order descent."""

from dataclasses import dataclass, replace

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PyTree
from numpy import ndarray

from multistep.data import Episodes, Windows
from multistep.dynamics.base import AbstractArchitecture, AbstractModel
from multistep.dynamics.linear import Line, LineConfig
from multistep.dynamics.network import Linear, make_linear
from multistep.dynamics.normaliser import Normaliser
from multistep.errors import InputError
from multistep.types import Action, Key, State

STEEPNESS = 2.0
"""Random weights are so many times the usual ones: units must bend within the data to be of use."""


@dataclass(frozen=True)
class ShallowConfig(AbstractArchitecture):
    """A linear model and a few tanh units that correct it; both are trained.

    What the units add starts at zero: before the first step of a training the whole is the linear model.
    """

    units: int = 8
    """Units of the one hidden layer."""
    turns: tuple[float, ...] = ()
    """Of each state the size of one turn if it is an angle, else 0; none: there are no angles."""

    def __post_init__(self) -> None:
        if self.units < 1:
            raise InputError(f"A layer of {self.units} units: it takes 1 or more.")

    def suited_to(self, episodes: Episodes) -> "ShallowConfig":
        return replace(self, turns=episodes.turns)

    def make(self, state_size: int, action_size: int, *, key: Key) -> "Shallow":
        line = LineConfig(self.turns).make(state_size, action_size, key=key)
        usual = make_linear(line.turning.count_inputs(state_size, action_size), self.units, key=key)
        hidden = jax.tree.map(lambda weights: STEEPNESS * weights, usual)
        return Shallow(line, hidden, jnp.zeros((self.units, state_size)))


class Shallow(AbstractModel):
    r"""$s' = s + W^\top x + b + C^\top \tanh(V^\top x + c)$ with x the state and the action, in normalised
    units."""

    line: Line
    hidden: Linear
    output: Float[Array, "units state"]

    def step(self, state: State, action: Action) -> State:
        units = jnp.tanh(self.hidden(self.line.turning(state, action)))
        return self.line.step(state, action) + units @ self.output

    def begin(self, windows: Windows, starts: Int[ndarray, "windows 2"], normaliser: Normaliser) -> "Shallow":
        return replace(self, line=self.line.begin(windows, starts, normaliser))

    def trained(self) -> PyTree[bool]:
        everything = jax.tree.map(lambda _: True, self)
        return eqx.tree_at(lambda spec: spec.line, everything, self.line.trained())

    @property
    def architecture(self) -> ShallowConfig:
        return ShallowConfig(self.output.shape[0], self.line.turning.turns)
