"""An ensemble: several dynamics in one, which is a dynamics like any other."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import PyTree

from multistep.data import Episodes, Past
from multistep.dynamics.base import (
    AbstractArchitecture,
    AbstractDynamics,
    AbstractModel,
    Prediction,
    check_names,
    last_of,
)
from multistep.dynamics.hidden import HiddenConfig
from multistep.dynamics.lagged import Lagged
from multistep.dynamics.linear import CorrectedConfig
from multistep.dynamics.model import MemoryModel, Model, in_units
from multistep.dynamics.normaliser import over_all_ranges
from multistep.dynamics.renormalised import renormalised
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


@dataclass(frozen=True)
class MixedConfig(AbstractArchitecture):
    """Several dynamics of any shapes, one model."""

    networks: tuple[AbstractArchitecture, ...]
    """What each of them is."""

    def __post_init__(self) -> None:
        if not self.networks:
            raise InputError("An ensemble of no models: it takes 1 or more.")

    def suited_to(self, episodes: Episodes) -> "MixedConfig":
        return MixedConfig(tuple(network.suited_to(episodes) for network in self.networks))

    def make(self, state_size: int, action_size: int, *, key: Key) -> AbstractDynamics:
        keys = jax.random.split(key, len(self.networks))
        made = [
            network.make(state_size, action_size, key=own)
            for network, own in zip(self.networks, keys, strict=True)
        ]
        return average([each.freeze() for each in made])


class Averaged(AbstractModel):
    r"""$s' = \frac1n \sum_i f_i(s, a)$: a Markov model like any other, less subject to chance than its
    members."""

    members: tuple[AbstractModel, ...]

    def step(self, state: State, action: Action) -> State:
        return jnp.stack([member.step(state, action) for member in self.members]).mean(axis=0)

    def step_deviation(self, state: State, action: Action) -> State | None:
        """Of a member drawn at random: what each is off by, and how they differ."""
        own = [member.step_deviation(state, action) for member in self.members]
        known = [deviation for deviation in own if deviation is not None]
        if len(known) < len(own):
            return None
        steps = jnp.stack([member.step(state, action) for member in self.members])
        return jnp.sqrt((jnp.stack(known) ** 2).mean(axis=0) + steps.var(axis=0))

    def separate(self) -> tuple[AbstractDynamics, ...]:
        return tuple(own for member in self.members for own in member.separate())

    def trained(self) -> PyTree[bool]:
        return Averaged(tuple(member.trained() for member in self.members))

    @property
    def architecture(self) -> AbstractArchitecture | None:
        return _architecture(self.members, AveragedConfig)


class Committee(AbstractDynamics):
    """The memory is that of every member; what is predicted is the mean of what they predict.

    Hidden states of members mean different things: their mean would mean nothing.
    """

    members: tuple[AbstractDynamics, ...]

    @property
    def num_past(self) -> int:
        return max(member.num_past for member in self.members)

    def start(self, past: Past) -> tuple[Any, ...]:
        return tuple(member.start(last_of(past, member.num_past)) for member in self.members)

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
    def architecture(self) -> AbstractArchitecture | None:
        return _architecture(self.members, CommitteeConfig)


def average(learned: Sequence[AbstractDynamics]) -> AbstractDynamics:
    """The mean of what was learned several times: of each step, where the memories mean the same; of what is
    predicted, where they do not, as those of hidden states."""
    if all(isinstance(each, AbstractModel) for each in learned):
        return Averaged(tuple(learned))  # pyright: ignore[reportArgumentType]
    lags = [each.lags if isinstance(each, Lagged) else 0 for each in learned]
    if lags[0] and len(set(lags)) == 1:
        return replace(learned[0], model=Averaged(tuple(each.model for each in learned)))  # pyright: ignore
    return Committee(tuple(learned))


def together(models: Sequence[Model | MemoryModel]) -> Model | MemoryModel:
    """One model of several of the same columns, in the units of the first; its range is that of all."""
    if not models:
        raise InputError("An ensemble of no models: it takes 1 or more.")
    first = models[0]
    for model in models[1:]:
        check_names(first, model.state_names, model.action_names, whose="another member")
    learned = [renormalised(model.learned, model.normaliser, first.normaliser) for model in models]
    names = first.state_names, first.action_names
    normaliser = over_all_ranges([model.normaliser for model in models])
    return in_units(average(learned), normaliser, *names, first.time_step, dict(first.units))


def _architecture(
    members: Sequence[AbstractDynamics], of_same: Callable[[int, AbstractArchitecture], AbstractArchitecture]
) -> AbstractArchitecture | None:
    """That of several members; none, if one of them does not say its own."""
    own = [member.architecture for member in members]
    if None in own:
        return None
    first = own[0]
    is_same = first is not None and all(each == first for each in own)
    return of_same(len(own), first) if is_same else MixedConfig(tuple(own))  # pyright: ignore
