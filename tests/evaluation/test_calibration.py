import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import norm

from multistep.data import Episodes
from multistep.dynamics import Uncertainty
from multistep.dynamics.uncertainty import normal_scales
from multistep.errors import InputError
from multistep.evaluation.calibration import calibration
from systems import LinearModel

TRANSITION = np.array([[0.99, 0.1], [-0.1, 0.97]])
CONTROL = np.array([[0.0], [0.1]])
NOISE = np.array([0.05, 0.1])


def noisy(num_episodes=12, steps=80, seed=0):
    rng = np.random.default_rng(seed)
    parts = []
    for _ in range(num_episodes):
        actions, states = rng.uniform(-1, 1, (steps, 1)), [rng.standard_normal(2)]
        for action in actions:
            states.append(TRANSITION @ states[-1] + CONTROL @ action)
        parts.append((np.array(states) + NOISE * rng.standard_normal((steps + 1, 2)), actions))
    return Episodes.of(parts)


def known(factor=1.0, steps=20, num_past=1):
    nothing = jnp.zeros(2)
    rest = jnp.zeros((steps, 2))
    return Uncertainty(
        jnp.asarray(factor * NOISE), nothing, rest, normal_scales(steps, 2), jnp.zeros(()), 0, num_past
    )


@pytest.fixture(scope="module")
def model():
    return LinearModel(jnp.asarray(TRANSITION), jnp.asarray(CONTROL))


def covariances(steps):
    found = np.diag(NOISE**2)
    for _ in range(steps):
        found = TRANSITION @ found @ TRANSITION.T
        yield found


def test_intervals_of_a_known_system_cover_what_they_promise(model):
    found = calibration(model, known(), noisy(), horizon=10, key=jax.random.key(0))
    assert found.horizon == 10
    for share, coverage in found.coverage.items():
        np.testing.assert_allclose(coverage, share, atol=0.08)
        assert abs(coverage.mean() - share) < 0.03
    deviation = np.sqrt([np.diag(each) + NOISE**2 for each in covariances(10)])
    np.testing.assert_allclose(found.width[0.9], 2 * norm.ppf(0.95) * deviation, rtol=0.05)
    # Of a normal distribution: the score is the deviation over the root of pi.
    np.testing.assert_allclose(found.crps, deviation / np.sqrt(np.pi), rtol=0.1)
    expected = -0.5 * np.log(2 * np.pi * np.e * deviation**2)
    np.testing.assert_allclose(found.log_likelihood, expected, atol=0.15)


def test_intervals_that_are_too_narrow_are_found_out(model):
    half = calibration(model, known(0.5), noisy(), horizon=5, key=jax.random.key(0))
    expected = 1 - 2 * norm.sf(0.5 * norm.ppf(0.95))
    np.testing.assert_allclose(half.coverage[0.9], expected, atol=0.06)
    honest = calibration(model, known(), noisy(), horizon=5, key=jax.random.key(0))
    assert (half.crps > honest.crps).all()
    assert (half.log_likelihood < honest.log_likelihood).all()
    assert (half.energy > honest.energy).all()


def test_episodes_that_are_too_short_are_refused(model):
    with pytest.raises(InputError, match="20 steps after 4 measurements"):
        calibration(model, known(num_past=4), noisy(2, 10), horizon=20, key=jax.random.key(0))
