import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from sklearn.metrics import r2_score

from multistep.data import Episodes
from multistep.dynamics import Model, NetworkConfig, Persistence, fit_normaliser
from multistep.dynamics.network import make_network
from multistep.errors import InputError
from multistep.evaluation import R2Bar, advantage, free_run, score, unexplained, usual_horizon
from multistep.evaluation import score as score_function
from systems import ExplodingModel, LinearModel, oscillator_episodes, random_episodes


def by_double_loop(model, episodes, horizon):
    """Predicted and true state of every sub-trajectory of every length, in plain Python."""
    pairs = {h: ([], []) for h in range(1, horizon + 1)}
    for number in range(len(episodes)):
        states, actions, _ = episodes[number]
        for start in range(len(actions)):
            state = states[start]
            for h in range(1, min(horizon, len(actions) - start) + 1):
                state = (
                    np.asarray(model.transition) @ state + np.asarray(model.control) @ actions[start + h - 1]
                )
                pairs[h][0].append(state)
                pairs[h][1].append(states[start + h])
    return {h: (np.array(predicted), np.array(true)) for h, (predicted, true) in pairs.items()}


@pytest.mark.parametrize("lengths", [[7, 3, 12], [300, 400]])
def test_r2_is_that_of_a_double_loop_and_scikit_learn(getkey, lengths):
    episodes = random_episodes(lengths)
    model = LinearModel(0.3 * jax.random.normal(getkey(), (3, 3)), 0.3 * jax.random.normal(getkey(), (3, 2)))
    scores = score(model, episodes, horizon=7)
    for h, (predicted, true) in by_double_loop(model, episodes, 7).items():
        np.testing.assert_allclose(
            scores.per_dimension[h - 1], r2_score(true, predicted, multioutput="raw_values"), rtol=1e-9
        )
        np.testing.assert_allclose(scores.r2[h - 1], r2_score(true, predicted), rtol=1e-9)
        assert scores.num_rollouts[h - 1] == len(true)
    np.testing.assert_allclose(scores.r2bar(5), scores.r2[:5].mean())
    np.testing.assert_allclose(R2Bar(7)(model, episodes), scores.r2bar())
    assert (scores.diverged == 0).all()


def test_errors_are_those_of_a_double_loop_in_units():
    model = LinearModel(jnp.eye(3) / 2, jnp.ones((3, 2)))
    episodes = random_episodes([7, 9])
    scores = score(model, episodes, horizon=4)
    for h, (predicted, true) in by_double_loop(model, episodes, 4).items():
        np.testing.assert_allclose(scores.rmse[h - 1], np.sqrt(((predicted - true) ** 2).mean(axis=0)))


def test_the_true_system_scores_one_and_the_mean_scores_zero(getkey):
    a, b = jnp.array([[0.9, 0.1], [-0.1, 0.9]]), jnp.array([[0.0], [0.5]])
    rng = np.random.default_rng(0)
    states = [rng.standard_normal(2)]
    actions = rng.standard_normal((200, 1))
    for action in actions:
        states.append(np.asarray(a) @ states[-1] + np.asarray(b) @ action)
    episodes = Episodes.of([(np.array(states), actions)])
    np.testing.assert_allclose(score(LinearModel(a, b), episodes, horizon=20).r2, 1, atol=1e-12)
    centred = Episodes.of([(episodes.states - episodes.states[1:].mean(axis=0), actions)])
    nothing = LinearModel(jnp.zeros((2, 2)), jnp.zeros((2, 1)))
    np.testing.assert_allclose(score(nothing, centred, horizon=1).r2, 0, atol=1e-12)


def test_rollouts_that_leave_the_finite_range_are_counted_never_dropped():
    """1e30 per step leaves the range where squares are finite after some steps; a start at 0 never leaves
    it."""
    states = np.ones((41, 1))
    states[5] = states[30] = 2.0  # the data vary, early and late
    states[10] = 0.0  # and one rollout stays where it is
    scores = score(ExplodingModel(), Episodes.of([(states, np.zeros((40, 1)))]), horizon=12)
    assert scores.diverged[0] == 0
    assert np.isfinite(scores.r2[0])
    assert scores.r2[11] == -np.inf
    assert scores.r2bar(12) == -np.inf
    np.testing.assert_allclose(scores.diverged[11], 28 / 29)


