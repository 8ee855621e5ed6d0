from dataclasses import replace

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from multistep.agents.agent_files import load_agent
from multistep.agents.imagination import imagination_digest, imagine
from multistep.agents.model_based import train_on_model
from multistep.agents.model_env import ModelEnv
from multistep.agents.planners import CrossEntropy, PolicyGuided, RandomShooting, decide, sequence_returns
from multistep.agents.policy import policy_of
from multistep.errors import InputError
from systems import LinearModel, random_episodes

# Of torch, flax and what they import.
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")
TRANSITION, CONTROL = np.array([[1.0, 0.3], [0.0, 0.9]]), np.array([[0.0], [0.5]])


@pytest.fixture(autouse=True)
def single_precision():
    """Agents are in single precision, as sbx is."""
    with jax.enable_x64(False), jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
        yield


def reward(state, action, next_state):
    return -(next_state[0] ** 2) - 0.1 * next_state[1] ** 2 - 0.01 * action[0] ** 2


@pytest.fixture
def starts():
    drawn = random_episodes([50], state_size=2, action_size=1, dtype=np.float32)
    return replace(drawn, actions=np.clip(drawn.actions, -1, 1))


@pytest.fixture
def imagination(starts):
    model = LinearModel(jnp.asarray(TRANSITION, jnp.float32), jnp.asarray(CONTROL, jnp.float32))
    return imagine(model, reward, starts, margin=10.0)


def return_of(state, actions):
    """Sum of rewards by a loop."""
    total = 0.0
    for action in actions:
        state = TRANSITION @ state + CONTROL @ action
        total += -(state[0] ** 2) - 0.1 * state[1] ** 2 - 0.01 * action[0] ** 2
    return total


def test_returns_of_sequences_are_sums_of_rewards(imagination):
    rng = np.random.default_rng(0)
    state, sequences = rng.normal(size=2), rng.uniform(-1, 1, (5, 4, 1))
    found = sequence_returns(
        imagination, jnp.asarray(state, jnp.float32), jnp.asarray(sequences, jnp.float32)
    )
    np.testing.assert_allclose(found, [return_of(state, actions) for actions in sequences], rtol=1e-4)


def test_a_sequence_earns_nothing_after_it_has_left_the_range(starts):
    model = LinearModel(jnp.asarray(3 * np.eye(2), jnp.float32), jnp.zeros((2, 1), jnp.float32))
    narrow = imagine(model, lambda s, a, n: jnp.ones(()), starts, margin=0.0)
    state = jnp.asarray(starts.states.max(axis=0) / 10)  # inside after one and two steps, out after three
    assert sequence_returns(narrow, state, jnp.zeros((1, 6, 1)))[0] == 3


def test_actions_beyond_one_are_chosen_within_the_range_of_the_data(starts):
    """The best constant push to x' = 7 for a plant that takes 0 to 10 volts."""
    volts = replace(starts, actions=5 + 5 * starts.actions)
    model = LinearModel(jnp.zeros((2, 2), jnp.float32), jnp.ones((2, 1), jnp.float32))
    imagined = imagine(model, lambda s, a, n: -((n[0] - 7) ** 2), volts, margin=10.0)
    low, high = volts.actions.min(), volts.actions.max()
    np.testing.assert_allclose(
        imagined.in_range(jnp.array([-1.0, 0.0, 1.0])[:, None])[:, 0], [low, (low + high) / 2, high]
    )
    for planner in (RandomShooting(imagined, horizon=1), CrossEntropy(imagined, horizon=1)):
        action, _ = decide(planner, jnp.zeros(2), planner.start(), jax.random.key(0))
        np.testing.assert_allclose(action, [7], atol=0.1)
    env = ModelEnv(model, lambda s, a, n: n[0], volts, num_envs=2, margin=10.0)
    env.reset(seed=0)
    np.testing.assert_allclose(env.step(np.array([[3.0], [99.0]], np.float32))[1], [3, high])


def test_actions_are_chosen_within_a_range_of_the_users_own(starts):
    """Logged within -1 and 1, but the actuator ends at 0.2."""
    model = LinearModel(jnp.zeros((2, 2), jnp.float32), jnp.ones((2, 1), jnp.float32))
    imagined = imagine(model, lambda s, a, n: n[0], starts, margin=10.0, action_range=(-0.1, [0.2]))
    planner = CrossEntropy(imagined, num_sequences=20, horizon=1)  # fewer sequences than it would take elites
    action, _ = decide(planner, jnp.zeros(2), planner.start(), jax.random.key(0))
    np.testing.assert_allclose(action, [0.2], atol=1e-3)
    space = ModelEnv(model, reward, starts, num_envs=2, action_range=(-0.1, 0.2)).single_action_space
    np.testing.assert_allclose([space.low, space.high], [[-0.1], [0.2]])
    for wrong, message in {
        (0.2, -0.1): "the lowest must be below the highest",
        (0.0, float("inf")): "and both finite",
        ((0.0, 1.0), 2.0): "one number for all or one for each of action_0",
    }.items():
        with pytest.raises(InputError, match=message):
            imagine(model, reward, starts, action_range=wrong)


