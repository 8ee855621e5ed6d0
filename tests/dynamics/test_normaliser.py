import jax.numpy as jnp
import numpy as np
from sklearn.preprocessing import StandardScaler

from multistep.data import Episodes
from multistep.dynamics import fit_normaliser
from systems import random_episodes


def test_agrees_with_scikit_learn():
    episodes = random_episodes([30, 50])
    states, actions = fit_normaliser(episodes).normalise(episodes)
    np.testing.assert_allclose(states, StandardScaler().fit_transform(episodes.states), atol=1e-12)
    np.testing.assert_allclose(actions, StandardScaler().fit_transform(episodes.actions), atol=1e-12)


def test_restoring_undoes_normalising():
    episodes = random_episodes([30])
    normaliser = fit_normaliser(episodes)
    state = jnp.asarray(episodes.states[3])
    np.testing.assert_allclose(normaliser.restore_state(normaliser.normalise_state(state)), state, rtol=1e-12)


def test_a_constant_column_becomes_zero():
    states = np.stack([np.arange(6.0), np.full(6, 0.1)], axis=1)
    normalised, _ = fit_normaliser(episodes := Episodes.of([(states, np.ones((5, 1)))])).normalise(episodes)
    np.testing.assert_allclose(normalised[:, 1], 0, atol=1e-15)


def test_a_small_signal_on_a_large_offset_survives_single_precision():
    rng = np.random.default_rng(0)
    states = 1e6 + 1e-3 * rng.standard_normal((1000, 1))
    episodes = Episodes.of([(states, np.zeros((999, 1)))])
    normalised, _ = fit_normaliser(episodes).normalise(episodes)
    np.testing.assert_allclose(normalised.std(), 1, rtol=1e-6)
