"""One battery for all that multi-step training is compared with: losses, curricula, recipes, a dynamics.

Each is held against a plain loop that was written without it.
"""

import itertools
import math

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import multistep as ms
from multistep.data import Past, Windows, window_starts
from multistep.dynamics import (
    ARCHITECTURES,
    DirectConfig,
    LaggedConfig,
    ShallowConfig,
    fit_normaliser,
    forecast,
    in_units,
    load_model,
    save_model,
)
from multistep.errors import InputError
from multistep.losses import (
    LOSSES,
    Exponential,
    HallucinatedReplay,
    MultiStep,
    Noisy,
    ScheduledSampling,
    Uniform,
)
from multistep.selection.recipes import RECIPES
from multistep.selection.validated import Validated
from multistep.training import CURRICULA, Aggregated, Counted, Lesson, Once, Outcome, Scheduled, Steady
from multistep.training.aggregated import demonstrations
from multistep.training.history import Epoch
from systems import LinearModel, oscillator_episodes, random_episodes

SMALL = ms.NetworkConfig(hidden_size=6, activation="tanh")
WEIGHTS = Exponential(0.8)


def batch_of(horizon, num_past=1):
    episodes = random_episodes([20])
    windows = Windows(*fit_normaliser(episodes).normalise(episodes), horizon, num_past)
    return jax.vmap(windows.gather)(jnp.asarray(window_starts(episodes, horizon, num_past)[:3]))


def plain_step(parameters, rebuild):
    """The step of the network of these weights, in NumPy."""
    network = jax.tree.map(np.asarray, rebuild(jnp.asarray(parameters)).network)

    def step(state, action):
        x = np.concatenate([state, action])
        for layer in (*network.common, network.mean_head.hidden):
            x = np.tanh(x @ layer.weight + layer.bias)
        return state + x @ network.mean_head.output.weight + network.mean_head.output.bias

    return step


def plain_loss(step, batch, inputs_of):
    """sum_j alpha_j e_j by loops; `inputs_of(window, j, predicted)` is what step j starts from."""
    errors = np.zeros((len(batch.states), batch.actions.shape[1]))
    for window in range(len(errors)):
        predicted = batch.past.states[window, -1]
        for j in range(errors.shape[1]):
            predicted = step(inputs_of(window, j, predicted), batch.actions[window, j])
            errors[window, j] = ((predicted - batch.states[window, j]) ** 2).mean()
    alphas = 0.8 ** np.arange(errors.shape[1])
    return (alphas / alphas.sum() * errors.mean(axis=0)).sum()


def true_state(batch, window, j):
    return batch.past.states[window, -1] if j == 0 else batch.states[window, j - 1]


def own_rollouts(step, batch):
    """What the model of these weights predicts before each step, as numbers."""
    states = np.zeros((*batch.actions.shape[:2], batch.states.shape[2]))
    for window, j in np.ndindex(states.shape[:2]):
        states[window, j] = (
            step(states[window, j - 1], batch.actions[window, j - 1]) if j else true_state(batch, window, 0)
        )
    return states


def oracle(loss, batch, key, fixed_step):
    """The loss as a function of a model's step; `fixed_step` is that of the weights it is derived at, for
    what counts as data. What is drawn is drawn as the loss does."""
    batch = jax.tree.map(np.asarray, batch)
    if isinstance(loss, HallucinatedReplay):
        fixed = own_rollouts(fixed_step, batch)
        return lambda step: plain_loss(step, batch, lambda window, j, _: fixed[window, j])
    if isinstance(loss, ScheduledSampling):
        keys = [jax.random.split(own)[0] for own in jax.random.split(key, len(batch.states))]
        shape = batch.actions.shape[1:2]
        is_true = [np.asarray(jax.random.bernoulli(own, loss.probability, shape)) for own in keys]
        return lambda step: plain_loss(
            step,
            batch,
            lambda window, j, predicted: true_state(batch, window, j) if is_true[window][j] else predicted,
        )
    noise_key, own_key = jax.random.split(key)
    noise = loss.deviation * jax.random.normal(noise_key, batch.past.states.shape)
    noisy = batch._replace(past=batch.past._replace(states=batch.past.states + noise))
    if isinstance(loss.loss, MultiStep):
        return lambda step: plain_loss(step, jax.tree.map(np.asarray, noisy), lambda *given: given[2])
    return oracle(loss.loss, noisy, own_key, fixed_step)


