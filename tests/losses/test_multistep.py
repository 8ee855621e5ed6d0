import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from multistep.data import Window
from multistep.dynamics import Model, NetworkConfig, fit_normaliser
from multistep.dynamics.network import make_network
from multistep.losses import Balanced, Custom, Exponential, Uniform, multistep_errors, weighted_loss
from systems import LinearModel, ScalarModel, random_episodes, window_of


@pytest.fixture
def window(getkey):
    return window_of(jax.random.normal(getkey(), (6, 3)), jax.random.normal(getkey(), (5, 2)))


@pytest.fixture
def model(getkey):
    normaliser = jax.tree.map(jnp.asarray, fit_normaliser(random_episodes([50])))
    network = make_network(NetworkConfig(hidden_size=6, activation="tanh"), 3, 2, key=getkey())
    return Model(network, normaliser, ("a", "b", "c"), ("u", "v"))


def test_errors_of_a_linear_system_are_those_of_its_powers(getkey, window):
    a, b = 0.5 * jax.random.normal(getkey(), (3, 3)), jax.random.normal(getkey(), (3, 2))
    states = np.concatenate([window.past.states, window.states])
    actions = np.asarray(window.actions)
    expected = []
    for j in range(1, 6):
        predicted = np.linalg.matrix_power(a, j) @ states[0]
        for i in range(j):
            predicted = predicted + np.linalg.matrix_power(a, j - 1 - i) @ np.asarray(b) @ actions[i]
        expected.append(((predicted - states[j]) ** 2).mean())
    np.testing.assert_allclose(multistep_errors(LinearModel(a, b), window), expected, rtol=1e-10)


def test_loss_and_gradient_of_the_scalar_system_in_closed_form():
    """L(theta) = sum_j alpha_j (theta^j s_0 - s_j)^2 and its derivative."""
    states, alphas, theta = np.array([1.3, 0.9, 0.8, 0.1]), np.array([0.5, 0.2, 0.3]), 0.78
    window = window_of(jnp.asarray(states)[:, None], jnp.zeros((3, 1)))
    powers = np.arange(1, 4)
    residuals = theta**powers * states[0] - states[1:]
    loss = lambda theta: weighted_loss(multistep_errors(ScalarModel(theta), window), Custom(alphas))  # noqa: E731
    value, slope = jax.value_and_grad(loss)(jnp.asarray(theta))
    np.testing.assert_allclose(value, (alphas * residuals**2).sum(), rtol=1e-12)
    np.testing.assert_allclose(
        slope, (2 * alphas * residuals * powers * theta ** (powers - 1) * states[0]).sum(), rtol=1e-12
    )


@pytest.mark.parametrize("weights", [Exponential(0.5), Uniform(), Custom([0.1, 0.2, 0.3, 0.3, 0.1])])
def test_gradient_through_the_rollout_is_that_of_finite_differences(model, window, weights):
    parameters, rebuild = jax.flatten_util.ravel_pytree(model)
    loss = jax.jit(lambda parameters: weighted_loss(multistep_errors(rebuild(parameters), window), weights))
    gradient = jax.grad(loss)(parameters)
    rng = np.random.default_rng(0)
    for direction in rng.standard_normal((5, parameters.size)):
        step = 1e-6 * jnp.asarray(direction)
        difference = (loss(parameters + step) - loss(parameters - step)) / 2e-6
        np.testing.assert_allclose(gradient @ direction, difference, rtol=1e-6)


def test_horizon_one_is_the_one_step_loss(model, window):
    short = Window(window.past, window.actions[:1], window.states[:1])
    expected = jnp.mean((model.step(window.past.states[0], window.actions[0]) - window.states[0]) ** 2)
    for weights in (Exponential(3.0), Uniform(), Custom([1.0]), Balanced()):
        np.testing.assert_allclose(
            weighted_loss(multistep_errors(model, short), weights), expected, rtol=1e-12
        )


def test_all_weight_on_one_step_is_the_error_at_that_step(model, window):
    errors = multistep_errors(model, window)
    for j in range(5):
        np.testing.assert_allclose(weighted_loss(errors, Custom(np.eye(5)[j])), errors[j], rtol=1e-12)


def test_jit_is_no_jit_and_vmap_is_a_loop(model, window, getkey):
    np.testing.assert_allclose(
        eqx.filter_jit(multistep_errors)(model, window), multistep_errors(model, window), rtol=1e-12
    )
    batch = jax.tree.map(lambda x: x[None] + 0.1 * jax.random.normal(getkey(), (4, *x.shape)), window)
    together = jax.vmap(multistep_errors, in_axes=(None, 0))(model, batch)
    for index in range(4):
        np.testing.assert_allclose(
            together[index], multistep_errors(model, jax.tree.map(lambda x, i=index: x[i], batch)), rtol=1e-10
        )
