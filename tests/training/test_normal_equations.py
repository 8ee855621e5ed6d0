from itertools import pairwise

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree
from scipy.optimize import least_squares

from multistep.data import Past, Window
from multistep.dynamics import HiddenConfig, LaggedConfig, ShallowConfig, forecast
from multistep.training.normal_equations import (
    Descent,
    cost_of,
    flat_weights,
    improve,
    normal_equations,
    squared_residuals,
    with_weights,
)


def windows(past, count=3, horizon=6, outputs=2, actions=1, seed=0):
    rng = np.random.default_rng(seed)
    given = Past(rng.normal(size=(count, past, outputs)), rng.normal(size=(count, past - 1, actions)))
    drawn = Window(
        given, rng.normal(size=(count, horizon, actions)), rng.normal(size=(count, horizon, outputs))
    )
    return jax.tree.map(jnp.asarray, drawn)


def loud(dynamics, key, size=0.2):
    """With weights that say something: the last layer starts at zero."""
    weights = flat_weights(dynamics)
    return with_weights(dynamics, weights + size * jax.random.normal(key, weights.shape))


NETWORKS = {
    "markov": ShallowConfig(4),
    "lagged": LaggedConfig(3, ShallowConfig(4)),
    "hidden": HiddenConfig(3, 2, ShallowConfig(4), encoder_size=3),
}


@pytest.mark.parametrize("name", NETWORKS)
def test_they_are_those_of_the_slopes_that_automatic_differentiation_finds(name, getkey):
    dynamics = loud(NETWORKS[name].make(2, 1, key=getkey()), getkey())
    batch, share = windows(dynamics.num_past), jnp.ones((3, 6)).at[2, 4:].set(0.0).at[0].set(2.0)
    weights = flat_weights(dynamics)

    def residuals(weights):
        learned = with_weights(dynamics, weights)
        predicted = jax.vmap(lambda window: forecast(learned, window.past, window.actions).mean)(batch)
        return (jnp.sqrt(share)[:, :, None] * (predicted - batch.states)).ravel()

    slopes, errors = jax.jacfwd(residuals)(weights), residuals(weights)
    sums = normal_equations(dynamics, weights, batch, share)
    np.testing.assert_allclose(sums.matrix, slopes.T @ slopes, rtol=1e-8, atol=1e-9)
    np.testing.assert_allclose(sums.slope, slopes.T @ errors, rtol=1e-8, atol=1e-9)
    np.testing.assert_allclose(sums.squares, errors @ errors, rtol=1e-10)


def test_what_is_not_counted_may_be_no_number(getkey):
    dynamics = ShallowConfig(2).make(2, 1, key=getkey())
    batch = windows(1)
    broken = batch._replace(states=batch.states.at[1, 3:].set(jnp.nan))
    share = jnp.ones((3, 6)).at[1, 3:].set(0.0)
    weights = flat_weights(dynamics)
    for one, other in zip(
        normal_equations(dynamics, weights, broken, share),
        normal_equations(dynamics, weights, batch, share),
        strict=True,
    ):
        np.testing.assert_array_equal(one, other)
    none = jnp.zeros(())
    assert cost_of(dynamics, weights, broken, share, none) == cost_of(dynamics, weights, batch, share, none)


def test_a_descent_ends_where_that_of_scipy_does(getkey):
    """To data that a network of the same shape has made, with a ridge that makes the least point one."""
    network = LaggedConfig(2, ShallowConfig(2))
    truth = loud(network.make(1, 1, key=getkey()), getkey(), 0.3)
    start = loud(network.make(1, 1, key=getkey()), getkey(), 0.1)
    batch = windows(2, count=8, horizon=5, outputs=1)
    made = jax.vmap(lambda window: forecast(truth, window.past, window.actions).mean)(batch)
    batch, share, ridge = batch._replace(states=made), jnp.ones((8, 5)), jnp.full((), 1e-2, float)
    first = flat_weights(start)

    @jax.jit
    def residuals(weights):
        learned = with_weights(start, weights)
        predicted = jax.vmap(lambda window: forecast(learned, window.past, window.actions).mean)(batch)
        errors = (predicted - batch.states).ravel() / np.sqrt(batch.states.size)
        return jnp.concatenate([errors, jnp.sqrt(ridge) * (weights - first)])

    tight = {"xtol": 1e-12, "ftol": 1e-12, "gtol": 1e-12}
    theirs = least_squares(lambda weights: np.asarray(residuals(weights)), np.asarray(first), **tight)
    descent = Descent(first, cost_of(start, first, batch, share, ridge), jnp.full((), 1e-2, float))
    step = eqx.filter_jit(improve)
    costs = [float(descent.cost)]
    for _ in range(40):
        descent = step(start, batch, share, ridge, descent)
        costs.append(float(descent.cost))
    assert all(later <= earlier for earlier, later in pairwise(costs))
    assert costs[-1] == pytest.approx(2 * theirs.cost, rel=1e-6)
    np.testing.assert_allclose(descent.weights, theirs.x, atol=1e-4)


def test_the_cost_is_the_mean_square_and_the_departure(getkey):
    dynamics = loud(ShallowConfig(3).make(2, 1, key=getkey()), getkey())
    batch, share = windows(1), jnp.ones((3, 6))
    weights = flat_weights(dynamics) + 0.1
    squares = squared_residuals(dynamics, weights, batch)
    expected = float(squares.sum()) / batch.states.size + 0.5 * weights.size * 0.01
    assert float(cost_of(dynamics, weights, batch, share, jnp.asarray(0.5))) == pytest.approx(expected)
    restored = with_weights(dynamics, flat_weights(dynamics))
    for one, other in zip(ravel_pytree(restored)[0], ravel_pytree(dynamics)[0], strict=True):
        assert one == other
