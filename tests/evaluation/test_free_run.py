from dataclasses import replace
from importlib import import_module

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from multistep.data import Episodes
from multistep.dynamics import AbstractModel, Persistence
from multistep.errors import InputError
from multistep.evaluation import FreeRunR2, free_run, free_run_scores
from multistep.training import LeastSquares

module = import_module("multistep.evaluation.free_run")  # the package has the function of that name


class Decay(AbstractModel):
    def step(self, state, action):
        return 0.5 * state + action


def episodes(lengths=(7, 4), seed=0):
    rng = np.random.default_rng(seed)
    return Episodes.of(
        [(rng.normal(size=(n + 1, 2)), rng.normal(size=(n, 2))) for n in lengths], state_names=["a", "b"]
    )


def test_each_episode_is_simulated_from_its_first_state_alone():
    data = episodes()
    for number, run in enumerate(free_run(Decay(), data)):
        states, actions, _ = data[number]
        state, expected = states[0], []
        for action in actions:
            state = 0.5 * state + action
            expected.append(state)
        np.testing.assert_allclose(run.predicted, expected, rtol=1e-5, atol=1e-6)
        np.testing.assert_array_equal(run.measured, states[1:])
        assert run.episode == number


def test_samples_that_the_rules_give_are_not_scored():
    data = episodes()
    run = free_run(Decay(), data, num_past=3)[0]
    states, actions, _ = data[0]
    np.testing.assert_allclose(run.predicted[0], 0.5 * states[2] + actions[2], rtol=1e-5)
    assert len(run.predicted) == 5


def test_errors_are_in_units_and_relative_to_the_deviation():
    data = episodes(lengths=(200, 100))
    runs = free_run(Decay(), data)
    scores = free_run_scores(runs, data.state_names)
    errors = np.concatenate([run.measured - run.predicted for run in runs])
    measured = np.concatenate([run.measured for run in runs])
    np.testing.assert_allclose(scores.rmse, np.sqrt((errors**2).mean(axis=0)), rtol=1e-6)
    around = np.linalg.norm(measured - measured.mean(axis=0), axis=0)
    fit = 100 * (1 - np.linalg.norm(errors, axis=0) / around)
    np.testing.assert_allclose(scores.fit_percent, fit, rtol=1e-6)
    explained = 1 - (errors**2).sum(axis=0) / ((measured - measured.mean(axis=0)) ** 2).sum(axis=0)
    assert scores.r2 == pytest.approx(explained.mean())
    assert FreeRunR2()(Decay(), data) == pytest.approx(explained.mean())


def test_an_output_that_never_changes_has_no_share():
    constant = Episodes.of([(np.stack([np.arange(9.0), np.ones(9)], axis=1), np.zeros((8, 1)))])
    scores = free_run_scores(free_run(Persistence(), constant), constant.state_names)
    assert np.isnan(scores.nrmse[1])
    assert scores.rmse[1] == 0
    assert np.isfinite(scores.r2)


class Explode(AbstractModel):
    def step(self, state, action):
        return 1e100 * (1 + jnp.abs(state))


def test_a_run_that_leaves_the_finite_range_has_an_infinite_error():
    (run,) = free_run(Explode(), episodes(lengths=(5,)))
    assert np.isinf(run.rmse).all()


def test_too_few_samples_are_refused():
    with pytest.raises(InputError, match="No episode is long enough"):
        free_run(Decay(), episodes(), num_past=9)
    with pytest.raises(InputError, match="needs 1 to start"):
        free_run(Decay(), episodes(), num_past=0)


def test_episodes_are_simulated_beside_those_of_about_their_length(monkeypatch):
    sizes = []
    simulate = module._simulate

    def counted(model, states, actions):
        sizes.append(actions.shape[:2])
        return simulate(model, states, actions)

    monkeypatch.setattr(module, "_simulate", counted)
    monkeypatch.setattr(module, "MOST_AT_ONCE", 3)
    data = episodes(lengths=(5, 900, 7, 2, 6, 8, 3))
    runs = free_run(Decay(), data, num_past=3)
    assert sizes == [(1, 900), (3, 8), (2, 5)]  # the one of two steps has no three outputs and a fourth
    assert [run.episode for run in runs] == [0, 1, 2, 4, 5, 6]
    for run in runs:
        alone = free_run(Decay(), data.take([run.episode]), num_past=3)[0]
        np.testing.assert_array_equal(run.measured, alone.measured)
        np.testing.assert_allclose(run.predicted, alone.predicted, rtol=1e-12)
        assert run.predicted.base is None  # nothing of what others are padded with is kept


def test_records_of_another_time_step_are_refused():
    data = replace(episodes((30, 30)), time_step=0.05)
    model = LeastSquares().fit(data, data, key=jax.random.key(0), score=lambda *_: 0.0).model
    assert len(free_run(model, data)) == 2
    with pytest.raises(InputError, match=r"step is 0\.05"):
        free_run(model, replace(data, time_step=0.1))
