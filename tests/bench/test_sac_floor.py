"""The bare update that SAC in the model is measured against is a SAC update."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import norm

from multistep.bench import sac_floor
from multistep.bench.workload import ACTIONS, STATES

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def single_precision():
    with jax.enable_x64(False), jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
        yield


def test_the_density_of_squashed_actions():
    """By the change of variables, at actions that are not squashed flat."""
    actor = sac_floor._layers([STATES, 8, 2 * ACTIONS], jax.random.key(0))
    states = jax.random.normal(jax.random.key(1), (5, STATES))
    actions, log_density = sac_floor._act(actor, states, jax.random.key(2))
    mean, log_deviation = np.split(np.asarray(sac_floor._forward(actor, states), float), 2, axis=1)
    raw = np.arctanh(np.asarray(actions, float))
    moderate = (abs(np.asarray(actions)) < 0.999).all(axis=1)
    assert moderate.any()
    expected = (
        norm.logpdf(raw, mean, np.exp(log_deviation)) - np.log(1 - np.asarray(actions, float) ** 2)
    ).sum(axis=1)
    np.testing.assert_allclose(log_density[moderate], expected[moderate], rtol=1e-2, atol=1e-2)


def test_updates_on_one_batch_fit_the_critics_and_raise_the_value():
    keys = jax.random.split(jax.random.key(3), 4)
    batch = sac_floor.Batch(
        jax.random.normal(keys[0], (64, STATES)),
        jax.random.uniform(keys[1], (64, ACTIONS), minval=-1, maxval=1),
        jax.random.normal(keys[2], (64,)),
        jax.random.normal(keys[3], (64, STATES)),
    )
    actor = sac_floor._layers([STATES, 32, 2 * ACTIONS], keys[0])
    critics = jax.vmap(lambda key: sac_floor._layers([STATES + ACTIONS, 32, 1], key))(keys[:2])
    start = sac_floor.Floor(
        actor,
        critics,
        critics,
        jnp.array(-5.0),
        tuple(map(sac_floor.OPTIMISER.init, (actor, critics, jnp.zeros(())))),
    )

    def value(floor):
        """Of the policy's actions, by the first critics: only the actor differs."""
        return float(
            sac_floor._value(critics, batch.states, sac_floor._act(floor.actor, batch.states, keys[3])[0])
            .min(0)
            .mean()
        )

    once = sac_floor._update(start, batch, keys[0])
    np.testing.assert_allclose(
        once.targets[0][0], 0.995 * critics[0][0] + 0.005 * once.critics[0][0], rtol=1e-5, atol=1e-7
    )
    floor = start
    for key in jax.random.split(keys[1], 20):
        floor = jax.jit(sac_floor._update)(floor, batch, key)
    assert value(floor) > value(start)
    errors = [
        float(((sac_floor._value(f.critics, batch.states, batch.actions) - batch.rewards) ** 2).mean())
        for f in (start, floor)
    ]
    assert errors[1] < errors[0]
