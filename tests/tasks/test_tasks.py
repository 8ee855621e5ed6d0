"""One battery for every task."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from multistep.data import add_noise
from multistep.errors import InputError
from multistep.tasks import CARTPOLE, HALFCHEETAH, SWIMMER

TASKS = [CARTPOLE, SWIMMER, HALFCHEETAH]


@pytest.fixture(scope="module", params=TASKS, ids=lambda task: task.name)
def task(request):
    return request.param


@pytest.fixture(scope="module")
def episodes(task):
    return task.collect_random(3, key=jax.random.key(0), num_steps=300)


def test_episodes_are_those_of_the_environment_itself(task, episodes):
    """The environment, reset with the same seed and stepped with the same actions, sees the same and pays the
    same."""
    seed_key, _ = jax.random.split(jax.random.key(0))
    environment = task.make()
    observation, _ = environment.reset(seed=int(jax.random.randint(seed_key, (), 0, 2**31 - 1)))
    for number in range(len(episodes)):
        states, actions, rewards = episodes[number]
        for step, action in enumerate(actions):
            np.testing.assert_array_equal(states[step], observation.astype(np.float32))
            observation, reward, *_ = environment.step(action)
            np.testing.assert_allclose(rewards[step], reward, atol=1e-6)
        observation, _ = environment.reset()


def test_an_episode_ends_by_time(task):
    environment = task.make()
    environment.reset(seed=0)
    ends = [environment.step(environment.action_space.sample())[2:4] for _ in range(task.episode_steps)]
    assert ends[-1] == (False, True)
    assert not any(any(end) for end in ends[:-1])


# The distance covered, which Swimmer and HalfCheetah are paid for, is not observed: the mean of the
# velocities stands for it.
@pytest.mark.parametrize(
    ("task", "smallest_r2", "largest_error"),
    [(CARTPOLE, 1 - 1e-12, 1e-6), (SWIMMER, 0.997, np.inf), (HALFCHEETAH, 0.91, np.inf)],
    ids=lambda value: getattr(value, "name", ""),
)
def test_reward_of_observations_against_the_environment_on_10000_steps(task, smallest_r2, largest_error):
    environment, rng = task.make(), np.random.default_rng(0)
    steps, theirs = [], []
    observation, _ = environment.reset(seed=1)
    for step in range(10_000):
        action = rng.uniform(-1, 1, len(task.action_names))
        following, reward, _, truncated, _ = environment.step(action)
        steps.append((observation, action, following))
        theirs.append(reward)
        observation = environment.reset()[0] if truncated else following
        assert step < 999 or truncated == (step % 1000 == 999)
    ours = np.asarray(
        jax.jit(jax.vmap(task.reward))(*(jnp.asarray(np.stack(part)) for part in zip(*steps, strict=True)))
    )
    errors = ours - np.array(theirs)
    assert np.abs(errors).max() <= largest_error
    assert 1 - np.mean(errors**2) / np.var(theirs) >= smallest_r2


def test_the_simulator_can_be_set_to_what_was_observed(task):
    """From each observation on, the simulator does what the environment did (up to where its contact solver
    starts from)."""
    episodes = task.collect_random(1, key=jax.random.key(3), num_steps=50)
    scores = task.ceiling(episodes, horizon=1)
    np.testing.assert_allclose(scores.r2, 1, atol=1e-6 if task is not HALFCHEETAH else 5e-3)


def test_observing_undoes_setting(task, episodes):
    states = episodes.states.astype(np.float64)
    np.testing.assert_allclose(task.observe(task.simulator_states_of(states)), states, atol=1e-6)


def test_same_key_same_episodes(task, episodes):
    again = task.collect_random(3, key=jax.random.key(0), num_steps=300)
    np.testing.assert_array_equal(again.states, episodes.states)
    other = task.collect_random(3, key=jax.random.key(1), num_steps=300)
    assert not np.array_equal(other.states, episodes.states)
    np.testing.assert_allclose(episodes.actions.mean(), 0, atol=0.1)
    np.testing.assert_allclose(episodes.actions.std(), 1 / np.sqrt(3), rtol=0.05)
    with pytest.raises(InputError, match="collect at least 1"):
        task.collect_random(0, key=jax.random.key(0))


def test_the_ceiling_falls_with_noise(task, episodes):
    scores = [
        task.ceiling(add_noise(episodes, s, key=jax.random.key(1)), horizon=20).r2bar()
        for s in (0.0, 0.01, 0.05)
    ]
    assert scores[0] > (0.9999 if task is not HALFCHEETAH else 0.95)
    assert scores[2] < scores[1] < scores[0]


def test_a_simulation_that_blows_up_says_nothing_and_leaves_no_file(task, tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    episodes = task.collect_random(1, key=jax.random.key(0), num_steps=20)
    wild = episodes.with_states(episodes.states * np.float32(1e9))
    task.ceiling(wild, horizon=5)
    assert list(tmp_path.iterdir()) == []
    assert "WARNING" not in "".join(capfd.readouterr())


def test_names_are_of_the_right_number_and_all_different(task):
    environment = task.make()
    assert environment.observation_space.shape == (len(task.state_names),)
    assert environment.action_space.shape == (len(task.action_names),)
    assert len({*task.state_names, *task.action_names}) == len(task.state_names) + len(task.action_names)