LOSSES_HERE = [
    HallucinatedReplay(),
    ScheduledSampling(0.0),
    ScheduledSampling(0.5),
    ScheduledSampling(1.0),
    Noisy(deviation=0.3),
    Noisy(HallucinatedReplay(), 0.2),
]


@pytest.mark.parametrize("loss", LOSSES_HERE, ids=LOSSES.describe)
def test_value_and_gradient_are_those_of_a_plain_loop_and_finite_differences(getkey, loss):
    batch, learner, key = batch_of(4), SMALL.make(3, 2, key=getkey()), getkey()
    parameters, rebuild = jax.flatten_util.ravel_pytree(learner)
    expected = oracle(loss, batch, key, plain_step(parameters, rebuild))
    value, gradient = jax.jit(
        jax.value_and_grad(lambda parameters: loss(rebuild(parameters), batch, WEIGHTS, key)[0])
    )(parameters)
    np.testing.assert_allclose(value, expected(plain_step(parameters, rebuild)), rtol=1e-10)
    for direction in np.random.default_rng(0).standard_normal((3, parameters.size)):
        above, below = (
            expected(plain_step(parameters + step * direction, rebuild)) for step in (1e-6, -1e-6)
        )
        np.testing.assert_allclose(gradient @ direction, (above - below) / 2e-6, rtol=1e-5, atol=1e-9)


@pytest.mark.parametrize(
    ("loss", "network"),
    [
        (HallucinatedReplay(), LaggedConfig(2, ShallowConfig(3))),
        (ScheduledSampling(0.3), SMALL),
        (Noisy(ScheduledSampling(), 0.0), SMALL),
    ],
    ids=["hallucinated", "scheduled", "noisy"],
)
def test_one_step_ahead_all_are_the_one_step_loss(getkey, loss, network):
    learner = network.make(3, 2, key=getkey())
    batch, key = batch_of(1, learner.num_past), getkey()
    ours, theirs = (
        eqx.filter_jit(
            eqx.filter_value_and_grad(lambda learner, loss=each: loss(learner, batch, WEIGHTS, key)[0])
        )(learner)
        for each in (loss, MultiStep())
    )
    for mine, other in zip(jax.tree.leaves(ours), jax.tree.leaves(theirs), strict=True):
        np.testing.assert_allclose(mine, other, rtol=1e-12, atol=1e-15)


def test_with_lags_the_truth_is_all_that_was_measured_before(getkey):
    """With probability 1 the errors of a window are the one-step errors of the windows within it."""
    learner, key = LaggedConfig(3, ShallowConfig(3)).make(3, 2, key=getkey()), getkey()
    batch = batch_of(4, 3)
    _, report = eqx.filter_jit(ScheduledSampling(1.0))(learner, batch, Uniform(), key)
    states = jnp.concatenate([batch.past.states, batch.states], axis=1)
    actions = jnp.concatenate([batch.past.actions, batch.actions], axis=1)
    one_step = jax.jit(
        jax.vmap(lambda *past_and_next: forecast(learner, Past(*past_and_next[:2]), past_and_next[2]).mean[0])
    )
    for j in range(4):
        predicted = one_step(states[:, j : j + 3], actions[:, j : j + 2], actions[:, j + 2 : j + 3])
        expected = jnp.mean((predicted - states[:, j + 3]) ** 2)
        np.testing.assert_allclose(report.errors[j], expected, rtol=1e-10)


def test_noise_on_a_linear_model_costs_what_its_matrix_makes_of_it(getkey):
    """E |A (s + noise) - s'|^2 = |A s - s'|^2 + deviation^2 |A|^2, per state."""
    model = LinearModel(0.5 * jax.random.normal(getkey(), (3, 3)), jnp.zeros((3, 2)))
    batch = jax.tree.map(lambda leaf: jnp.tile(leaf, (20_000, *[1] * (leaf.ndim - 1))), batch_of(1))
    losses = [loss(model, batch, Uniform(), getkey())[0] for loss in (Noisy(deviation=0.7), MultiStep())]
    np.testing.assert_allclose(losses[0] - losses[1], 0.49 * jnp.sum(model.transition**2) / 3, rtol=0.02)


