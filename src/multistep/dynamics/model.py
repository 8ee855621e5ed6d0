"""`Model`: what a fit returns and everything else uses, a learned dynamics in the user's own units."""

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any, overload

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from numpy.typing import ArrayLike

from multistep.data import Episodes, Past, is_same_step
from multistep.data.frames import as_pandas, named
from multistep.dynamics.base import AbstractDynamics, AbstractModel, Memory, Names, Prediction
from multistep.dynamics.forecast import forecast
from multistep.dynamics.normaliser import Normaliser
from multistep.dynamics.particles import forecast_with_spread
from multistep.dynamics.uncertainty import Forecast, Uncertainty
from multistep.errors import InputError
from multistep.types import Action, Key, State, States

NUM_PARTICLES = 100


class Model(AbstractModel):
    """A learned Markov model: normalise, take the learned step, restore the units.

    ```python
    next_state = model.step(state, action)
    states = model.rollout(state, actions)     # (horizon, state)
    ```
    """

    learned: AbstractModel
    """In normalised units."""
    normaliser: Normaliser
    state_names: tuple[str, ...] = eqx.field(static=True)
    action_names: tuple[str, ...] = eqx.field(static=True)
    time_step: float | None = eqx.field(static=True, default=None)
    """Seconds of one step, if the training data said."""
    units: tuple[tuple[str, str], ...] = eqx.field(static=True, default=())
    """Names and units of states and actions, where the training data said."""
    uncertainty: Uncertainty | None = None
    """How far it may be off, if that was found."""

    def step(self, state: State, action: Action) -> State:
        normalised = self.normaliser.normalise_state(state), self.normaliser.normalise_action(action)
        return self.normaliser.restore_state(self.learned.step(*normalised))

    def step_deviation(self, state: State, action: Action) -> State | None:
        normalised = self.normaliser.normalise_state(state), self.normaliser.normalise_action(action)
        own = self.learned.step_deviation(*normalised)
        return None if own is None else own * self.normaliser.state_deviation

    def separate(self) -> "tuple[AbstractDynamics, ...]":
        return tuple(replace(self, learned=own, uncertainty=None) for own in self.learned.separate())  # pyright: ignore

    @overload
    def predict(self, memory: State) -> Prediction: ...
    @overload
    def predict(
        self, memory: Past | ArrayLike, actions: ArrayLike, *, number: int = 100, key: Key | None = None
    ) -> Forecast: ...
    def predict(
        self,
        memory: Any,
        actions: ArrayLike | None = None,
        *,
        number: int = NUM_PARTICLES,
        key: Key | None = None,
    ) -> Prediction | Forecast:
        """What is observed at the time of the memory; with actions, what will be measured after each of them,
        and how far from that it may be.

        ```python
        forecast = model.predict(state, actions)
        forecast.mean, forecast.deviation, forecast.interval(0.9), forecast.samples
        ```

        **Arguments:**

        - `memory`: the state; with actions, what was measured last, or a `Past` of several measurements: the
        more, the surer is the start.
        - `actions`: in every step one number for each of `action_names`.
        - `number`: of particles that the forecast is made of.
        - `key`: for what is drawn; none: the same every time.
        """
        if actions is None:
            return Prediction(memory)
        return _with_spread(self, memory, actions, number, key)

    def rollout(self, state: ArrayLike, actions: ArrayLike) -> States:
        """The states after each of the actions.

        **Arguments:**

        - `state`: one number for each of `state_names`.
        - `actions`: in every step one number for each of `action_names`.
        """
        state = jnp.asarray(state, float)
        no_actions = jnp.zeros((0, len(self.action_names)))
        return _rollout(self, Past(state[None], no_actions), jnp.asarray(actions, float))

    def to_polars(self, states: ArrayLike) -> Any:
        """States that `rollout` has returned as a data frame: step, time if it is known, states by name."""
        return _frame_of(self, states)

    def to_pandas(self, states: ArrayLike) -> Any:
        """The same for pandas, which is not among what multistep needs."""
        return as_pandas(_frame_of(self, states))

    @property
    def names(self) -> Names:
        return Names(self.state_names, self.action_names)


