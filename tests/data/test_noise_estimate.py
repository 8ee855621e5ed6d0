import jax
import numpy as np
import pytest

from multistep.data import add_noise
from multistep.data.noise_estimate import estimate_noise
from multistep.tasks import CARTPOLE, HALFCHEETAH
from systems import oscillator_episodes, random_episodes


def shares(episodes):
    """Estimates in units of each state's range."""
    return estimate_noise(episodes.states, episodes.actions, episodes.lengths) / np.ptp(
        episodes.states, axis=0
    )


@pytest.mark.parametrize("noise", [0.01, 0.1, 0.5])
def test_known_noise_on_a_linear_system_that_is_pushed_at_random(noise):
    episodes = oscillator_episodes(20, 500, noise=noise)
    np.testing.assert_allclose(
        estimate_noise(episodes.states, episodes.actions, episodes.lengths), noise, rtol=0.05
    )


def test_no_noise_on_a_linear_system():
    episodes = oscillator_episodes(20, 500)
    assert (shares(episodes) < 1e-6).all()


@pytest.mark.parametrize("scale", [0.01, 0.02, 0.05])
def test_known_noise_on_cartpole(scale):
    clean = CARTPOLE.collect_random(10, key=jax.random.key(0))
    noisy = add_noise(clean, scale, key=jax.random.key(1))
    added = (noisy.states - clean.states).std(axis=0)
    estimated = estimate_noise(noisy.states, noisy.actions, noisy.lengths)
    np.testing.assert_allclose(estimated, added, rtol=0.05)


def test_each_dimension_has_its_own():
    clean = CARTPOLE.collect_random(10, key=jax.random.key(0))
    scales = np.array([0.0, 0.01, 0.02, 0.03, 0.05])
    noisy = add_noise(clean, scales.tolist(), key=jax.random.key(1))
    estimated = estimate_noise(noisy.states, noisy.actions, noisy.lengths) / np.ptp(clean.states, axis=0)
    np.testing.assert_allclose(estimated, scales, atol=0.002)


def test_where_the_dynamics_are_rough_it_is_an_upper_bound():
    clean = HALFCHEETAH.collect_random(10, key=jax.random.key(0))
    noisy = add_noise(clean, 0.02, key=jax.random.key(1))
    added = (noisy.states - clean.states).std(axis=0)
    ratio = estimate_noise(noisy.states, noisy.actions, noisy.lengths) / added
    assert (ratio > 0.93).all()
    assert np.median(ratio) < 2


def test_missing_values_constants_and_too_little_data():
    episodes = oscillator_episodes(20, 500, noise=0.1)
    states = np.concatenate([episodes.states, np.ones((len(episodes.states), 1))], axis=1)
    states[::50, 0] = np.nan
    estimated = estimate_noise(states, episodes.actions, episodes.lengths)
    np.testing.assert_allclose(estimated, [0.1, 0.1, 0], rtol=0.05, atol=1e-9)
    short = random_episodes([3, 2])
    assert np.isnan(estimate_noise(short.states, short.actions, short.lengths)).all()
