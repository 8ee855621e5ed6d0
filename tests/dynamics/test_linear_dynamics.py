import jax
import jax.numpy as jnp
import numpy as np
import pytest
from sklearn.linear_model import Ridge

from multistep.dynamics import LineConfig, Persistence
from multistep.dynamics.linear import Line, least_squares, pulled_back
from multistep.dynamics.network import Linear


def test_least_squares_is_that_of_numpy_without_noise():
    rng = np.random.default_rng(0)
    inputs, weight = rng.standard_normal((50, 3)) + 5, rng.standard_normal((3, 2))
    found = least_squares(inputs, inputs @ weight + np.array([1.0, -2.0]))
    np.testing.assert_allclose(found.weight, weight, rtol=1e-6)
    np.testing.assert_allclose(found.bias, [1.0, -2.0], rtol=1e-5)


@pytest.mark.parametrize("ridge", [1e-3, 0.3])
def test_with_one_ridge_it_is_that_of_scikit_learn(ridge):
    rng = np.random.default_rng(1)
    inputs, outputs = rng.standard_normal((40, 4)), rng.standard_normal((40, 2))
    found = least_squares(inputs, outputs, [ridge])
    theirs = Ridge(alpha=ridge * len(inputs)).fit(inputs, outputs)
    np.testing.assert_allclose(found.weight, theirs.coef_.T, rtol=1e-6)
    np.testing.assert_allclose(found.bias, theirs.intercept_, rtol=1e-6)


def test_the_ridge_is_the_one_that_generalises():
    rng = np.random.default_rng(2)
    inputs, weight = rng.standard_normal((20, 15)), np.zeros((15, 1))
    noise = rng.standard_normal((20, 1))
    ridges = (1e-9, 1e-2, 1.0, 100.0)
    found = least_squares(inputs, inputs @ weight + noise, ridges)
    # Leaving out one example at a time, by brute force, prefers a large ridge too.
    outputs = inputs @ weight + noise

    def left_out(ridge):
        errors = []
        for n in range(20):
            rest = np.delete(np.arange(20), n)
            fit = least_squares(inputs[rest], outputs[rest], [ridge])
            errors.append(float(fit(jnp.asarray(inputs[n]))[0]) - outputs[n, 0])
        return np.mean(np.square(errors))

    chosen = next(r for r in ridges if np.allclose(found.weight, least_squares(inputs, outputs, [r]).weight))
    assert chosen == min(ridges, key=left_out)


def test_persistence_never_moves():
    state = jnp.array([1.0, 2.0])
    np.testing.assert_array_equal(Persistence().step(state, jnp.zeros(1)), state)


def test_a_line_that_runs_away_is_pulled_back():
    turning = LineConfig().make(2, 1, key=jax.random.key(0)).turning
    grows = np.array([[1.1, 0.2], [0.0, 0.5]])
    weight = np.vstack([(grows - np.eye(2)).T, [[0.3, 0.4]]])
    line = Line(turning, Linear(jnp.asarray(weight), jnp.zeros(2)))
    found = np.asarray(pulled_back(line).change.weight)
    np.testing.assert_allclose(np.linalg.eigvals(np.eye(2) + found[:2].T), [1.0, 0.5], rtol=1e-6)
    np.testing.assert_array_equal(found[2], weight[2])
    steady = pulled_back(line)
    assert pulled_back(steady) is steady
