import jax
import numpy as np
import pytest

from multistep.data import add_noise
from multistep.errors import InputError
from systems import random_episodes


def test_noise_has_the_asked_deviation_in_each_dimension():
    episodes = random_episodes([20_000, 20_000], state_size=2)
    noisy = add_noise(episodes, [0.02, 0.05], key=jax.random.key(0))
    added = noisy.states - episodes.states
    expected = np.array([0.02, 0.05]) * np.ptp(episodes.states, axis=0)
    np.testing.assert_allclose(added.std(axis=0), expected, rtol=0.02)
    np.testing.assert_allclose(added.mean(axis=0), 0, atol=0.03 * expected.max())
    assert abs(np.corrcoef(added.T)[0, 1]) < 0.02
    assert abs(np.corrcoef(added[1:, 0], added[:-1, 0])[0, 1]) < 0.02
    np.testing.assert_array_equal(noisy.actions, episodes.actions)


def test_same_key_same_noise_and_none_at_scale_zero():
    episodes = random_episodes([50], dtype=np.float32)
    first, again = (add_noise(episodes, 0.02, key=jax.random.key(3)).states for _ in range(2))
    np.testing.assert_array_equal(first, again)
    assert (first != add_noise(episodes, 0.02, key=jax.random.key(4)).states).all()
    assert first.dtype == np.float32
    np.testing.assert_array_equal(add_noise(episodes, 0.0, key=jax.random.key(3)).states, episodes.states)


@pytest.mark.parametrize(
    ("scale", "words"),
    [(-0.1, "0 or more"), (float("nan"), "0 or more"), ([0.1, 0.2], "2 noise scales for 3")],
)
def test_bad_scales_get_one_sentence(scale, words):
    with pytest.raises(InputError, match=words):
        add_noise(random_episodes([5]), scale, key=jax.random.key(0))
