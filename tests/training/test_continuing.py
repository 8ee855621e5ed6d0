"""Going on from a saved model: from its weights, in its units, and never to something worse."""

from dataclasses import replace

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import multistep as ms
from multistep.data import Past
from multistep.dynamics import (
    HiddenConfig,
    LaggedConfig,
    LineConfig,
    Saved,
    average,
    forecast,
    in_units,
)
from multistep.losses import Uniform
from multistep.runs.provenance import digest
from multistep.training import Continuing, LeastSquares, Once, Outcome, QuasiNewton
from systems import oscillator_episodes, plant_episodes, turning_episodes

SHORT = Once(horizon=4, weights=Uniform(), epochs=1, least_steps=30, batch_size=32)
NETWORKS = {
    "line": LineConfig(),
    "lagged": LaggedConfig(3, LineConfig()),
    "hidden": HiddenConfig(3, 4, LineConfig(), encoder_size=4),
}


def line_of(episodes, network=None):
    recipe = LeastSquares(network or LineConfig())
    return recipe.fit(episodes, episodes, key=jax.random.key(0), score=lambda *_: 0.0).model


def mean_of_two(episodes):
    lines = [line_of(episodes), line_of(episodes.take([0]))]
    learned = average([line.learned for line in lines])
    return in_units(learned, lines[0].normaliser, *lines[0].names, episodes.time_step)


def other_plant(num_episodes, seed=0):
    """Pushed twice as hard, with other units than the plant that the models know."""
    plant = oscillator_episodes(num_episodes, 60, noise=0.01, seed=seed)
    return replace(plant, actions=0.5 * plant.actions)


@pytest.fixture
def saved(tmp_path):
    """A function that saves the model of this kind of the usual plant."""

    def save(kind, **changes):
        episodes = replace(oscillator_episodes(6, 60, noise=0.01), **changes)
        model = mean_of_two(episodes) if kind == "averaged" else line_of(episodes, NETWORKS[kind])
        ms.save_model(model, tmp_path / "model.safetensors")
        return model, tmp_path / "model.safetensors"

    return save


@pytest.mark.slow
@pytest.mark.parametrize("kind", [*NETWORKS, "averaged"])
def test_it_learns_the_new_and_keeps_units_kind_and_names(saved, kind, tmp_path):
    old, path = saved(kind, time_step=0.5)
    train, valid, test = (other_plant(n, seed) for seed, n in enumerate((8, 2, 4), start=5))
    longer = SHORT.vary(least_steps=400, learning_rate=0.01)
    fit = ms.fit(train, valid, Continuing(path, longer), key=jax.random.key(1))
    assert fit.chosen == "after"
    assert fit.judged["after"] > fit.judged["before"]
    unexplained = [1 - ms.score(model, test, horizon=20).r2bar() for model in (old, fit.model)]
    assert unexplained[1] < 0.5 * unexplained[0]
    assert type(fit.model.learned) is type(old.learned)
    assert eqx.tree_equal(fit.model.normaliser, old.normaliser)
    assert (fit.model.names, fit.model.time_step) == (old.names, 0.5)
    ms.save_model(fit.model, tmp_path / "new.safetensors")
    assert eqx.tree_equal(ms.load_model(tmp_path / "new.safetensors"), fit.model)


@pytest.mark.parametrize("kind", [*NETWORKS, "averaged"])
def test_the_architecture_makes_what_is_in_the_file(saved, kind):
    old, path = saved(kind)
    episodes = other_plant(3)
    made = Saved(path).suited_to(episodes).make(2, 1, key=jax.random.key(0))
    states, actions, _ = episodes[0]
    normaliser = Saved(path).normaliser(episodes)
    seen, given = (jnp.asarray(part) for part in normaliser.normalise(episodes.take([0])))
    num = old.num_past
    assert made.num_past == num
    found = forecast(made, Past(seen[:num], given[: num - 1]), given[num - 1 : num + 9]).mean
    own = forecast(
        old,
        Past(jnp.asarray(states[:num]), jnp.asarray(actions[: num - 1])),
        jnp.asarray(actions[num - 1 : num + 9]),
    ).mean
    np.testing.assert_allclose(jax.vmap(normaliser.restore_state)(found), own, atol=1e-9)
    assert eqx.tree_equal(made.freeze(), old.learned)


def test_without_a_step_it_stays_where_it_was(saved):
    """The learning rate is too small to change a bit: what training starts from are the saved weights."""
    old, path = saved("lagged")
    still = Continuing(path, SHORT.vary(learning_rate=1e-30))
    fit = ms.fit(other_plant(4), other_plant(2, 9), still, key=jax.random.key(0))
    assert eqx.tree_equal(fit.parts["after"].model, old)
    assert fit.chosen == "before"
    assert fit.judged["before"] == fit.judged["after"]


