"""`Averaged`: one step of several models, and the mean of where they arrive."""

from dataclasses import dataclass, field, replace

import jax
import jax.numpy as jnp
from jaxtyping import PyTree

from multistep.data import Episodes
from multistep.dynamics.base import AbstractArchitecture, AbstractDynamics, AbstractModel
from multistep.dynamics.linear import CorrectedConfig
from multistep.errors import InputError
from multistep.types import Action, Key, State


@dataclass(frozen=True)
class AveragedConfig(AbstractArchitecture):
    """Several networks of the same shape, one model."""

    members: int = 3
    """How many."""
    network: AbstractArchitecture = field(default_factory=CorrectedConfig)
    """What each of them is."""

    def __post_init__(self) -> None:
        if self.members < 1:
            raise InputError(f"A mean of {self.members} models: it takes 1 or more.")

    def suited_to(self, episodes: Episodes) -> "AveragedConfig":
        return replace(self, network=self.network.suited_to(episodes))

    def make(self, state_size: int, action_size: int, *, key: Key) -> "Averaged":
        members = [
            self.network.make(state_size, action_size, key=own).freeze()
            for own in jax.random.split(key, self.members)
        ]
        return Averaged(tuple(member for member in members if isinstance(member, AbstractModel)))


class Averaged(AbstractModel):
    r"""$s' = \frac1n \sum_i f_i(s, a)$: a Markov model like any other, less subject to chance than its
    members."""

    members: tuple[AbstractModel, ...]

    def step(self, state: State, action: Action) -> State:
        return jnp.stack([member.step(state, action) for member in self.members]).mean(axis=0)

    def separate(self) -> tuple[AbstractDynamics, ...]:
        return tuple(own for member in self.members for own in member.separate())

    def trained(self) -> PyTree[bool]:
        return Averaged(tuple(member.trained() for member in self.members))

    @property
    def architecture(self) -> AveragedConfig | None:
        inner = self.members[0].architecture
        return None if inner is None else AveragedConfig(len(self.members), inner)
