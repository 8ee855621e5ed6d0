import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from multistep.tasks.cartpole import CARTPOLE, observe, reward


def test_reward_is_that_of_the_environment_at_every_kind_of_state():
    """States all over the space, also upright and fast, where a random policy does not come."""
    environment, rng, worst = CARTPOLE.make(), np.random.default_rng(0), 0.0
    environment.reset(seed=0)
    for _ in range(500):
        start = np.array([rng.uniform(-1.5, 1.5), rng.uniform(-np.pi, np.pi), *rng.uniform(-8, 8, 2)])
        environment.reset()
        environment.unwrapped.data.qpos[:], environment.unwrapped.data.qvel[:] = start[:2], start[2:]
        action = rng.uniform(-1, 1, 1)
        after, theirs, *_ = environment.step(action)
        ours = reward(jnp.asarray(observe(start)), jnp.asarray(action), jnp.asarray(after))
        worst = max(worst, abs(float(ours) - theirs))
    assert worst < 1e-12


def test_the_printed_reward_with_the_velocity_of_the_cart_is_wrong():
    """The paper prints x_dot in the last factor: with it the reward differs, with theta_dot it does not."""
    episodes = CARTPOLE.collect_random(1, key=jax.random.key(0), num_steps=300)
    states, actions, rewards = episodes[0]
    swapped = states[:, [0, 1, 2, 4, 3]]
    printed = jax.vmap(reward)(*map(jnp.asarray, (swapped[:-1], actions, swapped[1:])))
    assert np.abs(np.asarray(printed) - rewards).max() > 1e-3


@pytest.mark.filterwarnings(
    "ignore:.*A Box observation space"
)  # has no bounds, like Gymnasium's own of this kind
def test_the_environment_passes_gymnasiums_own_checks():
    check_env(CARTPOLE.make(), skip_render_check=True)
