"""`Averaged`: one step of several models, and the mean of where they arrive."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import jax
import jax.numpy as jnp
from jaxtyping import PyTree

from multistep.data import Episodes
from multistep.dynamics.base import AbstractArchitecture, AbstractDynamics, AbstractModel
from multistep.dynamics.committee import Committee
from multistep.dynamics.lagged import Lagged
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

    def trained(self) -> PyTree[bool]:
        return Averaged(tuple(member.trained() for member in self.members))

    @property
    def architecture(self) -> AveragedConfig | None:
        inner = self.members[0].architecture
        return None if inner is None else AveragedConfig(len(self.members), inner)


def average(learned: Sequence[AbstractDynamics]) -> AbstractDynamics:
    """The mean of what was learned several times on the same episodes: of each step, where the memories mean
    the same; of what is predicted, where they do not, as those of hidden states."""
    if all(isinstance(each, AbstractModel) for each in learned):
        return Averaged(tuple(learned))  # pyright: ignore[reportArgumentType]
    if all(isinstance(each, Lagged) for each in learned):
        return replace(learned[0], model=Averaged(tuple(each.model for each in learned)))  # pyright: ignore
    return Committee(tuple(learned))
