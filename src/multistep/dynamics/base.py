"""The contract of what is learned: start from the past, step with the actions, predict what is observed."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Int, PyTree
from numpy import ndarray

from multistep.data import Episodes, Past, Windows, default_names
from multistep.dynamics.normaliser import Normaliser, fit_normaliser
from multistep.errors import InputError, counted
from multistep.types import Action, Actions, Key, Scalar, State

Memory = Any
"""What a dynamics carries from step to step: any pytree of arrays."""


class Prediction(NamedTuple):
    """What is predicted of an observation."""

    mean: State
    deviation: State | None = None
    """Standard deviation of what is observed, by a dynamics that knows of it."""
    noted: PyTree = ()
    """What the dynamics notes for its own use while it trains (statistics of a batch); a loss hands it on."""


class Names(NamedTuple):
    """Names of the states and actions that a dynamics was made for."""

    states: tuple[str, ...]
    actions: tuple[str, ...]


class AbstractDynamics(eqx.Module):
    """What is learned. Pure functions on one example: the caller vmaps, scans and compiles.

    `start`, `step` and `predict` are the contract. What follows them has defaults, for a dynamics that trains
    as it is used: nothing drawn, nothing noted, every array trained.
    """

    @property
    @abstractmethod
    def num_past(self) -> int:
        """Observations that it needs to start; 1 for a Markov one, whose memory is the state itself."""

    @abstractmethod
    def start(self, past: Past) -> Memory:
        """The memory after the last observation of the past.

        **Arguments:**

        - `past`: the last `num_past` observations and the actions between them.
        """

    @abstractmethod
    def step(self, memory: Memory, given: Any) -> Memory:
        """The memory one step later.

        **Arguments:**

        - `memory`: what `start` or the step before returned.
        - `given`: the action; while training, what `inputs` made of it.
        """

    @abstractmethod
    def predict(self, memory: Memory) -> Prediction:
        """What is observed at the time of the memory, once a step has been taken."""

    def begin(
        self, windows: Windows, starts: Int[ndarray, "windows 2"], normaliser: Normaliser
    ) -> "AbstractDynamics":
        """The dynamics before its first epoch; what of it has a closed form is found here.

        **Arguments:**

        - `windows`: of one step, in the training episodes, in normalised units.
        - `starts`: where they start.
        - `normaliser`: what made these units of the user's.
        """
        return self

    def inputs(self, actions: Actions, key: Key | None) -> PyTree:
        """The inputs of the steps: the actions, and what is drawn for each beforehand (masks, noise)."""
        return actions

    def trained(self) -> PyTree[bool]:
        """Which leaves a loss changes: a tree of the dynamics' shape."""
        return jax.tree.map(eqx.is_inexact_array, self)

    def note(self, noted: PyTree) -> "AbstractDynamics":
        """The dynamics after a gradient step in which its predictions noted this."""
        return self

    def freeze(self) -> "AbstractDynamics":
        """The dynamics for use, once it is trained."""
        return self

    def thaw(self) -> "AbstractDynamics":
        """The dynamics as it trains, by one whose forecasts know more then than in use."""
        return self

    def penalty(self) -> Scalar:
        """What a likelihood adds for parameters that the data say little of."""
        return jnp.zeros(())

    def separate(self) -> "tuple[AbstractDynamics, ...]":
        """The members of an ensemble, each a dynamics by itself; of anything else, that alone."""
        return (self,)

    @property
    def names(self) -> Names | None:
        """The columns that it was made for, if it knows."""
        return None

    @property
    def architecture(self) -> "AbstractArchitecture | None":
        """What makes a dynamics of the same shapes, for the header of a model file; none: it cannot be
        saved."""
        return None


class AbstractModel(AbstractDynamics):
    """A Markov dynamics: the memory is the state. Anything with a `step`."""

    @abstractmethod
    def step(self, state: State, action: Action) -> State:  # pyright: ignore[reportIncompatibleMethodOverride]
        """The state after `action` was taken in `state`. Pure, on one example: `jax.vmap` it for many."""

    @property
    def num_past(self) -> int:
        return 1

    def step_deviation(self, state: State, action: Action) -> State | None:
        """Standard deviation of where a step arrives, by a model that has learned it; none otherwise."""
        return None

    def start(self, past: Past) -> State:
        return past.states[-1]

    def predict(self, memory: State) -> Prediction:
        return Prediction(memory)


class AbstractArchitecture(ABC):
    """What is to be learned, before it is: a frozen dataclass of plain values, in the header of a model
    file."""

    def suited_to(self, episodes: Episodes) -> "AbstractArchitecture":
        """The architecture for these episodes, by one that makes use of what is known of their columns."""
        return self

    def normaliser(self, episodes: Episodes) -> Normaliser:
        """What makes the units that it learns in, of the units of these training episodes."""
        return fit_normaliser(episodes)

    @abstractmethod
    def make(self, state_size: int, action_size: int, *, key: Key) -> AbstractDynamics:
        """A new dynamics with random weights, in normalised units.

        **Arguments:**

        - `state_size`, `action_size`: numbers of states and actions.
        - `key`: for the random weights.
        """


def last_of(past: Past, number: int) -> Past:
    """As much of the past as a dynamics that needs so many observations starts from."""
    start = len(past.states) - number
    return Past(past.states[start:], past.actions[start:])


def check_names(
    dynamics: AbstractDynamics, states: Sequence[str], actions: Sequence[str], whose: str = "the data"
) -> None:
    """Raise an `InputError` unless the dynamics fits these columns, which are somebody's.

    Columns without names of their own (`state_0`, `action_0`, ...) are taken at their word: only their number
    is known.
    """
    own = dynamics.names
    if own is None:
        return
    for what, expected, have in (
        ("state", own.states, tuple(states)),
        ("action", own.actions, tuple(actions)),
    ):
        if len(expected) != len(have):
            raise InputError(
                f"The model has {counted(len(expected), f'{what} dimension')} ({', '.join(expected)}), "
                f"{whose} {len(have)} ({', '.join(have)}): give what has the columns that the model was "
                "trained on."
            )
        if expected != have and sorted(expected) == sorted(have):
            raise InputError(
                f"The model's {what} dimensions are {', '.join(expected)}, {whose} has them in another order "
                f"({', '.join(have)}): give the columns in the model's order."
            )
        if expected != have and default_names(what, len(have)) not in (expected, have):
            raise InputError(
                f"The model's {what} dimensions are {', '.join(expected)}, {whose} has {', '.join(have)}: "
                "give the columns that the model was trained on, or their names to what means the same "
                "(NAME=COLUMN)."
            )
