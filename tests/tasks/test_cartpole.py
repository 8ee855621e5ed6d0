import jax
import jax.numpy as jnp
import numpy as np
import pytest

from multistep.data import add_noise
from multistep.tasks import cartpole


@pytest.fixture(scope="module")
def episodes():
    return cartpole.collect_random(4, key=jax.random.key(0), num_steps=300)


def test_episodes_are_those_of_the_environment_itself(episodes):
    """The environment, stepped with the same actions from the same start, sees the same observations and rewards."""
    for number in range(2):
        states, actions, rewards = episodes[number]
        environment = cartpole.load_environment(0)
        environment.reset()
        with environment.physics.reset_context():
            position = cartpole.set_to(states[0])
            environment.physics.data.qpos[:], environment.physics.data.qvel[:] = position[:2], position[2:]
        for step, action in enumerate(actions):
            moment = environment.step(action)
            observed = np.concatenate([moment.observation["position"], moment.observation["velocity"]])
            np.testing.assert_allclose(states[step + 1], observed, atol=2e-4)
            np.testing.assert_allclose(rewards[step], moment.reward, atol=2e-4)


def test_reward_is_that_of_the_environment_at_every_kind_of_state():
    """States all over the space, also upright and fast, where a random policy does not come."""
    environment, rng, worst = cartpole.load_environment(0), np.random.default_rng(0), 0.0
    environment.reset()
    for _ in range(500):
        start = np.array([rng.uniform(-1.5, 1.5), rng.uniform(-np.pi, np.pi), *rng.uniform(-8, 8, 2)])
        environment.reset()
        with environment.physics.reset_context():
            environment.physics.data.qpos[:], environment.physics.data.qvel[:] = start[:2], start[2:]
        action = rng.uniform(-1, 1, 1)
        moment = environment.step(action)
        after = np.concatenate([moment.observation["position"], moment.observation["velocity"]])
        ours = cartpole.reward(jnp.asarray(cartpole.observe(start)), jnp.asarray(action), jnp.asarray(after))
        worst = max(worst, abs(float(ours) - moment.reward))
    assert worst < 1e-12


def test_same_key_same_episodes(episodes):
    again = cartpole.collect_random(4, key=jax.random.key(0), num_steps=300)
    np.testing.assert_array_equal(again.states, episodes.states)
    other = cartpole.collect_random(4, key=jax.random.key(1), num_steps=300)
    assert not np.array_equal(other.states, episodes.states)
    assert (np.abs(episodes.actions) <= 1).all()
    np.testing.assert_allclose(episodes.actions.mean(), 0, atol=0.1)
    np.testing.assert_allclose(episodes.actions.std(), 1 / np.sqrt(3), rtol=0.05)


def test_the_ceiling_without_noise_is_one_and_falls_with_noise(episodes):
    np.testing.assert_allclose(cartpole.ceiling(episodes, horizon=50).r2, 1, atol=1e-6)
    small, large = (cartpole.ceiling(add_noise(episodes, s, key=jax.random.key(1)), horizon=50).r2bar() for s in (0.01, 0.05))
    assert large < small < 0.999


def test_observing_undoes_setting():
    states = np.random.default_rng(0).uniform(-1, 1, (10, 4))
    np.testing.assert_allclose(cartpole.set_to(cartpole.observe(states)), states, atol=1e-12)
