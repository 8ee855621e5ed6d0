"""Whether an exported file finds what the model finds: both from the same pasts, with the same actions."""

from collections.abc import Callable

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float
from numpy import ndarray

from multistep.data import Past
from multistep.dynamics.forecast import forecast
from multistep.dynamics.model import MemoryModel, Model
from multistep.errors import InputError

CLOSE = 1e-5
"""Numbers of a file may differ so much from the model's in one step, in units of what they are about."""
EXAMPLES = 4

Run = Callable[
    [Float[ndarray, "past state"], Float[ndarray, "past_less_one action"], Float[ndarray, "steps action"]],
    Float[ndarray, "steps state"],
]
"""From past states, past actions and actions to what is observed after each of these."""


def check_close(model: Model | MemoryModel, run: Run, what: str, steps: int) -> None:
    """Raise an `InputError` unless the file's rollouts of so many steps are the model's."""
    units, rng, compiled = model.normaliser, np.random.default_rng(0), eqx.filter_jit(forecast)

    def drawn(rows: int, mean: object, deviation: object) -> ndarray:
        mean, deviation = np.asarray(mean), np.asarray(deviation)
        return (mean + deviation * rng.normal(size=(rows, len(mean)))).astype(np.float32)

    for _ in range(EXAMPLES):
        states = drawn(model.num_past, units.state_mean, units.state_deviation)
        past = drawn(model.num_past - 1, units.action_mean, units.action_deviation)
        actions = drawn(steps, units.action_mean, units.action_deviation)
        known = Past(jnp.asarray(states, float), jnp.asarray(past, float))
        expected = np.asarray(compiled(model, known, jnp.asarray(actions, float)).mean)
        size = np.asarray(units.state_deviation) + np.abs(expected)
        error = float(np.max(np.abs(np.asarray(run(states, past, actions)) - expected) / size))
        if not error < CLOSE * steps:
            raise InputError(
                f"The numbers of the {what} file differ from the model's by {error:.1g} of their size: it is "
                "not kept; use another target."
            )