def test_what_is_better_as_it_was_is_kept(saved):
    old, path = saved("lagged")
    same = oscillator_episodes(8, 60, noise=0.01, seed=3)
    rough = Continuing(path, SHORT.vary(learning_rate=1.0))
    fit = ms.fit(same, same, rough, key=jax.random.key(0))
    assert eqx.tree_equal(fit.model, old)
    assert (fit.chosen, fit.history) == ("before", ())
    assert fit.judged["after"] < fit.judged["before"]
    assert "it did not help, the old model is kept" in fit.notes[0]


def test_a_fit_that_diverges_leaves_the_old_model(saved):
    old, path = saved("lagged")
    same = oscillator_episodes(8, 60, noise=0.01, seed=3)
    wild = Continuing(path, SHORT.vary(learning_rate=1e100))
    fit = ms.fit(same, same, wild, key=jax.random.key(0))
    assert fit.parts["after"].outcome is Outcome.DIVERGED
    assert eqx.tree_equal(fit.model, old)
    assert "and diverged" in fit.notes[0]


def test_second_order_descent_goes_on_too(saved):
    old, path = saved("lagged")
    recipe = QuasiNewton(horizon=8, starts=1, adam_steps=50, rounds=1, iterations=50)
    fit = ms.fit(other_plant(6), other_plant(2, 9), Continuing(path, recipe), key=jax.random.key(0))
    assert fit.chosen == "after"
    assert eqx.tree_equal(fit.model.normaliser, old.normaliser)


def test_short_episodes_shorten_the_horizon(saved):
    _, path = saved("lagged")
    plant = other_plant(4)
    train = ms.data.first_pieces(ms.cut(plant, 30), 8)
    fit = ms.fit(train, train, Continuing(path, SHORT.vary(horizon=40)), key=jax.random.key(0))
    assert len(fit.parts["after"].history[0].errors) == 8 - 3 + 1
    assert Continuing(path).most_steps(train) == Once(network=Saved(path), horizon=6).most_steps(train)


def test_episodes_without_names_get_those_of_the_model(saved):
    old, path = saved("lagged", time_step=0.25)
    plain = ms.Episodes.of([other_plant(1, seed)[0] for seed in range(4)])
    fit = ms.fit(plain, plain, Continuing(path, SHORT), key=jax.random.key(0))
    models = [part.model for part in fit.parts.values()]
    assert [(model.names, model.time_step) for model in models] == [(old.names, 0.25)] * 2


def test_another_model_in_the_file_is_another_fit(saved, tmp_path):
    _, path = saved("lagged")
    train, checkpoint = other_plant(4), tmp_path / "checkpoint"
    given = {"key": jax.random.key(0), "checkpoint": checkpoint}
    before = digest(Continuing(path))
    first = ms.fit(train, train, Continuing(path, SHORT), **given)
    again = ms.fit(train, train, Continuing(path, SHORT), **given)
    assert eqx.tree_equal(first.parts["after"].model, again.parts["after"].model)
    ms.save_model(first.parts["after"].model, path)
    assert digest(Continuing(path)) != before
    with pytest.raises(ms.InputError, match="belongs to a fit with other data, settings or seed"):
        ms.fit(train, train, Continuing(path, SHORT), **given)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (lambda: plant_episodes(), r"has 2 state dimensions \(position, velocity\), the data 1"),
        (lambda: replace(other_plant(2), action_names=("u",)), "action dimensions are force, the data has u"),
        (lambda: replace(other_plant(2), time_step=0.1), "step is 0.5, the data have a sample every 0.1"),
        (lambda: replace(other_plant(2), turns=(6.28, 0.0)), "takes no state for an angle"),
    ],
)
def test_what_does_not_fit_the_model_gets_a_sentence(saved, data, words):
    _, path = saved("line", time_step=0.5)
    with pytest.raises(ms.InputError, match=words):
        ms.fit(data(), data(), Continuing(path, SHORT), key=jax.random.key(0))


@pytest.mark.slow
def test_angles_are_those_of_the_model(tmp_path):
    wheel = ms.data.with_angles(turning_episodes(), ["theta"])
    ms.save_model(line_of(wheel, LineConfig(wheel.turns)), tmp_path / "model.safetensors")
    recipe = Continuing(tmp_path / "model.safetensors", SHORT)
    with pytest.raises(ms.InputError, match="takes theta for an angle: load the data with the same angles"):
        ms.fit(turning_episodes(), turning_episodes(), recipe, key=jax.random.key(0))
    assert set(ms.fit(wheel, wheel, recipe, key=jax.random.key(0)).judged) == {"before", "after"}


def test_there_must_be_a_model(tmp_path):
    with pytest.raises(ms.InputError, match="There is no model file"):
        ms.fit(other_plant(2), other_plant(2), Continuing(tmp_path / "none"), key=jax.random.key(0))
