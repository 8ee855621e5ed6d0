"""`Lagged`: the last outputs and inputs stand in for a state that is not measured; they are shifted, not
learned."""

from dataclasses import dataclass, field, replace
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PyTree
from numpy import ndarray

from multistep.data import Episodes, Past, Window, Windows, gather_all
from multistep.dynamics.base import AbstractArchitecture, AbstractDynamics, AbstractModel, Prediction
from multistep.dynamics.linear import CorrectedConfig
from multistep.dynamics.normaliser import Normaliser
from multistep.errors import InputError
from multistep.types import Action, Key, State

SMALLEST_CHANGE = 1e-3
"""Of an output's deviation: what changes less from sample to sample is not magnified more than this."""


@dataclass(frozen=True)
class LaggedConfig(AbstractArchitecture):
    """A model of one output that is given the outputs and inputs before it, too."""

    lags: int = 2
    """Outputs that it needs to start; the inputs between them are known too."""
    network: AbstractArchitecture = field(default_factory=CorrectedConfig)
    """What predicts the next output, from the last one (its state) and everything else (its action)."""

    def __post_init__(self) -> None:
        if self.lags < 2:
            raise InputError(
                f"A model of {self.lags} lagged outputs: it takes 2 or more; one alone is the state of an "
                "ordinary model."
            )

    def suited_to(self, episodes: Episodes) -> "LaggedConfig":
        return replace(self, network=self.network.suited_to(episodes))

    def make(self, state_size: int, action_size: int, *, key: Key) -> "Lagged":
        others = (self.lags - 1) * (state_size + action_size) + action_size
        model = self.network.make(state_size, others, key=key).freeze()
        if not isinstance(model, AbstractModel):
            raise InputError(
                f"Lags were asked for around {type(self.network).__name__}, which has a memory of its own: "
                "leave one of the two out."
            )
        return Lagged(model, jnp.ones(state_size), self.lags)


class Outputs(NamedTuple):
    """The memory: the last outputs, the newest at the end, and the inputs between them."""

    outputs: Float[Array, "lags output"]
    inputs: Float[Array, "lags_less_one input"]


class Lagged(AbstractDynamics):
    """The next output by a model whose action is everything that is known besides the last output.

    Of earlier outputs it is given the changes from each to the next, in units of their usual size: fast
    samples differ by little, and what they differ by is what matters.
    """

    model: AbstractModel
    change_size: Float[Array, " output"]
    lags: int = eqx.field(static=True)

    @property
    def num_past(self) -> int:
        return self.lags

    def start(self, past: Past) -> Outputs:
        return Outputs(past.states, past.actions)

    def step(self, memory: Outputs, given: Action) -> Outputs:
        output = self.model.step(memory.outputs[-1], self.known(memory, given))
        return Outputs(
            jnp.concatenate([memory.outputs[1:], output[None]]),
            jnp.concatenate([memory.inputs, given[None]])[1:],
        )

    def predict(self, memory: Outputs) -> Prediction:
        return Prediction(memory.outputs[-1])

    def known(self, memory: Outputs, action: Action) -> Float[Array, " others"]:
        """What the model is told besides the last output."""
        changes = jnp.diff(memory.outputs, axis=0) / jax.lax.stop_gradient(self.change_size)[None]
        return jnp.concatenate([changes.ravel(), memory.inputs.ravel(), action])

    def begin(self, windows: Windows, starts: Int[ndarray, "windows 2"], normaliser: Normaliser) -> "Lagged":
        states = np.asarray(windows.states, np.float64)
        size = np.sqrt(np.mean((states[starts[:, 0] + 1] - states[starts[:, 0]]) ** 2, axis=0))
        sized = replace(self, change_size=jnp.asarray(np.maximum(size, SMALLEST_CHANGE), float))
        model = self.model.begin(*sized.as_transitions(windows, starts), normaliser)
        return replace(sized, model=model)

    def as_transitions(
        self, windows: Windows, starts: Int[ndarray, "windows 2"]
    ) -> tuple[Windows, Int[ndarray, "windows 2"]]:
        """One-step windows as the model sees them: its state before and after, its action, and where they
        are."""

        before, known, after = _transitions(self, gather_all(windows, jnp.asarray(starts)))
        pairs = jnp.stack([before, after], axis=1).reshape(-1, before.shape[1])
        count = np.arange(len(starts), dtype=np.int32)
        return Windows(pairs, known, 1), np.stack([2 * count, count], axis=1)

    def separate(self) -> tuple[AbstractDynamics, ...]:
        return tuple(replace(self, model=own) for own in self.model.separate())  # pyright: ignore

    def trained(self) -> PyTree[bool]:
        everything = jax.tree.map(lambda _: True, self)
        parts = self.model.trained(), False
        return eqx.tree_at(lambda spec: (spec.model, spec.change_size), everything, parts)

    def freeze(self) -> "Lagged":
        return eqx.tree_at(lambda dynamics: dynamics.model, self, self.model.freeze())

    @property
    def architecture(self) -> LaggedConfig | None:
        inner = self.model.architecture
        return None if inner is None else LaggedConfig(self.lags, inner)


@eqx.filter_jit
def _transitions(
    lagged: Lagged, batch: Window
) -> tuple[Float[Array, "windows state"], Float[Array, "windows others"], Float[Array, "windows state"]]:
    def transition(window: Window) -> tuple[State, Float[Array, " others"], State]:
        memory = lagged.start(window.past)
        return memory.outputs[-1], lagged.known(memory, window.actions[0]), window.states[0]

    return jax.vmap(transition)(batch)