def test_a_learned_reward_can_be_earned(starts):
    """Its weights are arrays: trained further, nothing is compiled anew, and the fingerprint is another."""
    model = LinearModel(jnp.asarray(TRANSITION, jnp.float32), jnp.asarray(CONTROL, jnp.float32))

    class Learned(eqx.Module):
        network: eqx.nn.MLP

        def __call__(self, state, action, next_state):
            return self.network(jnp.concatenate([state, action, next_state]))

    first, further = (Learned(eqx.nn.MLP(5, "scalar", 8, 1, key=jax.random.key(seed))) for seed in (0, 1))
    imagined = [imagine(model, learned, starts, margin=10.0) for learned in (first, further)]
    assert imagination_digest(imagined[0]) != imagination_digest(imagined[1])
    before = np.asarray(starts.states[:3])
    actions = np.array([[0.5], [-0.5], [0.0]], np.float32)
    after = before @ TRANSITION.T + actions @ CONTROL.T
    for learned, inside in zip((first, further), imagined, strict=True):
        states = jnp.asarray(before)
        rewards = inside.try_actions(states, states, jnp.asarray(actions)).rewards
        expected = [
            learned(*map(jnp.asarray, moment))
            for moment in zip(before, actions, after.astype(np.float32), strict=True)
        ]
        np.testing.assert_allclose(rewards, expected, rtol=1e-4, atol=1e-5)
    env = ModelEnv(model, first, starts, num_envs=3, margin=10.0)
    env.reset(seed=0)
    assert np.isfinite(env.step(actions)[1]).all()


def test_an_action_that_never_changes_is_refused(starts):
    stuck = replace(starts, actions=np.full_like(starts.actions, 2.0))
    model = LinearModel(jnp.zeros((2, 2), jnp.float32), jnp.ones((2, 1), jnp.float32))
    with pytest.raises(InputError, match=r"The action .* is the same in all of the data"):
        imagine(model, reward, stuck)


def test_leaving_the_range_never_pays(starts):
    """Costs, and an action that throws the state out of the range: ending there must be worse than
    staying."""
    model = LinearModel(jnp.eye(2, dtype=jnp.float32), 100 * jnp.ones((2, 1), jnp.float32))

    def cost(state, action, next_state):
        return -jnp.abs(next_state[0]) - 1.0

    imagined = imagine(model, cost, starts, margin=0.5, rollout_steps=10)
    lowest = float(-abs(starts.states[1:, 0]).max() - 1)
    assert float(imagined.worst_reward) == pytest.approx(lowest, rel=1e-6)
    stay, leave = jnp.zeros((1, 4, 1)), jnp.ones((1, 4, 1))
    staying, leaving = sequence_returns(imagined, jnp.zeros(2), jnp.concatenate([stay, leave]))
    edge = float(imagined.high[0])
    assert -edge - 1 < lowest  # the range is wider than the data: its edge costs more than any of these
    assert float(staying) == pytest.approx(-4)
    assert float(leaving) == pytest.approx(4 * (-edge - 1), rel=1e-5)
    close = jnp.array([edge, 0.0]) * 0.999
    staying, leaving = sequence_returns(imagined, close, jnp.concatenate([stay, leave]))
    assert float(leaving) < float(staying) < 4 * lowest
    env = ModelEnv(model, cost, starts, num_envs=2, margin=0.5, rollout_steps=10)
    for age in (0, 8, 9):  # the last steps of a rollout cost as much to leave in as the first
        env.reset(seed=0)
        for _ in range(age):
            env.step(np.zeros((2, 1), np.float32))
        _, rewards, left, *_ = env.step(np.ones((2, 1), np.float32))
        assert left.all()
        np.testing.assert_allclose(rewards, 101 * (-edge - 1), rtol=1e-5)
    worst_of_staying = (-edge - 1) / (1 - 0.99)  # SAC takes a truncated rollout to go on for ever
    assert (rewards < worst_of_staying).all()


def test_where_no_reward_is_negative_leaving_earns_nothing_more(starts):
    model = LinearModel(jnp.eye(2, dtype=jnp.float32), 100 * jnp.ones((2, 1), jnp.float32))
    imagined = imagine(model, lambda s, a, n: jnp.abs(n[0]) + 1, starts, margin=0.1)
    assert float(sequence_returns(imagined, jnp.zeros(2), jnp.ones((1, 4, 1)))[0]) == pytest.approx(
        float(imagined.high[0]) + 1
    )