class MemoryModel(AbstractDynamics):
    """A learned model that starts from several observations; its memory is the learned dynamics' own.

    ```python
    states = model.rollout(past_states, past_actions, actions)     # (horizon, state)
    ```
    """

    learned: AbstractDynamics
    """In normalised units."""
    normaliser: Normaliser
    state_names: tuple[str, ...] = eqx.field(static=True)
    action_names: tuple[str, ...] = eqx.field(static=True)
    time_step: float | None = eqx.field(static=True, default=None)
    """Seconds of one step, if the training data said."""
    units: tuple[tuple[str, str], ...] = eqx.field(static=True, default=())
    """Names and units of states and actions, where the training data said."""
    uncertainty: Uncertainty | None = None
    """How far it may be off, if that was found."""

    @property
    def num_past(self) -> int:
        return self.learned.num_past

    def start(self, past: Past) -> Memory:
        states = jax.vmap(self.normaliser.normalise_state)(past.states)
        return self.learned.start(Past(states, jax.vmap(self.normaliser.normalise_action)(past.actions)))

    def step(self, memory: Memory, given: Action) -> Memory:
        return self.learned.step(memory, self.normaliser.normalise_action(given))

    @overload
    def predict(self, memory: Memory) -> Prediction: ...
    @overload
    def predict(
        self, memory: Past, actions: ArrayLike, *, number: int = 100, key: Key | None = None
    ) -> Forecast: ...
    def predict(
        self,
        memory: Any,
        actions: ArrayLike | None = None,
        *,
        number: int = NUM_PARTICLES,
        key: Key | None = None,
    ) -> Prediction | Forecast:
        """What is observed at the time of the memory; with actions, what will be measured after each of them,
        and how far from that it may be.

        **Arguments:**

        - `memory`: the memory; with actions, the `Past`: `num_past` measurements and the actions between
        them.
        - `actions`: in every step one number for each of `action_names`.
        - `number`: of samples that the forecast has.
        - `key`: for what is drawn; none: the same every time.
        """
        if actions is not None:
            return _with_spread(self, memory, actions, number, key)
        mean, deviation, noted = self.learned.predict(memory)
        deviation = None if deviation is None else deviation * self.normaliser.state_deviation
        return Prediction(self.normaliser.restore_state(mean), deviation, noted)

    def separate(self) -> tuple[AbstractDynamics, ...]:
        return tuple(replace(self, learned=own, uncertainty=None) for own in self.learned.separate())

    def rollout(
        self, past_states: ArrayLike, past_actions: ArrayLike, actions: ArrayLike | None = None
    ) -> States:
        """The states after each of the actions.

        **Arguments:**

        - `past_states`: the last `num_past` states, the newest at the end.
        - `past_actions`: the actions between them, one fewer.
        - `actions`: those that follow.
        """
        if actions is None:  # as one calls a model of one state
            raise InputError(
                f"The model starts from {self.num_past} states and the {self.num_past - 1} actions between "
                "them: call rollout(past_states, past_actions, actions)."
            )
        past = Past(jnp.asarray(past_states, float), jnp.asarray(past_actions, float))
        return _rollout(self, past, jnp.asarray(actions, float))

    def to_polars(self, states: ArrayLike) -> Any:
        """States that `rollout` has returned as a data frame: step, time if it is known, states by name."""
        return _frame_of(self, states)

    def to_pandas(self, states: ArrayLike) -> Any:
        """The same for pandas, which is not among what multistep needs."""
        return as_pandas(_frame_of(self, states))

    @property
    def names(self) -> Names:
        return Names(self.state_names, self.action_names)


def in_units(
    learned: AbstractDynamics,
    normaliser: Normaliser,
    state_names: tuple[str, ...],
    action_names: tuple[str, ...],
    time_step: float | None = None,
    units: Mapping[str, str] = MappingProxyType({}),
) -> Model | MemoryModel:
    """The learned dynamics in the user's units, which the normaliser knows; `units` are their names."""
    own_units = tuple((name, units[name]) for name in (*state_names, *action_names) if name in units)
    known = state_names, action_names, time_step, own_units
    if isinstance(learned, AbstractModel):
        return Model(learned, normaliser, *known)
    return MemoryModel(learned, normaliser, *known)


