import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from multistep.evaluation.intervals import interval
from multistep.losses import Custom, Exponential, multistep_errors, weighted_loss
from multistep.report.linear_figures import draw_linear
from multistep.studies import linear_system as system
from multistep.studies.linear import LinearConfig, observe, run_linear
from systems import ScalarModel, window_of

finite = st.floats(-2, 2).filter(lambda value: abs(value) > 1e-3)


def general_loss(theta, states, observed, alphas):
    """The core's loss on the linear system: a batch of windows, the first state known, the others
    observed."""

    def errors_of(state, following):
        window = window_of(jnp.concatenate([state[None], following])[:, None], jnp.zeros((len(following), 0)))
        return multistep_errors(ScalarModel(theta), window)

    errors = jax.vmap(errors_of)(jnp.asarray(states), jnp.asarray(observed).T).mean(axis=0)
    return weighted_loss(errors, Custom(alphas))


@pytest.fixture
def data():
    rng = np.random.default_rng(0)
    states = rng.uniform(-5, 5, 10)
    return states, observe(states, 0.7, 0.8, rng.standard_normal((1, 6, 10)))[0]


@pytest.mark.parametrize("horizon", [1, 2, 3, 5])
def test_the_general_loss_has_the_closed_values_and_gradients(data, horizon):
    states, observed = data[0], data[1][:horizon]
    alphas = np.asarray(Exponential(1.5)(jnp.ones(horizon)))
    p, energy = system.moments(states, observed), states @ states / len(states)
    floor = alphas @ ((observed**2).mean(axis=1) - energy * p**2)
    for theta in (-1.1, -0.3, 0.0, 0.6, 1.2):
        value, slope = jax.value_and_grad(general_loss)(jnp.asarray(theta), states, observed, alphas)
        np.testing.assert_allclose(
            value, energy * system.loss(np.array([theta]), p, alphas)[0] + floor, rtol=1e-10
        )
        np.testing.assert_allclose(
            slope, energy * system.derivative(np.array([theta]), p, alphas)[0], rtol=1e-9, atol=1e-10
        )


@pytest.mark.parametrize("horizon", [3, 4])
def test_the_minimiser_of_longer_horizons_is_where_gradient_descent_on_the_general_loss_ends(data, horizon):
    states, observed = data[0], data[1][:horizon]
    alphas = np.full(horizon, 1 / horizon)
    slope = jax.jit(jax.grad(lambda theta: general_loss(theta, states, observed, alphas)))
    theta = jnp.asarray(0.5)
    for _ in range(3000):
        theta = theta - 0.01 * slope(theta)
    expected = system.minimiser_any_horizon(system.moments(states, observed)[None], alphas, 1.0)[0]
    np.testing.assert_allclose(theta, expected, atol=1e-9)


def test_alphas_and_signs_are_vectorised():
    p = np.random.default_rng(0).normal(0.4, 0.4, (50, 2))
    alphas, signs = np.array([0.0, 0.1, 0.5, 0.9, 1.0]), np.array([-1.0, 1.0])
    together = system.minimiser(p, alphas[:, None, None], signs[:, None])
    assert together.shape == (5, 2, 50)
    for i, alpha in enumerate(alphas):
        for j, sign in enumerate(signs):
            np.testing.assert_array_equal(together[i, j], system.minimiser(p, float(alpha), float(sign)))


def test_weights_without_effect_and_a_parameter_without_information():
    p = np.array([[0.5, 0.2]])
    np.testing.assert_allclose(system.minimiser_any_horizon(p, np.array([1.0, 0.0]), 1.0), [0.5])
    assert system.first_order_variance(0.0, np.array([0.0, 1.0]), 1.0, 1.0) == np.inf


@pytest.mark.parametrize("alpha", [0.0, 0.2, 0.5, 0.9, 1.0])
def test_the_closed_minimiser_is_where_gradient_descent_on_the_general_loss_ends(data, alpha):
    states, observed = data[0], data[1][:2]
    slope = jax.jit(jax.grad(lambda theta: general_loss(theta, states, observed, [alpha, 1 - alpha])))
    theta = jnp.asarray(0.5)
    for _ in range(3000):
        theta = theta - 0.01 * slope(theta)
    np.testing.assert_allclose(
        theta, system.minimiser(system.moments(states, observed)[None], alpha, 1.0)[0], atol=1e-9
    )


