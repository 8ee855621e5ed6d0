import jax
import jax.numpy as jnp
import numpy as np
import pytest

from multistep.agents.acting import EpisodeJob, act
from multistep.agents.planners import AbstractPlanner
from multistep.tasks import CARTPOLE


@pytest.fixture(autouse=True)
def single_precision():
    with jax.enable_x64(False), jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
        yield


class Counting(AbstractPlanner):
    """Pushes harder at every step, and against the position that it sees."""

    def start(self):
        return jnp.zeros(())

    def decide(self, past, memory, key):
        state = past.states[-1]
        return jnp.clip(0.1 * memory - state[:1], -1, 1), memory + 1


def test_an_episode_is_the_environments_own():
    acted = act(Counting(), CARTPOLE, seed=3, num_steps=20)
    environment = CARTPOLE.make()
    state, _ = environment.reset(seed=3)
    for step in range(20):
        np.testing.assert_allclose(acted.episode.states[step], state, rtol=1e-6)
        np.testing.assert_allclose(
            acted.episode.actions[step], np.clip([0.1 * step - state[0]], -1, 1), atol=1e-6
        )
        state, reward, *_ = environment.step(acted.episode.actions[step])
        assert acted.episode.rewards[step] == pytest.approx(reward, rel=1e-6)
    np.testing.assert_allclose(CARTPOLE.observe(acted.simulator_states), acted.episode.states, atol=1e-6)
    assert acted.total == pytest.approx(acted.episode.rewards.sum(), rel=1e-6)


def test_noise_is_on_what_is_seen_not_on_what_is():
    deviation = np.array([0.1, 0.2, 0.3, 0.4, 0.5])
    acted = act(Counting(), CARTPOLE, seed=0, num_steps=400, noise=deviation)
    errors = acted.episode.states - CARTPOLE.observe(acted.simulator_states)
    np.testing.assert_allclose(errors.std(axis=0), deviation, rtol=0.15)
    again = act(Counting(), CARTPOLE, seed=0, num_steps=400, noise=deviation)
    np.testing.assert_array_equal(acted.episode.states, again.episode.states)


def test_the_row_of_an_episode():
    job = EpisodeJob("planner", "cartpole", 3, num_steps=20)
    row = job.run((Counting(), None))
    assert row["return"] == act(Counting(), CARTPOLE, seed=3, num_steps=20).total
    assert (row["steps"], row["outcome"]) == (20, "finished")
    assert job.labels() == {"planner": "planner", "task": "cartpole", "seed": 3}
