"""`Hidden`: a state of numbers that nobody measures, read from the past by an encoder and learned with the
model."""

from dataclasses import dataclass, field, replace

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PyTree
from numpy import ndarray

from multistep.data import Episodes, Past, Windows, gather_all
from multistep.dynamics.base import AbstractArchitecture, AbstractDynamics, AbstractModel, Prediction
from multistep.dynamics.limited import Limited
from multistep.dynamics.linear import Corrected, CorrectedConfig, Line, least_squares, pulled_back
from multistep.dynamics.network import Linear, Network, NetworkConfig, make_network
from multistep.dynamics.normaliser import Normaliser
from multistep.dynamics.shallow import Shallow
from multistep.errors import InputError
from multistep.types import Action, Key

Features = Float[Array, " features"]
HiddenState = Float[Array, " hidden"]
FUTURE = 20
"""Steps that follow, of which the state must tell."""
MOST_EXAMPLES = 20_000
"""Moments that the linear state space is found from, spread over all."""


@dataclass(frozen=True)
class HiddenConfig(AbstractArchitecture):
    """A state of so many numbers, the first of them the outputs, started from the last outputs and inputs."""

    size: int = 4
    """Numbers of the state, the outputs among them."""
    lags: int = 5
    """Outputs that the encoder reads to start; the inputs between them too."""
    network: AbstractArchitecture = field(default_factory=CorrectedConfig)
    """The model of the state."""
    encoder_size: int = 16
    """Units of the hidden layer of what corrects the encoder's linear part; 0: it is linear."""

    def __post_init__(self) -> None:
        if self.size < 1 or self.lags < 1:
            raise InputError(
                f"A hidden state of {self.size} numbers, read from {self.lags} outputs: both must be 1 or "
                "more."
            )

    def suited_to(self, episodes: Episodes) -> "HiddenConfig":
        """Its model sees angles among the outputs, the state's first numbers; the other numbers do not
        turn."""
        if not episodes.turns:
            return replace(self, network=self.network.suited_to(episodes))
        others = (0.0,) * (self.size - episodes.state_size)
        return replace(self, network=self.network.suited_to(replace(episodes, turns=episodes.turns + others)))

    def make(self, state_size: int, action_size: int, *, key: Key) -> "Hidden":
        if self.size < state_size:
            raise InputError(
                f"A hidden state of {self.size} numbers for {state_size} outputs, which are among them: ask "
                f"for {state_size} or more."
            )
        model_key, encoder_key = jax.random.split(key)
        model = self.network.make(self.size, action_size, key=model_key).freeze()
        if not isinstance(model, AbstractModel):
            raise InputError(
                f"A hidden state was asked for around {type(self.network).__name__}, which has a memory of "
                "its own: leave one of the two out."
            )
        features = self.lags * state_size + (self.lags - 1) * action_size
        encoder = None
        if self.encoder_size:
            config = NetworkConfig(self.encoder_size, 1, "tanh")
            encoder = make_network(config, self.size, features - self.size, key=encoder_key)
            silent = jax.tree.map(jnp.zeros_like, encoder.mean_head.output)
            encoder = eqx.tree_at(lambda network: network.mean_head.output, encoder, silent)
        return Hidden(
            Linear(jnp.zeros((features, self.size)), jnp.zeros(self.size)),
            encoder,
            model,
            state_size,
            self,
        )


class Hidden(AbstractDynamics):
    """The memory is a state of its own; what is observed are its first numbers."""

    reading: Linear
    """The encoder's linear part."""
    encoder: Network | None
    """What corrects it."""
    model: AbstractModel
    num_outputs: int = eqx.field(static=True)
    made_by: HiddenConfig = eqx.field(static=True)

    @property
    def num_past(self) -> int:
        return self.made_by.lags

    @property
    def architecture(self) -> HiddenConfig:
        return self.made_by

    def start(self, past: Past) -> HiddenState:
        features = features_of(past)
        if self.encoder is None:
            return self.reading(features)
        return self.encoder.add_change(self.reading(features), self.encoder.features(features))

    def step(self, memory: HiddenState, given: Action) -> HiddenState:
        return self.model.step(memory, given)

    def predict(self, memory: HiddenState) -> Prediction:
        return Prediction(memory[: self.num_outputs])

    def begin(self, windows: Windows, starts: Int[ndarray, "windows 2"], normaliser: Normaliser) -> "Hidden":
        """The linear state space that explains best what follows, found by regression."""
        if not _follow(starts, 1).any():
            raise InputError(
                f"A hidden state that is read from {self.num_past} samples needs a training episode of "
                f"{self.num_past + 1} steps or more, and none is that long: ask for fewer lags, or give "
                "longer episodes."
            )
        pasts, actions, futures = _pasts_and_futures(windows, starts)
        reading = find_state(pasts, actions, futures, self.made_by.size, self.num_outputs)
        read = replace(self, reading=Linear(*(jnp.asarray(part, float) for part in reading)))
        units = _with_others(normaliser, self.made_by.size - self.num_outputs)
        found = self.model.begin(*read.as_transitions(windows, starts), units)
        return replace(read, model=_settled(found))

    def as_transitions(
        self, windows: Windows, starts: Int[ndarray, "windows 2"]
    ) -> tuple[Windows, Int[ndarray, "transitions 2"]]:
        """What the encoder reads before and after each action, as one-step windows of the model."""

        found = gather_all(windows, jnp.asarray(starts))
        states, actions = _read(self, found.past), found.actions[:, 0]
        kept = np.flatnonzero(_follow(starts, 1)).astype(np.int32)
        return Windows(states, actions, 1), np.stack([kept, kept], axis=1)

    def trained(self) -> PyTree[bool]:
        encoder = jax.tree.map(lambda _: True, self.encoder)
        if self.encoder is not None:
            none = jax.tree.map(lambda _: False, self.encoder.deviation_head)
            encoder = eqx.tree_at(lambda spec: spec.deviation_head, encoder, none)
        reading = jax.tree.map(lambda _: True, self.reading)
        return replace(self, reading=reading, encoder=encoder, model=self.model.trained())

    def freeze(self) -> "Hidden":
        return eqx.tree_at(lambda dynamics: dynamics.model, self, self.model.freeze())


