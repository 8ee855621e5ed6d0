import warnings
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from multistep.agents.imagination import imagination_digest, imagine
from multistep.agents.model_env import ModelEnv, SingleModelEnv
from multistep.dynamics import Normaliser, Uncertainty, in_units, particles_of
from multistep.dynamics.ensemble import Averaged
from multistep.dynamics.uncertainty import normal_scales
from multistep.errors import InputError
from systems import ExplodingModel, LinearModel, random_episodes

TRANSITION, CONTROL = np.array([[0.9, 0.1], [-0.2, 0.8]]), np.array([[0.5], [1.0]])


@pytest.fixture(autouse=True)
def single_precision():
    """Environments are in single precision, as RL libraries expect."""
    with jax.enable_x64(False), jax.numpy_dtype_promotion("standard"):
        yield


def linear_model(scale=1.0):
    return LinearModel(jnp.asarray(scale * TRANSITION, jnp.float32), jnp.asarray(CONTROL, jnp.float32))


def reward(state, action, next_state):
    return state[0] - 2 * action[0] + 3 * next_state[1]


@pytest.fixture
def starts():
    drawn = random_episodes([20, 30], state_size=2, action_size=1, dtype=np.float32)
    return replace(drawn, actions=np.clip(drawn.actions, -1, 1))