@given(finite, finite, st.floats(0.01, 0.99), st.sampled_from([-1.0, 1.0]))
def test_cardano_finds_the_root_with_the_right_sign_or_the_only_one(first, second, alpha, sign):
    (found,) = system.minimiser_between(np.array([[first, second]]), alpha, sign)
    # NumPy's own root finder, on the cubic as it stands.
    roots = np.roots([2 * (1 - alpha), 0, alpha - 2 * (1 - alpha) * second, -alpha * first])
    real = np.sort(roots.real[np.abs(roots.imag) < 1e-5])
    assert np.abs(real - found).min() < 1e-4
    if len(real) == 3 and np.diff(real).min() > 1e-3:
        assert found * sign > 0
        np.testing.assert_allclose(found, real[-1] if sign > 0 else real[0], atol=1e-6)


@pytest.mark.parametrize("horizon", [1, 2, 3, 4, 6])
@pytest.mark.parametrize("beta", [0.5, 1.0, 2.0])
def test_any_horizon_against_brute_force(horizon, beta):
    rng = np.random.default_rng(horizon)
    alphas = beta ** np.arange(horizon) / np.sum(beta ** np.arange(horizon))
    p = 0.8 ** np.arange(1, horizon + 1) + 0.1 * rng.standard_normal((20, horizon))
    found = system.minimiser_any_horizon(p, alphas, 1.0)
    grid = np.linspace(0, 2, 200_001)
    for one, theta in zip(p, found, strict=True):
        np.testing.assert_allclose(theta, grid[system.loss(grid, one, alphas).argmin()], atol=2e-5)


def test_two_ways_to_the_same_minimiser():
    p = np.random.default_rng(0).normal(0.4, 0.4, (500, 2))
    for alpha in (0.1, 0.5, 0.9):
        closed, general = (
            system.minimiser(p, alpha, 1.0),
            system.minimiser_any_horizon(p, np.array([alpha, 1 - alpha]), 1.0),
        )
        np.testing.assert_allclose(closed, general, atol=1e-7)


def test_least_squares_is_an_independent_librarys(data):
    states, observed = data
    expected = np.linalg.lstsq(states[:, None], observed[0], rcond=None)[0][0]
    np.testing.assert_allclose(system.minimiser_one(system.moments(states, observed[None, :2])), [expected])
    inputs, outputs = np.concatenate([states, observed[0]]), np.concatenate([observed[0], observed[1]])
    np.testing.assert_allclose(
        system.augmented(states, observed[None, :2]), np.linalg.lstsq(inputs[:, None], outputs, rcond=None)[0]
    )


def test_without_a_positive_square_only_zero_is_left():
    np.testing.assert_array_equal(
        system.minimiser(np.array([[0.5, -0.1], [0.5, 0.25]]), 0.0, -1.0), [0, -0.5]
    )


# What theory says of the variance


@pytest.mark.parametrize("theta", [0.1, 0.3, 0.5, 0.7, 0.95])
def test_first_order_variance_of_two_steps(theta):
    alpha = np.linspace(0, 1, 1001)
    ours = np.array([system.first_order_variance(theta, np.array([a, 1 - a]), 0.3, 2.0) for a in alpha])
    printed = (
        0.3**2 / 2 * (alpha**2 + 4 * theta**2 * (1 - alpha) ** 2) / (alpha + 4 * theta**2 * (1 - alpha)) ** 2
    )
    np.testing.assert_allclose(ours, printed)
    assert alpha[ours.argmin()] == 0.5
    np.testing.assert_allclose(ours.min(), 0.3**2 / (2 * (1 + 4 * theta**2)))
    assert ours.min() < ours[-1]  # always below the one-step loss ...
    assert (ours.min() < ours[-1] / 2 - 1e-12) == (
        theta > 0.5
    )  # ... and below averaging for theta above 1/2 only
    assert (ours[0] < ours[-1] - 1e-12) == (theta > 0.5)  # so is alpha = 0 below alpha = 1


