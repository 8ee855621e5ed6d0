import jax
import jax.numpy as jnp
import numpy as np
import pytest

from multistep.agents.observing import Filtered
from multistep.agents.planners import AbstractPlanner, decide, past_of
from multistep.dynamics import Observer
from systems import LinearModel

TRANSITION, CONTROL = np.array([[1.0, 0.1], [0.0, 1.0]]), np.array([[0.0], [0.1]])


class Steering(AbstractPlanner):
    """Pushes to the origin, and counts."""

    def start(self):
        return jnp.zeros(())

    def decide(self, past, memory, key):
        state = past.states[-1]
        return -(state[:1] + state[1:]), memory + 1


@pytest.fixture
def planner():
    model = LinearModel(jnp.asarray(TRANSITION), jnp.asarray(CONTROL))
    return Filtered(Steering(), Observer(model, jnp.array([0.5, 0.5]), jnp.array([0.01, 0.01])), 1)


def test_decisions_are_those_in_the_mean_of_the_belief(planner):
    """The filter by hand, beside the planner's own."""
    rng = np.random.default_rng(0)
    memory, measured = planner.start(), rng.standard_normal((6, 2))
    belief, last = None, jnp.zeros(1)
    for step in range(6):
        action, memory = decide(planner, jnp.asarray(measured[step]), memory, jax.random.key(step))
        if belief is None:
            belief = planner.observer.start(jnp.asarray(measured[0]))
        else:
            belief = planner.observer.observe(belief, last, jnp.asarray(measured[step])).after
        last = -(belief.mean[:1] + belief.mean[1:])
        np.testing.assert_allclose(action, last)
    assert memory.planner_memory == 6


def test_the_plant_is_held_more_quietly(planner):
    """The same plant and noise, with the observer and without."""
    spread = []
    for chosen in (Steering(), planner):
        rng, state, memory, states = np.random.default_rng(0), np.ones(2), chosen.start(), []
        for step in range(300):
            measured = state + 0.5 * rng.standard_normal(2)
            action, memory = decide(chosen, jnp.asarray(measured), memory, jax.random.key(step))
            state = TRANSITION @ state + CONTROL @ np.asarray(action)
            states.append(state)
        spread.append(np.std(states[100:]))
    assert spread[1] < 0.6 * spread[0]


def test_a_belief_that_is_lost_begins_anew(planner):
    memory = planner.start()
    for step, measured in enumerate([[1.0, 2.0], [jnp.nan, 0.0], [3.0, 4.0]]):
        action, memory = planner.decide(past_of(jnp.array(measured), 1), memory, jax.random.key(step))
    np.testing.assert_allclose(action, [-7.0])
