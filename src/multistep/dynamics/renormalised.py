"""`Renormalised`: what was learned in one normaliser's units, in those of another."""

from dataclasses import dataclass, field, replace
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree

from multistep.data import Episodes, Past
from multistep.dynamics.base import AbstractArchitecture, AbstractDynamics, AbstractModel, Memory, Prediction
from multistep.dynamics.linear import CorrectedConfig
from multistep.dynamics.normaliser import Normaliser
from multistep.types import Action, Key, State


class Change(eqx.Module):
    """Of units: what is scale * x + shift inside is x outside."""

    scale: Float[Array, " column"]
    shift: Float[Array, " column"]

    def inwards(self, outside: Float[Array, " column"]) -> Float[Array, " column"]:
        return self.scale * outside + self.shift

    def outwards(self, inside: Float[Array, " column"]) -> Float[Array, " column"]:
        return (inside - self.shift) / self.scale


@dataclass(frozen=True)
class RenormalisedConfig(AbstractArchitecture):
    """A dynamics that was trained in other units than it is used in."""

    network: AbstractArchitecture = field(default_factory=CorrectedConfig)
    """What was trained."""

    def suited_to(self, episodes: Episodes) -> "RenormalisedConfig":
        return replace(self, network=self.network.suited_to(episodes))

    def make(self, state_size: int, action_size: int, *, key: Key) -> AbstractDynamics:
        inner = self.network.make(state_size, action_size, key=key).freeze()
        same = [Change(jnp.ones(size), jnp.zeros(size)) for size in (state_size, action_size)]
        return _around(inner, *same)


class Renormalised(AbstractModel):
    """A Markov model in other units than its own."""

    inner: AbstractModel
    states: Change
    actions: Change

    def step(self, state: State, action: Action) -> State:
        return self.states.outwards(self.inner.step(self.states.inwards(state), self.actions.inwards(action)))

    def step_deviation(self, state: State, action: Action) -> State | None:
        own = self.inner.step_deviation(self.states.inwards(state), self.actions.inwards(action))
        return None if own is None else own / self.states.scale

    def separate(self) -> tuple[AbstractDynamics, ...]:
        return tuple(_around(own, self.states, self.actions) for own in self.inner.separate())

    def trained(self) -> PyTree[bool]:
        nothing = jax.tree.map(lambda _: False, (self.states, self.actions))
        return type(self)(self.inner.trained(), *nothing)

    @property
    def architecture(self) -> RenormalisedConfig | None:
        inner = self.inner.architecture
        return None if inner is None else RenormalisedConfig(inner)


class RenormalisedMemory(AbstractDynamics):
    """A dynamics with a memory of its own in other units than its own."""

    inner: AbstractDynamics
    states: Change
    actions: Change

    @property
    def num_past(self) -> int:
        return self.inner.num_past

    def start(self, past: Past) -> Memory:
        states = jax.vmap(self.states.inwards)(past.states)
        return self.inner.start(Past(states, jax.vmap(self.actions.inwards)(past.actions)))

    def step(self, memory: Memory, given: Any) -> Memory:
        return self.inner.step(memory, self.actions.inwards(given))

    def predict(self, memory: Memory) -> Prediction:
        mean, deviation, noted = self.inner.predict(memory)
        deviation = None if deviation is None else deviation / self.states.scale
        return Prediction(self.states.outwards(mean), deviation, noted)

    def separate(self) -> tuple[AbstractDynamics, ...]:
        return tuple(_around(own, self.states, self.actions) for own in self.inner.separate())

    def trained(self) -> PyTree[bool]:
        nothing = jax.tree.map(lambda _: False, (self.states, self.actions))
        return type(self)(self.inner.trained(), *nothing)

    @property
    def architecture(self) -> RenormalisedConfig | None:
        inner = self.inner.architecture
        return None if inner is None else RenormalisedConfig(inner)


def renormalised(learned: AbstractDynamics, own: Normaliser, other: Normaliser) -> AbstractDynamics:
    """The dynamics that was learned in its own normaliser's units, in those of the other; itself, where they
    are the same."""
    changes = [
        Change(jnp.asarray(outer / inner, float), jnp.asarray((outer_mean - inner_mean) / inner, float))
        for inner, inner_mean, outer, outer_mean in (
            (own.state_deviation, own.state_mean, other.state_deviation, other.state_mean),
            (own.action_deviation, own.action_mean, other.action_deviation, other.action_mean),
        )
    ]
    is_same = all(bool((each.scale == 1).all() & (each.shift == 0).all()) for each in changes)
    return learned if is_same else _around(learned, *changes)


def _around(inner: AbstractDynamics, states: Change, actions: Change) -> AbstractDynamics:
    kind = Renormalised if isinstance(inner, AbstractModel) else RenormalisedMemory
    return kind(inner, states, actions)  # pyright: ignore[reportArgumentType] - as the line above says