def test_a_step_is_the_models_step_with_its_reward(starts):
    env = ModelEnv(linear_model(), reward, starts, num_envs=7, margin=100.0)
    before, _ = env.reset(seed=3)
    actions = np.linspace(-1, 1, 7, dtype=np.float32)[:, None]
    after, rewards, left, truncated, infos = env.step(actions)
    expected = before @ TRANSITION.T + actions @ CONTROL.T
    np.testing.assert_allclose(after, expected, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(
        rewards, before[:, 0] - 2 * actions[:, 0] + 3 * expected[:, 1], rtol=1e-5, atol=1e-5
    )
    assert not left.any()
    assert not truncated.any()
    assert infos == {}
    assert after.dtype == rewards.dtype == np.float32


@pytest.mark.parametrize("array", [np.asarray, jnp.asarray])
@pytest.mark.parametrize("wrap", [jax.jit, lambda function: function])
def test_a_reward_with_another_constant_is_another_one(array, wrap, starts):
    def fingerprint(goal):
        goal = array(goal)
        return imagination_digest(
            imagine(linear_model(), wrap(lambda s, a, n: 100 + ((n - goal) ** 2).sum()), starts)
        )

    assert fingerprint([1.0, 2.0]) == fingerprint([1.0, 2.0])
    assert fingerprint([1.0, 2.0]) != fingerprint([30.0, -4.0])


def test_starts_are_states_of_the_data_drawn_evenly(starts):
    env = ModelEnv(linear_model(), reward, starts, num_envs=5200)
    states, _ = env.reset(seed=0)
    rows, counts = np.unique(states, axis=0, return_counts=True)
    np.testing.assert_array_equal(rows, np.unique(starts.states, axis=0))
    assert len(rows) == 52
    assert ((counts - 100) ** 2 / 100).sum() < 85.4  # chi-squared with 51 degrees of freedom, 0.2 % level


def test_the_seed_decides(starts):
    env = ModelEnv(linear_model(), reward, starts, num_envs=5)
    first, again, other = (env.reset(seed=seed)[0] for seed in (1, 1, 2))
    np.testing.assert_array_equal(first, again)
    assert (first != other).any()
    assert (env.reset()[0] != env.reset()[0]).any()


def test_rollouts_are_truncated_and_start_anew_in_the_same_step(starts):
    env = ModelEnv(linear_model(0.5), reward, starts, num_envs=4, rollout_steps=3, margin=100.0)
    before, _ = env.reset(seed=0)
    zero = np.zeros((4, 1), np.float32)
    for _ in range(2):
        before, _, _, truncated, _ = env.step(zero)
        assert not truncated.any()
    states, _, left, truncated, infos = env.step(zero)
    assert truncated.all()
    assert not left.any()
    np.testing.assert_allclose(infos["final_obs"], before @ (0.5 * TRANSITION).T, rtol=1e-5)
    assert all((starts.states == state).all(axis=1).any() for state in states)
    assert (env.num_ended, env.num_left) == (4, 0)


@pytest.mark.parametrize("model", [ExplodingModel(), linear_model(float("nan"))])
def test_what_leaves_the_range_is_ended_there_and_counted(starts, model):
    env = ModelEnv(model, reward, starts, num_envs=6, margin=0.25)
    env.reset(seed=0)
    _, rewards, left, truncated, infos = env.step(np.zeros((6, 1), np.float32))
    assert left.all()
    assert not truncated.any()
    assert env.num_left == env.num_ended == 6
    low, high = starts.states.min(axis=0), starts.states.max(axis=0)
    np.testing.assert_allclose(env.single_observation_space.low, low - 0.25 * (high - low), rtol=1e-5)
    np.testing.assert_allclose(env.single_observation_space.high, high + 0.25 * (high - low), rtol=1e-5)
    assert all(env.single_observation_space.contains(state) for state in infos["final_obs"])
    assert np.isfinite(rewards).all()


def test_members_of_an_ensemble_share_the_rollouts(starts):
    env = ModelEnv([linear_model(1.0), linear_model(0.5)], reward, starts, num_envs=6, margin=100.0)
    before, _ = env.reset(seed=0)
    after, *_ = env.step(np.zeros((6, 1), np.float32))
    np.testing.assert_allclose(after[:3], before[:3] @ TRANSITION.T, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(after[3:], 0.5 * before[3:] @ TRANSITION.T, rtol=1e-5, atol=1e-6)


def test_the_checkers_of_gymnasium_and_stable_baselines(starts):
    from stable_baselines3.common.env_checker import check_env as check_for_baselines

    env = SingleModelEnv(linear_model(), reward, starts, rollout_steps=20)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_env(env, skip_render_check=True)
        check_for_baselines(env)


def test_stable_baselines_sees_the_same_steps(starts):
    from multistep.agents.model_vec_env import ModelVecEnv

    plain, adapted = (ModelEnv(linear_model(), reward, starts, num_envs=4, rollout_steps=3) for _ in range(2))
    vector = ModelVecEnv(adapted)
    vector.seed(5)
    np.testing.assert_array_equal(vector.reset(), plain.reset(seed=5)[0])
    total = np.zeros(4)
    for _ in range(3):
        actions = np.full((4, 1), 0.5, np.float32)
        states, rewards, left, truncated, infos = plain.step(actions)
        adapted_states, adapted_rewards, dones, adapted_infos = vector.step(actions)
        np.testing.assert_array_equal(states, adapted_states)
        np.testing.assert_array_equal(rewards, adapted_rewards)
        np.testing.assert_array_equal(dones, left | truncated)
        total += rewards
        for number in np.flatnonzero(dones):
            np.testing.assert_array_equal(
                adapted_infos[number]["terminal_observation"], infos["final_obs"][number]
            )
            assert adapted_infos[number]["TimeLimit.truncated"] == (not left[number])
            assert adapted_infos[number]["episode"]["r"] == pytest.approx(total[number], rel=1e-5)
        total[dones] = 0


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda s, a, n: s, r"must return one number .* but returned \(2,\)"),
        (lambda s, a, n: jnp.log(s[0] * 0 - 1), "is nan at step 1 of the data"),
        (lambda s, a: s[0], "cannot be used in compiled code"),
        (lambda s, a, n: float(s[0]), "cannot be used in compiled code"),
    ],
)
def test_wrong_rewards_are_refused(starts, wrong, message):
    with pytest.raises(InputError, match=message):
        ModelEnv(linear_model(), wrong, starts)


def test_models_that_do_not_go_together_are_refused(starts):
    wide = LinearModel(jnp.zeros((3, 3), jnp.float32), jnp.zeros((3, 1), jnp.float32))
    with pytest.raises(InputError, match="The models of an ensemble must have networks of the same shape"):
        ModelEnv([linear_model(), wide], reward, starts)