def test_a_dimension_that_never_changes_has_no_r2():
    episodes = random_episodes([30], state_size=2, action_size=1)
    frozen = episodes.with_states(np.stack([episodes.states[:, 0], np.full(31, 0.1)], axis=1))
    model = LinearModel(0.5 * jnp.eye(2), jnp.zeros((2, 1)))
    scores = score(model, frozen, horizon=3)
    assert np.isnan(scores.per_dimension[:, 1]).all()
    np.testing.assert_allclose(scores.r2, scores.per_dimension[:, 0])


def test_a_horizon_at_which_a_dimension_no_longer_changes_is_left_out():
    """The second column moves in the first two steps only: there is nothing to explain three steps ahead."""
    states = np.stack([np.sin(np.arange(9.0)), [0, 1, 2, 2, 2, 2, 2, 2, 2]], axis=1)
    scores = score(
        LinearModel(0.5 * jnp.eye(2), jnp.zeros((2, 1))), Episodes.of([(states, np.zeros((8, 1)))]), horizon=4
    )
    np.testing.assert_array_equal(np.isnan(scores.per_dimension[:, 1]), [False, True, True, True])
    assert np.isfinite(scores.r2).all()


def test_horizons_at_which_nothing_changes_are_left_out_of_the_mean():
    """A step response at rest in the end: only one step ahead is there something to explain."""
    states = np.array([[0.0], [1.0], [2.0], [2.0], [2.0], [2.0]])
    scores = score(
        LinearModel(0.5 * jnp.eye(1), jnp.zeros((1, 1))), Episodes.of([(states, np.zeros((5, 1)))]), horizon=4
    )
    np.testing.assert_array_equal(np.isnan(scores.r2), [False, True, True, True])
    assert scores.r2bar() == scores.r2[0]
    flat = score(
        LinearModel(0.5 * jnp.eye(1), jnp.zeros((1, 1))),
        Episodes.of([(states[2:], np.zeros((3, 1)))]),
        horizon=2,
    )
    assert np.isnan(flat.r2bar())


@pytest.mark.parametrize(
    ("lengths", "most", "expected"),
    [
        ([1000] * 10, 100, 100),
        ([100], 100, 51),
        ([100] * 3, 100, 84),
        ([100] * 50, 200, 100),
        ([100, 20], 100, 51),
        ([1, 1], 9, 1),
    ],
)
def test_the_usual_horizon_leaves_half_as_many_sub_trajectories_as_the_longest_episode_has_steps(
    lengths, most, expected
):
    counts = [sum(max(0, length - h + 1) for length in lengths) for h in range(1, max(lengths) + 1)]
    assert usual_horizon(random_episodes(lengths), most) == expected
    assert expected == min(most, sum(count >= max(lengths) / 2 for count in counts))


def test_scores_up_to_the_usual_horizon_are_those_of_the_model(getkey):
    """The true system with noisy observations: on one episode its score at the very last horizons is that of
    chance."""
    rng = np.random.default_rng(0)
    turn = np.array([[np.cos(0.2), np.sin(0.2)], [-np.sin(0.2), np.cos(0.2)]])
    usual, last = [], []
    for phase in rng.uniform(0, 2 * np.pi, 30):
        states = np.stack(
            [np.linalg.matrix_power(turn, t) @ [np.cos(phase), np.sin(phase)] for t in range(101)]
        )
        episode = Episodes.of([(states + rng.normal(0, 0.05, states.shape), np.zeros((100, 1)))])
        r2 = score(LinearModel(jnp.asarray(turn), jnp.zeros((2, 1))), episode, horizon=99).r2
        usual.append(r2[: usual_horizon(episode, 100)].min())
        last.append(r2[-1])
    assert min(usual) > 0.9
    assert np.median(last) < 0.9


def test_the_score_does_not_compile_twice_for_other_values(getkey, monkeypatch):
    from importlib import import_module

    module = import_module("multistep.evaluation.score")  # the package has the function of this name

    counted = eqx.debug.assert_max_traces(module._error_sums.__wrapped__, max_traces=1)
    monkeypatch.setattr(module, "_error_sums", eqx.filter_jit(counted))
    for seed in range(3):
        model = LinearModel(jax.random.normal(getkey(), (3, 3)) / 9, jnp.zeros((3, 2)))
        score(model, random_episodes([20, 30], seed=seed), horizon=4)


