"""`Committee`: several dynamics, each with its own memory, and the mean of what they predict."""

from dataclasses import dataclass, field, replace
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import PyTree

from multistep.data import Episodes, Past
from multistep.dynamics.base import AbstractArchitecture, AbstractDynamics, Prediction
from multistep.dynamics.hidden import HiddenConfig
from multistep.errors import InputError
from multistep.types import Action, Key


@dataclass(frozen=True)
class CommitteeConfig(AbstractArchitecture):
    """Several dynamics of the same shape that go their own ways."""

    members: int = 3
    """How many."""
    network: AbstractArchitecture = field(default_factory=HiddenConfig)
    """What each of them is."""

    def __post_init__(self) -> None:
        if self.members < 1:
            raise InputError(f"A committee of {self.members} models: it takes 1 or more.")

    def suited_to(self, episodes: Episodes) -> "CommitteeConfig":
        return replace(self, network=self.network.suited_to(episodes))

    def make(self, state_size: int, action_size: int, *, key: Key) -> "Committee":
        keys = jax.random.split(key, self.members)
        return Committee(tuple(self.network.make(state_size, action_size, key=own).freeze() for own in keys))


class Committee(AbstractDynamics):
    """The memory is that of every member; what is predicted is the mean of what they predict.

    Hidden states of members mean different things: their mean would mean nothing.
    """

    members: tuple[AbstractDynamics, ...]

    @property
    def num_past(self) -> int:
        return max(member.num_past for member in self.members)

    def start(self, past: Past) -> tuple[Any, ...]:
        return tuple(member.start(_last(past, member.num_past)) for member in self.members)

    def step(self, memory: tuple[Any, ...], given: Action) -> tuple[Any, ...]:
        return tuple(member.step(own, given) for member, own in zip(self.members, memory, strict=True))

    def predict(self, memory: tuple[Any, ...]) -> Prediction:
        means = [member.predict(own).mean for member, own in zip(self.members, memory, strict=True)]
        return Prediction(jnp.stack(means).mean(axis=0))

    def separate(self) -> tuple[AbstractDynamics, ...]:
        return tuple(own for member in self.members for own in member.separate())

    def trained(self) -> PyTree[bool]:
        return Committee(tuple(member.trained() for member in self.members))

    @property
    def architecture(self) -> CommitteeConfig | None:
        inner = self.members[0].architecture
        return None if inner is None else CommitteeConfig(len(self.members), inner)


def _last(past: Past, number: int) -> Past:
    start = len(past.states) - number
    return Past(past.states[start:], past.actions[start:])
