from dataclasses import dataclass, replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from multistep.data import Episodes
from multistep.dynamics import CorrectedConfig
from multistep.dynamics.ensemble import Averaged
from multistep.errors import InputError
from multistep.evaluation import R2Bar
from multistep.runs.workers import Workers
from multistep.training import Ensemble, Growing, Once, Outcome

RECIPE = Once(
    horizon=2,
    network=CorrectedConfig(hidden_size=4, num_common_layers=1),
    curriculum=Growing(model_steps=2000, stages=1, batch_size=4),
)


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    return Episodes.of([(rng.normal(size=(41, 2)), rng.normal(size=(40, 1))) for _ in range(3)])


def test_the_model_is_the_mean_of_fits_with_other_keys(data):
    key = jax.random.key(3)
    fit = Ensemble(RECIPE, 3).fit(data, data, key=key, score=R2Bar(5))
    alone = RECIPE.fit(data, data, key=key, score=R2Bar(5))
    assert list(fit.parts) == ["member_0", "member_1", "member_2"]
    state, action = jnp.asarray(data.states[0], float), jnp.asarray(data.actions[0], float)
    steps = [part.model.step(state, action) for part in fit.parts.values()]
    np.testing.assert_array_equal(steps[0], alone.model.step(state, action))
    assert not np.allclose(steps[0], steps[1])
    np.testing.assert_allclose(fit.model.step(state, action), np.mean(steps, axis=0), rtol=1e-4, atol=1e-5)
    assert [epoch.number for epoch in fit.history] == list(range(len(fit.history)))
    assert fit.outcome is Outcome.FINISHED
    np.testing.assert_array_equal(fit.model.normaliser.state_range[1], data.states.max(axis=0))


def test_one_member_is_the_fit_itself(data):
    fit = Ensemble(RECIPE, 1).fit(data, data, key=jax.random.key(0), score=R2Bar(5))
    assert not isinstance(fit.model.learned, Averaged)
    assert not fit.parts


@dataclass(frozen=True)
class Ending(Once):
    """A fit whose second run ends otherwise."""

    outcome: Outcome = Outcome.DIVERGED

    def fit(self, train, valid, *, key, score, checkpoint=None):
        fit = super().fit(train, valid, key=key, score=score, checkpoint=checkpoint)
        first = (jax.random.key_data(key) == jax.random.key_data(jax.random.key(0))).all()
        return fit if first else replace(fit, outcome=self.outcome)


def test_those_that_diverged_are_left_out_and_an_interrupt_ends_it(data):
    def run(outcome):
        recipe = Ensemble(
            Ending(RECIPE.horizon, network=RECIPE.network, epochs=1, least_steps=1, outcome=outcome), 3
        )
        return recipe.fit(data, data, key=jax.random.key(0), score=R2Bar(5))

    diverged = run(Outcome.DIVERGED)
    assert len(diverged.parts) == 3
    assert not isinstance(diverged.model.learned, Averaged)
    assert diverged.outcome is Outcome.FINISHED  # the one that is left did
    assert diverged.notes == ("Diverged, and not in the model: member_1, member_2.",)
    interrupted = run(Outcome.INTERRUPTED)
    assert len(interrupted.parts) == 2
    assert interrupted.outcome is Outcome.INTERRUPTED


def test_the_steps_of_all_members_count_and_none_is_refused(data):
    assert Ensemble(RECIPE, 3).most_steps(data) == 6000
    with pytest.raises(InputError, match="1 or more"):
        Ensemble(RECIPE, 0)


def same_arrays(one, other):
    leaves = zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True)
    return all(np.array_equal(np.asarray(a), np.asarray(b)) for a, b in leaves if hasattr(a, "shape"))


def test_bootstrapped_members_see_other_episodes_in_their_own_units(data):
    fit = Ensemble(RECIPE, 3, bootstrap=True).fit(data, data, key=jax.random.key(3), score=R2Bar(5))
    models = [part.model for part in fit.parts.values()]
    means = [np.asarray(model.normaliser.state_mean) for model in models]
    assert not np.allclose(means[0], means[1])
    state, action = jnp.asarray(data.states[0], float), jnp.asarray(data.actions[0], float)
    expected = np.mean([model.step(state, action) for model in models], axis=0)
    np.testing.assert_allclose(fit.model.step(state, action), expected, rtol=1e-4, atol=1e-4)
    low = np.min([np.asarray(model.normaliser.state_range)[0] for model in models], axis=0)
    np.testing.assert_array_equal(fit.model.normaliser.state_range[0], low)
    one = data.take([0])
    with pytest.raises(InputError, match="drawn from one alone"):
        Ensemble(RECIPE, 2, bootstrap=True).fit(one, data, key=jax.random.key(0), score=R2Bar(5))


def test_a_killed_ensemble_goes_on_with_its_member(data, tmp_path):
    recipe, given = Ensemble(RECIPE, 2), {"key": jax.random.key(3), "score": R2Bar(5)}
    whole = recipe.fit(data, data, **given, checkpoint=tmp_path / "whole.safetensors")
    first = RECIPE.fit(data, data, **given, checkpoint=tmp_path / "killed_member_0.safetensors")
    again = recipe.fit(data, data, **given, checkpoint=tmp_path / "killed.safetensors")
    assert again.history[0].seconds == first.history[0].seconds  # it was not trained a second time
    assert same_arrays(again.model, whole.model)


@pytest.mark.slow
def test_members_are_fitted_side_by_side(data):
    pytest.importorskip("distributed")
    with jax.enable_x64(False):  # as the workers have it
        given = {"key": jax.random.key(3), "score": R2Bar(5)}
        in_turn = Ensemble(RECIPE, 2).fit(data, data, **given)
        beside = Ensemble(RECIPE, 2, where=Workers(workers=2)).fit(data, data, **given)
    assert list(beside.parts) == list(in_turn.parts)
    for one, other in zip(jax.tree.leaves(beside.model), jax.tree.leaves(in_turn.model), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)