def check_units(dynamics: AbstractDynamics, units: Mapping[str, str]) -> None:
    """Raise an `InputError` if the model and the data both know the unit of a column, and differ in it."""
    own = dict(dynamics.units) if isinstance(dynamics, Model | MemoryModel) else {}
    for name in own:
        if own[name] != units.get(name, own[name]):
            raise InputError(
                f"The model has {name} in {own[name]}, the data in {units[name]}: convert the data to "
                f"{own[name]}, or correct the unit in their header."
            )


def check_time_step(dynamics: AbstractDynamics, episodes: Episodes) -> None:
    """Raise an `InputError` if the time steps of the model and of the episodes are both known and differ."""
    own = dynamics.time_step if isinstance(dynamics, Model | MemoryModel) else None
    if own is None or episodes.time_step is None or is_same_step(own, episodes.time_step):
        return
    raise InputError(
        f"The model's step is {own:g}, the episodes have a sample every {episodes.time_step:g}: give "
        "episodes with the model's step, or a model that was fitted to theirs."
    )


def _with_spread(
    model: Model | MemoryModel, past: Any, actions: ArrayLike, number: int, key: Key | None
) -> Forecast:
    if model.uncertainty is None:
        raise InputError(
            "The model does not know how far it may be off: fit it with the automatic recipe, or call "
            "multistep.calibrate(model, train, held_out)."
        )
    if number < 1:
        raise InputError(f"A forecast of {number} particles: it takes 1 or more.")
    if not isinstance(past, Past):
        past = Past(jnp.atleast_2d(jnp.asarray(past, float)), jnp.zeros((0, len(model.action_names))))
    past = Past(jnp.asarray(past.states, float), jnp.asarray(past.actions, float))
    given = jnp.asarray(actions, float)
    _check_shapes(model, past, given, len(past.states))
    if len(past.states) < model.num_past:
        raise InputError(
            f"The model starts from {model.num_past} samples, the past has {len(past.states)}: give more."
        )
    return _forecast_with_spread(model, past, given, number, jax.random.key(0) if key is None else key)


@eqx.filter_jit
def _forecast_with_spread(
    model: Model | MemoryModel, past: Past, actions: jax.Array, number: int, key: Key
) -> Forecast:
    assert model.uncertainty is not None
    return forecast_with_spread(
        model,
        model.uncertainty,
        past,
        actions,
        number=number,
        key=key,
        names=model.state_names,
        time_step=model.time_step,
    )


def _frame_of(model: Model | MemoryModel, states: ArrayLike) -> Any:
    rows = np.asarray(states)
    if rows.ndim != 2 or rows.shape[1] != len(model.state_names):
        raise InputError(
            f"States of shape {rows.shape} for a frame: give what one rollout returns, in each row one "
            f"number for each of {', '.join(model.state_names)}."
        )
    return named(rows, model.state_names, model.time_step)


def _rollout(model: Model | MemoryModel, past: Past, actions: Float[Array, "..."]) -> States:
    _check_shapes(model, past, actions, model.num_past)
    return _forecast(model, past, actions)


def _check_shapes(
    model: Model | MemoryModel, past: Past, actions: Float[Array, "..."], num_past: int
) -> None:
    """Raise an `InputError` unless the past has so many samples, and all the columns of the model."""
    states, names = len(model.state_names), len(model.action_names)
    expected = (num_past, states), (num_past - 1, names), (names,)
    if (past.states.shape, past.actions.shape, actions.shape[1:]) != expected:
        start = (
            "one state" if num_past == 1 else f"{num_past} states and the {num_past - 1} actions between them"
        )
        raise InputError(
            f"A rollout from states of shape {past.states.shape} with actions of shape {actions.shape}: "
            f"start from {start}, and give one number for each of {', '.join(model.state_names)}, and in "
            f"every step one for each of {', '.join(model.action_names)}."
        )


@eqx.filter_jit
def _forecast(model: AbstractDynamics, past: Past, actions: jax.Array) -> States:
    return forecast(model, past, actions).mean