def test_batch_norm_goes_through(getkey):
    """The statistics that are noted are the rollout's: with probability 0 those of the multi-step loss."""
    network = ms.NetworkConfig(hidden_size=6, batch_norm=True)
    learner, batch, key = network.make(3, 2, key=getkey()), batch_of(3), getkey()
    for loss in (HallucinatedReplay(), ScheduledSampling(0.0)):
        for mine, theirs in zip(
            jax.tree.leaves(eqx.filter_jit(loss)(learner, batch, WEIGHTS, key)),
            jax.tree.leaves(eqx.filter_jit(MultiStep())(learner, batch, WEIGHTS, key)),
            strict=True,
        ):
            np.testing.assert_allclose(mine, theirs, rtol=1e-10)


@pytest.mark.parametrize(
    ("registry", "text", "thing"),
    [
        (LOSSES, "hallucinated", HallucinatedReplay()),
        (LOSSES, "scheduled:0.25", ScheduledSampling(0.25)),
        (LOSSES, "noisy:deviation=0.2", Noisy(deviation=0.2)),
        (LOSSES, "noisy:(hallucinated),0.2", Noisy(HallucinatedReplay(), 0.2)),
        (LOSSES, "noisy:loss=(noisy:(scheduled:0.5),deviation=0.3)", Noisy(Noisy(ScheduledSampling(), 0.3))),
        (CURRICULA, "counted:5000", Counted(5000)),
        (CURRICULA, "scheduled", Scheduled()),
        (CURRICULA, "scheduled:(counted:5000)", Scheduled(Counted(5000))),
        (ARCHITECTURES, "direct:4", DirectConfig(4)),
        (ARCHITECTURES, "direct:4,(network:hidden_size=8)", DirectConfig(4, ms.NetworkConfig(8))),
    ],
)
def test_all_of_them_can_be_typed_and_read_back(registry, text, thing):
    assert registry.find(text) == thing
    if registry is not ARCHITECTURES:  # those are written field by field
        assert registry.find(registry.describe(thing)) == thing


def test_recipes_are_typed_around_the_one_fit():
    once = Once(horizon=7, epochs=3)
    one_step = Once(horizon=1, weights=Uniform(), epochs=3)
    assert RECIPES.find("aggregated:2,steps=5", once) == Aggregated(one_step, 2, 5)
    assert RECIPES.find("validated", once) == Validated(one_step, 50)
    assert RECIPES.find("validated:1", once) == Validated(one_step, 1)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: ScheduledSampling(1.5), "it must be from 0 to 1"),
        (lambda: LOSSES.find("noisy:deviation=-1"), "it must be 0 or more"),
        (lambda: LOSSES.find("noisy:(hallucinates)"), "There is no loss 'hallucinates'"),
        (lambda: DirectConfig(0), "it takes 1 or more"),
        (lambda: DirectConfig(2, LaggedConfig()).make(1, 1, key=jax.random.key(0)), "a memory of its own"),
        (lambda: Counted(0), "it takes 1 or more"),
        (lambda: Aggregated(Once(horizon=4)), "give it a recipe with horizon 1"),
        (lambda: Aggregated(rounds=0), "1 or more rounds, of 2 or more steps"),
        (lambda: Validated(Once(), 0), "it takes 1 or more"),
        (lambda: Scheduled().next((), Once(), lambda _: 100), "needs the loss scheduled"),
    ],
)
def test_what_makes_no_sense_gets_one_sentence(make, words):
    with pytest.raises(InputError, match=words):
        make()


def test_the_truth_is_shown_less_and_less_and_the_history_says_how_often():
    settings = Once(horizon=2, epochs=4, least_steps=1, loss=ScheduledSampling())
    history, shown = (), []
    while isinstance(lesson := Scheduled(Steady()).next(history, settings, lambda _: 640), Lesson):
        shown.append(lesson.loss.probability)
        assert lesson._replace(loss=settings.loss)[:4] == Steady().next(history, settings, lambda _: 640)[:4]
        history = (*history, Epoch(len(history), (0.1, 0.2), (0.5, 0.5), 0.5, 1.0))
    assert shown == [1.0, 0.75, 0.5, 0.25]
    assert lesson is Outcome.FINISHED