def test_an_ensemble_is_planned_with_by_its_mean(starts):
    """Two models that move the state to opposite sides: what one gains the other loses."""
    one, other = (
        LinearModel(jnp.zeros((2, 2), jnp.float32), sign * jnp.ones((2, 1), jnp.float32)) for sign in (1, -1)
    )
    imagined = imagine([one, other], lambda s, a, n: n[0] - n[1] ** 2, starts, margin=10.0)
    sequences = jnp.array([[[0.5]], [[-1.0]], [[0.0]]])
    np.testing.assert_allclose(
        sequence_returns(imagined, jnp.zeros(2), sequences), [-0.25, -1.0, 0.0], atol=1e-6
    )


def test_a_reward_that_is_no_number_where_the_model_goes(starts):
    model = LinearModel(jnp.zeros((2, 2), jnp.float32), jnp.ones((2, 1), jnp.float32))
    low = float(starts.states[:, 0].min()) - 0.1

    def root(state, action, next_state):
        return jnp.sqrt(next_state[0] - low)

    volts = replace(starts, actions=10 * starts.actions)
    imagined = imagine(model, root, volts, margin=10.0)
    returns = sequence_returns(imagined, jnp.zeros(2), jnp.array([[[-1.0]], [[0.5]]]))
    assert returns[0] == -jnp.inf
    for planner in (RandomShooting(imagined, horizon=1), CrossEntropy(imagined, horizon=1)):
        action, _ = decide(planner, jnp.zeros(2), planner.start(), jax.random.key(0))
        assert float(action[0]) > low
    nowhere = imagine(model, lambda s, a, n: jnp.where(jnp.abs(s[0]) > 20, jnp.nan, 0.0), volts, margin=10.0)
    for planner in (RandomShooting(nowhere, horizon=2), CrossEntropy(nowhere, horizon=2)):
        with pytest.raises(
            InputError, match=r"Nothing that was tried from the state \[21\. +0\.\] has a finite return"
        ):
            decide(planner, jnp.array([21.0, 0.0]), planner.start(), jax.random.key(0))
    env = ModelEnv(model, root, volts, num_envs=1, margin=10.0)
    env.reset(seed=0)
    with pytest.raises(
        InputError, match="The reward is not a finite number at a state that the model reaches"
    ):
        env.step(np.array([[-10.0]], np.float32))


def test_random_shooting_takes_the_best_of_what_it_tries(imagination):
    planner, state, key = (
        RandomShooting(imagination, num_sequences=30, horizon=3),
        np.array([0.5, -0.4]),
        jax.random.key(4),
    )
    action, _ = decide(planner, jnp.asarray(state, jnp.float32), planner.start(), key)
    tried = np.asarray(jax.random.uniform(key, (30, 3, 1), jnp.float32, -1, 1))
    best = max(tried, key=lambda actions: return_of(state, actions))
    assert float(action[0]) == float(best[0, 0])


