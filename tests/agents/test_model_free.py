from dataclasses import replace

import gymnasium
import jax
import numpy as np
import pytest

from multistep.agents import model_free
from multistep.errors import InputError
from multistep.tasks import HALFCHEETAH
from multistep.tasks.simulator import without_warnings

STEPS = 60


def load():
    with without_warnings():
        return gymnasium.make("HalfCheetah-v5", max_episode_steps=STEPS)


SHORT = replace(HALFCHEETAH, episode_steps=STEPS, load=load)
pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning"),  # of torch and flax
]


@pytest.fixture(autouse=True)
def single_precision():
    """Agents are sbx's own, which computes in single precision and mixes types."""
    with jax.enable_x64(False), jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
        yield


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    with jax.enable_x64(False), jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
        steps = []
        folder = tmp_path_factory.mktemp("whole")
        agent, episodes = model_free.train(
            SHORT, num_episodes=4, seed=1, folder=folder, stage_episodes=2, on_steps=steps.append
        )
    return agent, episodes, steps


def test_the_buffer_is_whole_episodes_of_the_real_environment(trained):
    _, episodes, steps = trained
    np.testing.assert_array_equal(episodes.lengths, [STEPS] * 4)
    assert steps == [0, *range(1, 4 * STEPS + 1)]
    assert np.abs(episodes.actions).max() <= 1
    # What the agent was paid is what the environment pays for what it observed (see the approximation of
    # `reward`).
    parts = [episodes[number] for number in range(4)]
    before, after = (
        np.concatenate([part.states[where] for part in parts]) for where in (slice(-1), slice(1, None))
    )
    ours = jax.vmap(HALFCHEETAH.reward)(before, episodes.actions, after)
    assert np.corrcoef(np.asarray(ours), episodes.rewards)[0, 1] > 0.9
    # Each episode starts anew: near the ground, at rest, and not like the one before.
    starts = np.stack([episodes[number].states[0] for number in range(4)])
    assert np.abs(starts).max() < 0.6
    assert len(np.unique(starts, axis=0)) == 4


def test_a_killed_training_goes_on_with_the_same_bits(trained, tmp_path):
    agent, episodes, _ = trained
    model_free.train(SHORT, num_episodes=2, seed=1, folder=tmp_path, stage_episodes=2)
    (tmp_path / ".writing_half").mkdir()  # as a kill while writing would leave
    resumed_at = []
    resumed, again = model_free.train(
        SHORT, num_episodes=4, seed=1, folder=tmp_path, stage_episodes=2, on_steps=resumed_at.append
    )
    assert resumed_at[0] == 2 * STEPS
    np.testing.assert_array_equal(again.states, episodes.states)
    np.testing.assert_array_equal(again.rewards, episodes.rewards)
    assert [entry.name for entry in tmp_path.iterdir()] == ["stage_0002"]
    mine, theirs = (
        model_free.act_side_by_side(who, SHORT, num_episodes=2, seed=0) for who in (resumed, agent)
    )
    np.testing.assert_array_equal(mine.states, theirs.states)
    assert not np.array_equal(mine[0].actions, mine[1].actions)


def test_bad_numbers_of_episodes(trained, tmp_path):
    with pytest.raises(InputError, match="stages of 10 episodes: 15 is no multiple"):
        model_free.train(SHORT, num_episodes=15, seed=0, folder=tmp_path)