@pytest.mark.parametrize("horizon", [1, 3, 10])
@pytest.mark.parametrize("num_windows", [200, 1000, 70_000])
def test_trainings_of_every_horizon_take_as_many_model_steps(horizon, num_windows):
    settings, curriculum = Once(horizon=horizon), Counted(1_000_000)
    history, taken, rates = (), 0, []
    while isinstance(lesson := curriculum.next(history, settings, lambda _: num_windows), Lesson):
        taken += lesson.batch_size * len(lesson.learning_rates) * lesson.horizon
        assert lesson.batch_size * len(lesson.learning_rates) <= num_windows
        rates += lesson.learning_rates.tolist()
        history = (*history, Epoch(len(history), (0.1,), (1.0,), 0.5, 1.0))
    assert taken == curriculum.most_steps(settings, lambda _: num_windows)
    assert len(history) == curriculum.num_epochs(settings, lambda _: num_windows)
    assert 0.99e6 < taken <= 1e6
    assert rates[0] == settings.learning_rate
    assert all(before >= after > 0 for before, after in itertools.pairwise(rates))


def test_pairs_lead_from_predicted_states_to_the_true_next_ones():
    """By a plain loop along the episodes; what has left the range by far is left out."""
    episodes = random_episodes([11, 7], state_size=2, action_size=1)
    model = LinearModel(jnp.array([[1.9, 0.5], [-0.4, 1.3]]), jnp.array([[0.2], [0.7]]))
    found = demonstrations(model, episodes, 4)
    low, high = episodes.states.min(axis=0), episodes.states.max(axis=0)
    expected, left_out = set(), 0
    for states, actions, _ in (episodes[0], episodes[1]):
        for start in range(0, len(actions), 4):
            state = states[start]
            for step in range(start, min(start + 4, len(actions)) - 1):
                state = np.asarray(model.step(jnp.asarray(state), jnp.asarray(actions[step])))
                if ((state < low - (high - low)) | (state > high + (high - low))).any():
                    left_out += 1
                    continue
                pair = (*state, *actions[step + 1], *states[step + 2])
                expected.add(tuple(round(float(number), 9) for number in pair))
    pairs = np.concatenate([found.states[::2], found.actions, found.states[1::2]], axis=1)
    assert {tuple(round(float(number), 9) for number in pair) for pair in pairs} == expected
    assert len(found) == len(expected) > 0 < left_out
    assert (found.lengths == 1).all()


def test_a_true_model_demonstrates_what_is_in_the_data():
    episodes = oscillator_episodes(3, 21)
    model = LinearModel(jnp.array([[0.99, 0.1], [-0.1, 0.97]]), jnp.array([[0.0], [0.1]]))
    found = demonstrations(model, episodes, 10)
    known = {tuple(np.round(row, 9)) for row in episodes.states}
    assert len(found) == 3 * (9 + 9)
    assert {tuple(np.round(row, 9)) for row in found.states} <= known


def test_states_in_the_past_cannot_be_demonstrated():
    lagged = LaggedConfig(2, ShallowConfig(2)).make(2, 1, key=jax.random.key(0))
    with pytest.raises(InputError, match="leave lags and hidden states out"):
        demonstrations(lagged, oscillator_episodes(2, 20), 5)


def test_a_direct_model_is_its_networks_one_by_one_and_the_last_one_chained(getkey):
    config = DirectConfig(3, SMALL)
    direct = config.make(2, 1, key=getkey())
    networks = [jax.tree.map(lambda leaf, j=j: leaf[j], direct.networks) for j in range(3)]
    states, actions = jax.random.normal(getkey(), (1, 2)), jax.random.normal(getkey(), (8, 1))
    anchor, expected = states[0], []
    for j in range(8):
        if j and j % 3 == 0:
            anchor = expected[-1]
        done = actions[j - j % 3 : j + 1, 0]
        expected.append(networks[j % 3].step(anchor, jnp.zeros(3).at[: len(done)].set(done)))
    found = forecast(direct, Past(states, actions[:0]), actions)
    np.testing.assert_allclose(found.mean, expected, rtol=1e-10)
    assert direct.architecture == config


def test_a_direct_model_of_many_networks_is_loaded_again(getkey, tmp_path):
    data = oscillator_episodes(2, 20)
    learned = DirectConfig(10, SMALL).make(2, 1, key=getkey()).freeze()
    model = in_units(learned, fit_normaliser(data), data.state_names, data.action_names)
    save_model(model, tmp_path / "model.safetensors")
    given = data.states[:1], data.actions[:0], data.actions[:12]
    found = load_model(tmp_path / "model.safetensors").rollout(*given)
    np.testing.assert_array_equal(found, model.rollout(*given))