def test_cross_entropy_finds_the_best_sequence_of_a_linear_system(imagination):
    """The reward is quadratic: the best sequence solves a linear system; where it is within the bounds CEM
    must find it."""
    state, horizon = np.array([0.1, -0.05]), 4
    gains = []
    for step in range(1, horizon + 1):
        gain = [
            np.linalg.matrix_power(TRANSITION, step - 1 - j) @ CONTROL[:, 0] if j < step else np.zeros(2)
            for j in range(4)
        ]
        gains.append((np.linalg.matrix_power(TRANSITION, step) @ state, np.stack(gain, axis=1)))
    cost = np.diag([1.0, 0.1])
    curvature = 0.01 * np.eye(4) + sum(gain.T @ cost @ gain for _, gain in gains)
    slope = sum(gain.T @ cost @ free for free, gain in gains)
    best = -np.linalg.solve(curvature, slope)
    assert (abs(best) < 1).all()
    planner = CrossEntropy(imagination, horizon=horizon, num_rounds=20)
    action, memory = decide(planner, jnp.asarray(state, jnp.float32), planner.start(), jax.random.key(0))
    assert float(action[0]) == pytest.approx(best[0], abs=0.02)
    np.testing.assert_allclose(memory[:3, 0], best[1:], atol=0.05)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A small training on the model, whole and killed in between: both agents and their folder."""
    folder = tmp_path_factory.mktemp("agent")
    with jax.enable_x64(False), jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
        model = LinearModel(jnp.asarray(TRANSITION, jnp.float32), jnp.asarray(CONTROL, jnp.float32))
        starts = random_episodes([50], state_size=2, action_size=1, dtype=np.float32)

        def env(earned=reward):
            return ModelEnv(model, earned, starts, num_envs=10, rollout_steps=20, margin=2.0)

        def interrupt(steps):
            if steps > 250:  # in the second stage
                raise KeyboardInterrupt

        whole_env = env()
        whole = train_on_model(whole_env, num_steps=600, least_stage_steps=150, seed=0)
        assert whole_env.num_ended >= 30  # a stage is whole rollouts: each of the ten had three of 20 steps
        with pytest.raises(KeyboardInterrupt):
            train_on_model(
                env(), num_steps=600, least_stage_steps=150, seed=0, folder=folder, on_steps=interrupt
            )
        resumed = train_on_model(env(), num_steps=600, least_stage_steps=150, seed=0, folder=folder)
    return whole, resumed, folder, env


@pytest.mark.slow
def test_an_interrupted_training_ends_with_the_same_bits(trained):
    whole, resumed, *_ = trained
    for one, other in zip(
        jax.tree.leaves(whole.policy.actor_state.params),
        jax.tree.leaves(resumed.policy.actor_state.params),
        strict=True,
    ):
        np.testing.assert_array_equal(one, other)
    assert whole.num_timesteps == resumed.num_timesteps == 600
    assert whole._n_updates == 500  # as many updates as steps, but for the first hundred


@pytest.mark.slow
def test_a_folder_of_another_training_is_refused(trained):
    *_, folder, env = trained
    with pytest.raises(InputError, match="holds an agent trained on another model or with other settings"):
        train_on_model(env(), num_steps=600, least_stage_steps=150, seed=1, folder=folder)
    with pytest.raises(InputError, match="605 steps in 10 rollouts at once: give a multiple of that"):
        train_on_model(env(), num_steps=605, seed=0)
    with pytest.raises(InputError, match="holds an agent trained on another model or with other settings"):
        train_on_model(
            env(lambda s, a, n: 2 * reward(s, a, n)),
            num_steps=600,
            least_stage_steps=150,
            seed=0,
            folder=folder,
        )


@pytest.mark.slow
def test_the_saved_agent_loads_in_sbx_and_is_refused_for_another_task(trained):
    from sbx import SAC

    agent, _, folder, _ = trained
    (path,) = folder.glob("stage_*/agent.zip")
    states = np.zeros((1, 2), np.float32)
    np.testing.assert_array_equal(
        SAC.load(path).predict(states, deterministic=True)[0], agent.predict(states, deterministic=True)[0]
    )
    assert load_agent(path, state_size=2, action_size=1).num_timesteps == 600
    with pytest.raises(InputError, match="acts on 2 states with 1 actions, the model has 5 and 1"):
        load_agent(path, state_size=5, action_size=1)
    with pytest.raises(InputError, match="is not an agent that sbx can load"):
        load_agent(folder / "fingerprint", state_size=2, action_size=1)


@pytest.mark.slow
def test_the_guided_planner_by_a_loop(trained, imagination):
    """Sampled actions, rewards and the critics' value, one sequence at a time."""
    policy, key = policy_of(trained[0]), jax.random.key(7)
    planner, state = PolicyGuided(imagination, policy, num_sequences=6, horizon=3), jnp.asarray([0.6, -0.3])
    chosen, _ = decide(planner, state, None, key)
    first_key, rollout_key = jax.random.split(key)
    states = np.tile(np.asarray(state), (6, 1))
    first = actions = np.asarray(policy.sample(jnp.asarray(states), first_key))
    returns = np.zeros(6)
    for step, step_key in enumerate(jax.random.split(rollout_key, 3)):
        states = states @ TRANSITION.T + actions @ CONTROL.T
        rewards = -(states[:, 0] ** 2) - 0.1 * states[:, 1] ** 2 - 0.01 * actions[:, 0] ** 2
        returns += 0.99**step * rewards
        actions = np.asarray(policy.sample(jnp.asarray(states, jnp.float32), step_key))
    critics = trained[0].policy.qf_state
    values = critics.apply_fn(critics.params, jnp.asarray(states, jnp.float32), jnp.asarray(actions))
    returns += 0.99**3 * np.asarray(values).min(axis=0)[:, 0]
    found = planner.returns(state, jnp.asarray(first), rollout_key)
    np.testing.assert_allclose(found, returns, rtol=1e-5)
    assert len(np.unique(returns.round(4))) == 6
    np.testing.assert_allclose(chosen, first[np.argmax(returns)], rtol=1e-5)


@pytest.mark.slow
def test_stable_baselines_trains_on_the_model_too(trained):
    from stable_baselines3 import SAC

    from multistep.agents.model_vec_env import ModelVecEnv

    agent = SAC(
        "MlpPolicy",
        ModelVecEnv(trained[3]()),
        gradient_steps=10,
        learning_starts=50,
        buffer_size=1000,
        device="cpu",
    )
    agent.learn(100)
    assert agent.num_timesteps == 100
    assert agent._n_updates == 50
