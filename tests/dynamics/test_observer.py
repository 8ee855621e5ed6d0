import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import multivariate_normal

from multistep.dynamics import Observer
from systems import LinearModel

TRANSITION = np.array([[0.95, 0.2], [-0.3, 1.02]])
CONTROL = np.array([[0.1], [0.4]])
MEASUREMENT, STEP = np.array([0.3, 0.5]), np.array([0.1, 0.05])
NUM_STEPS = 8


@pytest.fixture
def observer():
    model = LinearModel(jnp.asarray(TRANSITION), jnp.asarray(CONTROL))
    return Observer(model, jnp.asarray(MEASUREMENT), jnp.asarray(STEP))


@pytest.fixture
def episode():
    rng = np.random.default_rng(0)
    return rng.standard_normal((NUM_STEPS + 1, 2)), rng.standard_normal((NUM_STEPS, 1))


def whole_episode(measured, actions):
    """Mean and covariance of all states together before any measurement but the first, and the noise of the
    others.

    No recursion: states are one long Gaussian vector, a linear function of the first state and of the steps'
    noise.
    """
    steps = len(actions)
    powers = [np.linalg.matrix_power(TRANSITION, count) for count in range(steps + 1)]
    start = np.concatenate(powers)
    of_noise = np.zeros((2 * (steps + 1), 2 * steps))
    for later in range(1, steps + 1):
        for earlier in range(later):
            of_noise[2 * later : 2 * later + 2, 2 * earlier : 2 * earlier + 2] = powers[later - 1 - earlier]
    mean = start @ measured[0] + of_noise @ (actions @ CONTROL.T).ravel()
    covariance = (
        start @ np.diag(MEASUREMENT**2) @ start.T + of_noise @ np.diag(np.tile(STEP**2, steps)) @ of_noise.T
    )
    return mean, covariance


def posterior(measured, actions):
    mean, covariance = whole_episode(measured, actions)
    noise = np.diag(np.tile(MEASUREMENT**2, len(actions)))
    gain = covariance[:, 2:] @ np.linalg.inv(covariance[2:, 2:] + noise)
    return (mean + gain @ (measured[1:].ravel() - mean[2:])).reshape(-1, 2), covariance - gain @ covariance[
        2:
    ]


def test_smoothed_states_are_the_mean_of_all_states_given_all_measurements(observer, episode):
    smoothed = jax.jit(Observer.smooth)(observer, *map(jnp.asarray, episode))
    assert np.allclose(smoothed, posterior(*episode)[0], atol=1e-12)


def test_a_belief_is_the_mean_and_covariance_given_the_measurements_so_far(observer, episode):
    measured, actions = episode
    belief = observer.start(jnp.asarray(measured[0]))
    for step in range(NUM_STEPS):
        belief = observer.observe(belief, jnp.asarray(actions[step]), jnp.asarray(measured[step + 1])).after
        means, covariance = posterior(measured[: step + 2], actions[: step + 1])
        assert np.allclose(belief.mean, means[-1])
        assert np.allclose(belief.covariance, covariance[-2:, -2:])


def test_log_densities_add_up_to_that_of_the_whole_episode(observer, episode):
    measured, actions = episode
    mean, covariance = whole_episode(measured, actions)
    noise = np.diag(np.tile(MEASUREMENT**2, NUM_STEPS))
    expected = multivariate_normal(mean[2:], covariance[2:, 2:] + noise).logpdf(measured[1:].ravel())
    assert np.allclose(observer.filter(*map(jnp.asarray, episode)).log_density.sum(), expected)


def test_padding_changes_nothing(observer, episode):
    measured, actions = episode
    padded = [jnp.asarray(np.pad(values, ((0, 3), (0, 0)), constant_values=np.nan)) for values in episode]
    smoothed = observer.smooth(*padded, jnp.asarray(NUM_STEPS))
    assert np.allclose(
        smoothed[: NUM_STEPS + 1], observer.smooth(jnp.asarray(measured), jnp.asarray(actions))
    )


def test_units_do_not_matter_in_single_precision(observer, episode):
    units = np.array([1e6, 1e-6])
    model = LinearModel(
        jnp.asarray(TRANSITION * units[:, None] / units, "float32"),
        jnp.asarray(CONTROL * units[:, None], "float32"),
    )
    other = Observer(model, jnp.asarray(MEASUREMENT * units, "float32"), jnp.asarray(STEP * units, "float32"))
    measured, actions = episode
    smoothed = other.smooth(jnp.asarray(measured * units, "float32"), jnp.asarray(actions, "float32"))
    assert np.allclose(
        np.asarray(smoothed) / units, observer.smooth(jnp.asarray(measured), jnp.asarray(actions)), atol=1e-4
    )


def test_exact_measurements_stay_as_they_are(observer, episode):
    measured, actions = map(jnp.asarray, episode)
    exact = Observer(observer.model, 1e-9 * observer.measurement_noise, observer.step_noise)
    assert np.allclose(exact.smooth(measured, actions), measured, atol=1e-9)


def test_steps_without_noise_in_single_precision():
    """The covariance of a prediction is all but singular there, and must not be inverted."""
    size, steps = 8, 200
    rng = np.random.default_rng(0)
    transition = np.outer(*rng.standard_normal((2, size))) / size
    model = LinearModel(jnp.asarray(transition, "float32"), jnp.zeros((size, 1), "float32"))
    observer = Observer(model, jnp.full(size, 0.3, "float32"), jnp.full(size, 1e-4, "float32"))
    measured = jnp.asarray(rng.standard_normal((steps + 1, size)), "float32")
    assert np.isfinite(np.asarray(observer.smooth(measured, jnp.zeros((steps, 1), "float32")))).all()