def test_each_network_of_a_direct_model_learns_from_its_own_horizon_alone(getkey):
    direct, batch = DirectConfig(3, SMALL).make(3, 2, key=getkey()), batch_of(3)
    errors_of = jax.jit(
        jax.jacrev(lambda own: MultiStep()(own, batch, Uniform(), jax.random.key(0))[1].errors)
    )
    slopes = errors_of(direct).networks.mean_head.output.bias  # error ahead x network x state
    sizes = np.abs(slopes).sum(axis=2)
    np.testing.assert_array_equal(sizes > 0, np.eye(3, dtype=bool))


def test_the_epoch_that_is_kept_is_the_best_so_many_steps_ahead(oscillators):
    train, valid = oscillators.take(range(6)), oscillators.take([6, 7])
    once = Once(network=SMALL, horizon=1, weights=Uniform(), epochs=5, least_steps=1, batch_size=32)
    for horizon in (1, 20):
        ours = Validated(once, horizon).fit(train, valid, key=jax.random.key(0), score=lambda *_: math.nan)
        theirs = ms.fit(train, valid, once, key=jax.random.key(0), score=ms.R2Bar(horizon))
        assert [epoch.score for epoch in ours.history] == [epoch.score for epoch in theirs.history]


# Epochs of ten batches or nine, twenty of them.
ONE = Once(
    network=SMALL,
    horizon=1,
    weights=Uniform(),
    curriculum=Counted(7_200),
    batch_size=36,
    learning_rate=0.02,
)
SHORT = ONE.vary(horizon=4, curriculum=Counted(25_920))
RIVALS = {
    "validated": Validated(ONE, 20),
    "noisy": ONE.vary(loss=Noisy(deviation=0.05)),
    "aggregated": Aggregated(ONE.vary(curriculum=Counted(3_600)), rounds=1),
    "hallucinated": SHORT.vary(loss=HallucinatedReplay()),
    "scheduled": SHORT.vary(loss=ScheduledSampling(), curriculum=Scheduled(SHORT.curriculum)),
    "direct": SHORT.vary(network=DirectConfig(4, SMALL)),
}


class Stopping:
    """R2bar that is interrupted at one of its calls; it reads the same whatever happens to it."""

    def __init__(self, at=None):
        self.at, self.calls = at, 0

    def __call__(self, model, valid):
        self.calls += 1
        if self.calls == self.at:
            raise KeyboardInterrupt
        return ms.R2Bar(20)(model, valid)

    def __repr__(self):
        return "Stopping"


@pytest.mark.slow
@pytest.mark.parametrize("name", RIVALS)
def test_all_of_them_learn_and_go_on_to_the_bit_where_they_were_stopped(
    oscillators, tmp_path, monkeypatch, name
):
    recipe, train, valid = RIVALS[name], oscillators.take(range(6)), oscillators.take([6, 7])
    options = {"key": jax.random.key(0), "checkpoint": tmp_path / "fit.safetensors"}
    whole = ms.fit(train, valid, recipe, key=jax.random.key(0), score=Stopping())
    at = 2 + sum(len(part.history) for part in [*whole.parts.values()][:1])  # in the second of several fits
    if isinstance(recipe, Validated):  # it brings its own score
        stopping = Stopping(2)
        monkeypatch.setattr("multistep.selection.validated.R2Bar", lambda _: stopping)
    first = ms.fit(train, valid, recipe, score=Stopping(at), **options)
    assert first.outcome is Outcome.INTERRUPTED
    second = ms.fit(train, valid, recipe, score=Stopping(), **options)
    assert second.outcome is Outcome.FINISHED
    for mine, theirs in zip(jax.tree.leaves(second.model), jax.tree.leaves(whole.model), strict=True):
        np.testing.assert_array_equal(mine, theirs)
    assert ms.score(whole.model, oscillator_episodes(3, 60, seed=2), horizon=20).r2bar() > 0.8
    ms.save_model(whole.model, tmp_path / "model.safetensors")
    again = ms.load_model(tmp_path / "model.safetensors")
    assert ms.score(again, valid, horizon=20).r2bar() == ms.score(whole.model, valid, horizon=20).r2bar()
    taken, most = sum(len(fit.history) for fit in whole.parts.values() or [whole]), recipe.most_steps(train)
    assert taken > 2
    assert most is not None
    if name == "aggregated":
        assert train.num_steps < most <= 2 * 3_600 + train.num_steps
        assert whole.judged[whole.chosen] == max(whole.judged.values())
