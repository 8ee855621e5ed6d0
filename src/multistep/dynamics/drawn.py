"""`Drawn`: a model that goes on from where a step may have arrived, not from the mean."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from multistep.data import Past
from multistep.dynamics.base import AbstractDynamics, AbstractModel, Names, Prediction
from multistep.types import Action, Key, State

Draws = Float[Array, "draws state"]


def key_of_start(key: Key, state: State) -> Key:
    """A key of this start: any but the very same state has another."""
    words = jax.lax.bitcast_convert_type(state.astype(jnp.float32), jnp.uint32)
    powers = jnp.uint32(31) ** jnp.arange(words.size, dtype=jnp.uint32)
    return jax.random.fold_in(key, (words * powers).sum(dtype=jnp.uint32))


class Drawn(AbstractDynamics):
    r"""$\hat s^i_{j+1} = \mu(\hat s^i_j, a_j) + \sigma(\hat s^i_j, a_j)\, \xi^i_j$; predicted is their mean.

    Every start has noise of its own, the same whenever the model starts there: scores are over many draws,
    and are the same bits every time.
    """

    model: AbstractModel
    """With a `step_deviation`."""
    key: Key
    number: int = eqx.field(static=True, default=1)
    """Of draws; with several the prediction has their deviation."""

    @property
    def num_past(self) -> int:
        return 1

    def start(self, past: Past) -> tuple[Draws, Key]:
        state = past.states[-1]
        return jnp.tile(state, (self.number, 1)), key_of_start(self.key, state)

    def step(self, memory: tuple[Draws, Key], given: Action) -> tuple[Draws, Key]:
        states, key = memory
        key, noise_key = jax.random.split(key)
        noise = jax.random.normal(noise_key, states.shape, states.dtype)
        means = jax.vmap(self.model.step, (0, None))(states, given)
        deviations = jax.vmap(self.model.step_deviation, (0, None))(states, given)
        assert deviations is not None, "a model that has learned how far off its steps may be"
        return means + deviations * noise, key

    def predict(self, memory: tuple[Draws, Key]) -> Prediction:
        states, _ = memory
        deviation = states.std(axis=0, ddof=1) if self.number > 1 else None
        return Prediction(states.mean(axis=0), deviation)

    @property
    def names(self) -> Names | None:
        return self.model.names