def _with_others(normaliser: Normaliser, count: int) -> Normaliser:
    """The normaliser of outputs, for a state of so many numbers more: those have no other unit."""
    mean, deviation = (
        np.append(values, np.full(count, other))
        for values, other in ((normaliser.state_mean, 0.0), (normaliser.state_deviation, 1.0))
    )
    return Normaliser(mean, deviation, normaliser.action_mean, normaliser.action_deviation)


def _settled(model: AbstractDynamics) -> AbstractDynamics:
    """With a linear part that does not run away, whatever the regression has made of it."""
    if isinstance(model, Line):
        return pulled_back(model)
    if isinstance(model, Limited):
        inner = _settled(model.inner)
        assert isinstance(inner, AbstractModel)
        return replace(model, inner=inner)
    if isinstance(model, Shallow | Corrected):
        return replace(model, line=pulled_back(model.line))
    return model


@eqx.filter_jit
def _read(hidden: Hidden, pasts: Past) -> Float[Array, "pasts hidden"]:
    return jax.vmap(hidden.start)(pasts)


def features_of(past: Past) -> Features:
    """All that is known of the past, in one row: the newest output first."""
    return jnp.concatenate([past.states[::-1].ravel(), past.actions[::-1].ravel()])


@jax.jit
def _features(pasts: Past) -> Float[Array, "pasts features"]:
    return jax.vmap(features_of)(pasts)


def find_state(
    pasts: Float[ndarray, "examples features"],
    actions: Float[ndarray, "examples future_actions"],
    futures: Float[ndarray, "examples future_outputs"],
    size: int,
    num_outputs: int,
) -> tuple[Float[ndarray, "features hidden"], Float[ndarray, " hidden"]]:
    r"""The linear map from the past to the state of `size` numbers that tells most of the future.

    The outputs that follow are regressed on the past and on the actions that follow; what the past tells of
    them, $Z \Theta$, varies most along the directions that are kept (a subspace method, as N4SID). They are
    turned so that the first numbers of the state are the present outputs; the others have unit variance.

    **Arguments:**

    - `pasts`: Z, an example in each row, the present outputs first.
    - `actions`, `futures`: the actions and outputs that follow.
    - `size`: numbers of the state.
    - `num_outputs`: how many of them are outputs.
    """
    told = np.asarray(least_squares(np.hstack([pasts, actions]), futures).weight, np.float64)
    centre = pasts.mean(axis=0)
    past = pasts - centre
    _, _, directions = np.linalg.svd(past @ told[: pasts.shape[1]], full_matrices=False)
    size_found = min(size, len(directions))
    to_state = told[: pasts.shape[1]] @ directions[:size_found].T
    present = past[:, :num_outputs]
    to_outputs = to_state @ np.linalg.lstsq(past @ to_state, present, rcond=None)[0]
    # What the outputs do not tell of the state, in units of its own deviation.
    outputs = past @ to_outputs
    by_outputs = np.linalg.lstsq(outputs, past @ to_state, rcond=None)[0]
    to_rest = to_state - to_outputs @ by_outputs
    _, spread, axes = np.linalg.svd(past @ to_rest, full_matrices=False)
    num_rest = size - num_outputs
    axes, deviation = axes[:num_rest], spread[:num_rest] / np.sqrt(len(past))
    to_rest = to_rest @ axes.T / np.maximum(deviation, 1e-6 * max(spread[0], 1e-12))
    to_all = np.zeros((pasts.shape[1], size))
    to_all[:, :num_outputs] = to_outputs
    to_all[:, num_outputs : num_outputs + to_rest.shape[1]] = to_rest
    offset = np.zeros(size)
    offset[:num_outputs] = centre[:num_outputs]
    return to_all, offset - centre @ to_all


def _pasts_and_futures(
    windows: Windows, starts: Int[ndarray, "windows 2"]
) -> tuple[Float[ndarray, "examples _"], Float[ndarray, "examples _"], Float[ndarray, "examples _"]]:
    """What was known, the actions after it and the outputs that they led to, one example in each row."""
    steps = next(steps for steps in range(FUTURE, 0, -1) if _follow(starts, steps - 1).any())
    longer = Windows(windows.states, windows.actions, steps, windows.num_past)
    kept = np.flatnonzero(_follow(starts, steps - 1))
    kept = kept[np.unique(np.linspace(0, len(kept) - 1, MOST_EXAMPLES).astype(int))]
    found = gather_all(longer, jnp.asarray(starts[kept]))
    rows = _features(found.past), found.actions, found.states
    pasts, actions, futures = (np.asarray(part, np.float64).reshape(len(kept), -1) for part in rows)
    return pasts, actions, futures


def _follow(starts: Int[ndarray, "windows 2"], steps: int) -> ndarray:
    """Whether the window so many places later is the one so many steps later in the same episode."""
    follows = np.zeros(len(starts), bool)
    if steps < len(starts):
        follows[: len(starts) - steps] = (starts[steps:] - starts[: len(starts) - steps] == steps).all(axis=1)
    return follows
