"""`Particle`: a model whose steps are off by chance, as its own were; many are an ensemble for agents."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, UInt

from multistep.data import Past
from multistep.dynamics.base import AbstractDynamics, AbstractModel, Names, Prediction
from multistep.dynamics.drawn import key_of_start
from multistep.dynamics.model import Model
from multistep.errors import InputError
from multistep.types import Action, Key, State


class ParticleMemory(NamedTuple):
    """Where a particle is, and what it will draw next."""

    state: State
    seed: UInt[Array, " words"]


class Particle(AbstractDynamics):
    r"""$s_{t+1} = f(s_t, a_t) + \varepsilon_t$ with the deviation of a step's error: the model's own, if it
    has learned one, else the observer's.

    What it draws follows from its own key and from where it starts: the same start is the same future, which
    planners compare actions in; another start is another one.
    """

    inner: AbstractModel
    step_noise: Float[Array, " state"]
    seed: UInt[Array, " words"]

    @property
    def num_past(self) -> int:
        return 1

    def start(self, past: Past) -> ParticleMemory:
        state = past.states[-1]
        key = key_of_start(jax.random.wrap_key_data(self.seed), state)
        return ParticleMemory(state, jax.random.key_data(key))

    def step(self, memory: ParticleMemory, given: Action) -> ParticleMemory:
        own_key, next_key = jax.random.split(jax.random.wrap_key_data(memory.seed))
        own = self.inner.step_deviation(memory.state, given)
        deviation = self.step_noise if own is None else own
        error = deviation * jax.random.normal(own_key, memory.state.shape, memory.state.dtype)
        return ParticleMemory(self.inner.step(memory.state, given) + error, jax.random.key_data(next_key))

    def predict(self, memory: ParticleMemory) -> Prediction:
        return Prediction(memory.state)

    @property
    def names(self) -> Names | None:
        return self.inner.names


def particles_of(model: Model, number: int, *, key: Key) -> list[Particle]:
    """So many particles of a model that knows how far it may be off, its members in turn.

    ```python
    env = ms.ModelEnv(ms.dynamics.particles_of(fit.model, 20, key=key), reward=reward, starts=train)
    ```

    **Arguments:**

    - `model`: as the automatic recipe returns it, or `calibrate`.
    - `number`: how many.
    - `key`: for what they draw.
    """
    if not isinstance(model, Model):
        raise InputError("Particles carry a state: a model with a memory of its own has none to carry.")
    if model.uncertainty is None:
        raise InputError(
            "The model does not know how far its steps may be off: fit it with the automatic recipe, or call "
            "multistep.calibrate(model, train, held_out)."
        )
    if number < 1:
        raise InputError(f"{number} particles: it takes 1 or more.")
    members = model.separate()
    keys = jax.random.split(key, number)
    noise = jnp.asarray(model.uncertainty.step_noise, float)
    return [
        Particle(members[n % len(members)], noise, jax.random.key_data(keys[n]))  # pyright: ignore
        for n in range(number)
    ]
