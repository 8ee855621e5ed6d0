"""`forecast`: start from the past, then roll out. What training, scoring, agents and export all go
through."""

import jax
from jaxtyping import Array, Float

from multistep.data import Past
from multistep.dynamics.base import AbstractDynamics, Memory, Prediction
from multistep.dynamics.rollout import rollout
from multistep.types import Action, Key


def forecast(
    dynamics: AbstractDynamics,
    past: Past,
    actions: Float[Array, "horizon action"],
    *,
    key: Key | None = None,
) -> Prediction:
    r"""What is observed after each of the actions, stacked along a leading axis.

    $\hat m_t$ = `start(past)`, $\hat m_{t+j} = $ `step`$(\hat m_{t+j-1}, a_{t+j-1})$ and $\hat s_{t+j} = $
    `predict`$(\hat m_{t+j})$ for j = 1, ..., h. Of a Markov model, m is s.

    **Arguments:**

    - `dynamics`: in the units of the past and the actions.
    - `past`: the last `dynamics.num_past` observations.
    - `actions`: those that follow.
    - `key`: for what a dynamics in training draws.
    """
    memories = rollout(dynamics.step, dynamics.start(past), dynamics.inputs(actions, key))
    return jax.vmap(dynamics.predict)(memories)


def advance(dynamics: AbstractDynamics, memory: Memory, action: Action) -> tuple[Memory, Prediction]:
    """One step of a forecast, for whoever decides on the next action only then: an observer, an agent."""
    memory = dynamics.step(memory, action)
    return memory, dynamics.predict(memory)
