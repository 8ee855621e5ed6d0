import jax
import jax.numpy as jnp
import numpy as np

from multistep.dynamics import rollout
from systems import LinearModel


def test_rollout_is_the_repeated_step(getkey):
    model = LinearModel(jax.random.normal(getkey(), (3, 3)), jax.random.normal(getkey(), (3, 2)))
    state, actions = jax.random.normal(getkey(), (3,)), jax.random.normal(getkey(), (5, 2))
    expected, current = [], np.asarray(state)
    for action in np.asarray(actions):
        current = np.asarray(model.transition) @ current + np.asarray(model.control) @ action
        expected.append(current)
    eager, compiled = (
        rollout(model.step, state, actions),
        jax.jit(lambda s, a: rollout(model.step, s, a))(state, actions),
    )
    np.testing.assert_allclose(eager, expected, rtol=1e-12)
    np.testing.assert_allclose(compiled, expected, rtol=1e-12)


def test_vmap_is_a_loop(getkey):
    model = LinearModel(jax.random.normal(getkey(), (3, 3)), jax.random.normal(getkey(), (3, 2)))
    states, actions = jax.random.normal(getkey(), (4, 3)), jax.random.normal(getkey(), (4, 5, 2))
    together = jax.vmap(lambda s, a: rollout(model.step, s, a))(states, actions)
    alone = jnp.stack([rollout(model.step, s, a) for s, a in zip(states, actions, strict=True)])
    np.testing.assert_allclose(together, alone, rtol=1e-12)


def test_a_state_may_be_any_pytree():
    counts = rollout(
        lambda carried, given: {"n": carried["n"] + given}, {"n": jnp.asarray(0)}, jnp.arange(1, 4)
    )
    np.testing.assert_array_equal(counts["n"], [1, 3, 6])