def test_columns_that_nobody_has_named_are_taken_at_their_word(getkey):
    plain = random_episodes([30], state_size=2, action_size=1)
    named = Episodes.of([plain[0]], state_names=("a", "b"), action_names=("u",))
    normaliser = jax.tree.map(jnp.asarray, fit_normaliser(plain))
    network = make_network(NetworkConfig(8), 2, 1, key=getkey())
    for own in (named, plain):
        model = Model(network, normaliser, own.state_names, own.action_names)
        found = [score(model, episodes, horizon=5).r2 for episodes in (plain, named)]
        np.testing.assert_array_equal(*found)
    swapped = Episodes.of([plain[0]], state_names=("state_1", "state_0"))
    with pytest.raises(InputError, match="in another order"):
        score(Model(network, normaliser, swapped.state_names, swapped.action_names), plain, horizon=5)


def test_bad_questions_get_one_sentence(getkey):
    episodes = random_episodes([5, 9])
    normaliser = jax.tree.map(jnp.asarray, fit_normaliser(random_episodes([50], state_size=4)))
    model = Model(make_network(NetworkConfig(8), 4, 2, key=getkey()), normaliser, tuple("abcd"), ("u", "v"))
    with pytest.raises(InputError, match=r"4 state dimensions \(a, b, c, d\), the data 3"):
        score_function(model, episodes, horizon=2)
    shuffled = random_episodes([9], state_size=4)
    shuffled = Episodes.of([shuffled[0]], state_names=tuple("bacd"), action_names=("u", "v"))
    with pytest.raises(InputError, match="in another order"):
        score(model, shuffled, horizon=2)
    other = Episodes.of([shuffled[0]], state_names=tuple("abcx"), action_names=("u", "v"))
    for ask in (lambda: score(model, other, horizon=2), lambda: free_run(model, other)):
        with pytest.raises(
            InputError, match=r"dimensions are a, b, c, d, the data has a, b, c, x: give the col"
        ):
            ask()
    other = Episodes.of([shuffled[0]], state_names=tuple("abcd"), action_names=("u", "w"))
    with pytest.raises(InputError, match=r"action dimensions are u, v, the data has u, w: give the columns"):
        score(model, other, horizon=2)
    linear = LinearModel(jnp.eye(3), jnp.zeros((3, 2)))
    with pytest.raises(InputError, match=r"Rollouts of 9 steps cannot be scored .* at most 8 steps"):
        score(linear, episodes, horizon=9)
    with pytest.raises(InputError, match=r"R2bar\(5\) was asked for"):
        score(linear, episodes, horizon=4).r2bar(5)


def test_what_episodes_leave_unexplained_adds_up_to_one_less_r2bar():
    episodes = random_episodes([20, 30, 25])
    model = Persistence()
    shares = unexplained(model, episodes, horizon=10)
    np.testing.assert_allclose(shares.sum(), 1 - score(model, episodes, horizon=10).r2bar(), rtol=1e-6)
    # Of the first episode, by brute force.
    total = 0.0
    for step in range(1, 11):
        ends = np.concatenate([episodes[n].states[step:] for n in range(3)])
        spread = ((ends - ends.mean(axis=0)) ** 2).sum(axis=0)
        own = episodes[0].states
        total += (((own[step:] - own[:-step]) ** 2).sum(axis=0) / spread).mean() / 10
    np.testing.assert_allclose(shares[0], total, rtol=1e-5)


def test_the_advantage_is_the_difference_of_r2bar_with_an_interval_by_episodes():
    episodes = oscillator_episodes(6, 40, noise=0.05)
    truth = LinearModel(jnp.array([[0.99, 0.1], [-0.1, 0.97]]), jnp.array([[0.0], [0.1]]))
    difference, low, high = advantage(truth, Persistence(), episodes, horizon=10)
    better, worse = (score(model, episodes, horizon=10).r2bar() for model in (truth, Persistence()))
    np.testing.assert_allclose(difference, better - worse, rtol=1e-6)
    assert low < difference < high
    gains = unexplained(Persistence(), episodes, horizon=10) - unexplained(truth, episodes, horizon=10)
    half = 2.5706 * gains.std(ddof=1) * np.sqrt(6)  # Student's t with five degrees of freedom
    np.testing.assert_allclose([low, high], [difference - half, difference + half], rtol=1e-3)