@pytest.mark.parametrize("horizon", [3, 6])
def test_equal_weights_are_best_to_first_order_at_any_horizon(horizon):
    rng = np.random.default_rng(0)
    equal = system.first_order_variance(0.8, np.full(horizon, 1 / horizon), 1.0, 1.0)
    for alphas in rng.dirichlet(np.ones(horizon), 100):
        assert system.first_order_variance(0.8, alphas, 1.0, 1.0) > equal


def estimates(theta, noise, alphas, *, number=20_000):
    rng = np.random.default_rng(int(1000 * theta))
    states = np.linspace(-5, 5, 10)
    observed = observe(states, theta, noise, rng.standard_normal((number, len(alphas) + 1, 10)))[
        :, : len(alphas)
    ]
    return system.minimiser_any_horizon(
        system.moments(states, observed), np.array(alphas), 1.0
    ), states @ states


@pytest.mark.parametrize("theta", [0.3, 0.6, 0.9])
@pytest.mark.parametrize(
    "alphas", [(1.0,), (0.5, 0.5), (0.2, 0.8), (0.25, 0.25, 0.25, 0.25), (0.1, 0.2, 0.7)]
)
def test_monte_carlo_agrees_with_first_order_at_small_noise(theta, alphas):
    values, energy = estimates(theta, 0.05, alphas)
    theory = system.first_order_variance(theta, np.array(alphas), 0.05, energy)
    low, high = interval(values, np.var, num_resamples=500)
    assert low - 0.5 * (high - low) < theory < high + 0.5 * (high - low)  # about four deviations
    np.testing.assert_allclose(values.mean(), theta, atol=1e-3)


def test_monte_carlo_leaves_first_order_at_large_noise():
    """Two steps alone and a small parameter: the square root cannot follow."""
    values, energy = estimates(0.1, 1.0, (1e-9, 1.0))
    theory = system.first_order_variance(0.1, np.array([0.0, 1.0]), 1.0, energy)
    assert interval(values, np.var)[1] < theory / 5


def test_the_augmented_variant_is_biased_by_the_noise_in_its_inputs():
    states, theta, noise = np.linspace(-5, 5, 1000), 0.8, 1.0
    observed = observe(states, theta, noise, np.random.default_rng(0).standard_normal((200, 3, 1000)))
    energy = states @ states
    expected = theta * (1 + theta**2) * energy / ((1 + theta**2) * energy + len(states) * noise**2)
    np.testing.assert_allclose(system.augmented(states, observed[:, :2]).mean(), expected, rtol=2e-3)
    assert expected < 0.97 * theta
    np.testing.assert_allclose(
        system.averaged(states, observed[:, 0], observed[:, 2]).mean(), theta, rtol=2e-3
    )


# The study


def test_the_study_leaves_rows_figures_and_findings(tmp_path):
    summary = run_linear(LinearConfig(scale="smoke", out=tmp_path))
    assert summary["real_roots"] == {"0.0": 3, "0.1": 3, "0.2": 3, "0.3": 1, "0.5": 1, "0.75": 1, "1.0": 1}
    ratios = summary["two_steps_over_averaging"]
    assert ratios["above_half"]["first_order"] < 1 < ratios["below_half"]["first_order"]
    assert ratios["above_half"]["simulated"] < ratios["below_half"]["simulated"]
    for path in draw_linear(tmp_path):
        assert path.read_bytes().startswith(b"\x89PNG")
    kept = json.loads((tmp_path / "summary.json").read_text())
    assert kept["at_largest_noise"].keys() == {"alpha 0", "alpha 0.5", "alpha 1", "augmented", "averaged"}
    again = run_linear(LinearConfig(scale="smoke", out=tmp_path))
    assert again["at_largest_noise"] == summary["at_largest_noise"]


def test_intervals_are_scipys_and_cover_the_truth():
    rng = np.random.default_rng(0)
    covered = [
        low < 1 < high for low, high in (interval(rng.exponential(1, (3, 60)), seed=n) for n in range(200))
    ]
    assert 0.88 < np.mean(covered) < 0.99
    shift = interval(np.stack([np.arange(9.0), np.arange(9.0) + 100]))
    np.testing.assert_allclose(np.array(shift) - 50, interval(np.arange(9.0)))