def test_wrong_sizes_are_refused(starts):
    with pytest.raises(InputError, match="0 environments"):
        ModelEnv(linear_model(), reward, starts, num_envs=0)
    with pytest.raises(InputError, match="Rollouts of 0 steps"):
        ModelEnv(linear_model(), reward, starts, rollout_steps=0)
    with pytest.raises(InputError, match="no model to roll out"):
        ModelEnv([], reward, starts)


def averaged(*scales):
    return Averaged(tuple(linear_model(scale) for scale in scales))


def test_each_rollout_keeps_its_member_of_an_ensemble(starts):
    env = ModelEnv(averaged(1.0, 0.5), reward, starts, num_envs=5, margin=100.0)
    before, _ = env.reset(seed=3)
    now, scales = before, np.array([1, 1, 1, 0.5, 0.5])[:, None]
    for _ in range(3):  # five rollouts in two members: three and two
        actions = np.full((5, 1), 0.3, np.float32)
        now = scales * (now @ TRANSITION.T) + actions @ CONTROL.T
        after, *_ = env.step(actions)
        np.testing.assert_allclose(after, now, rtol=1e-5, atol=1e-5)


def test_a_penalty_is_the_members_disagreement_in_widths_of_the_range(starts):
    given = {"num_envs": 4, "margin": 100.0}
    free, charged = (
        ModelEnv(averaged(1.0, 0.5), reward, starts, **given, penalty=penalty) for penalty in (0.0, 2.0)
    )
    before, _ = free.reset(seed=3)
    charged.reset(seed=3)
    actions = np.linspace(-1, 1, 4, dtype=np.float32)[:, None]
    half = 0.25 * before @ TRANSITION.T  # of two members each is half of the difference from their mean
    width = np.asarray(charged.imagination.high - charged.imagination.low)
    doubt = np.sqrt(((half / width) ** 2).mean(axis=1))
    difference = free.step(actions)[1] - charged.step(actions)[1]
    np.testing.assert_allclose(difference, 2 * doubt, rtol=1e-3, atol=1e-5)
    with pytest.raises(InputError, match="members that can disagree"):
        ModelEnv(linear_model(), reward, starts, penalty=1.0)
    with pytest.raises(InputError, match="0 or more"):
        ModelEnv(averaged(1.0, 0.5), reward, starts, penalty=-1.0)


def test_particles_are_off_by_the_steps_noise_anew_from_every_start(starts):
    nothing = jnp.zeros(2)
    known = Uncertainty(
        nothing, jnp.array([0.1, 0.3]), jnp.zeros((1, 2)), normal_scales(1, 2), nothing.sum(), 4, 1
    )
    units = Normaliser(np.zeros(2), np.ones(2), np.zeros(1), np.ones(1))
    model = replace(in_units(averaged(1.0, 1.0), units, ("a", "b"), ("u",)), uncertainty=known)
    particles = particles_of(model, 8, key=jax.random.key(0))
    env = ModelEnv(particles, reward, starts, num_envs=4000, margin=100.0)
    before, _ = env.reset(seed=3)
    actions = np.zeros((4000, 1), np.float32)
    after = env.step(actions)[0]
    errors = after - before @ TRANSITION.T
    chosen = np.unique(before, axis=0, return_index=True)[1]  # the same start is the same future
    assert len(chosen) > 40
    np.testing.assert_allclose(errors.std(axis=0), [0.1, 0.3], rtol=0.25)
    np.testing.assert_allclose(errors.mean(axis=0), 0, atol=0.08)
    again = ModelEnv(particles, reward, starts, num_envs=4000, margin=100.0)
    again.reset(seed=3)
    np.testing.assert_array_equal(again.step(actions)[0], after)
    with pytest.raises(InputError, match="0 particles"):
        particles_of(model, 0, key=jax.random.key(0))
    with pytest.raises(InputError, match="does not know how far"):
        particles_of(replace(model, uncertainty=None), 3, key=jax.random.key(0))
