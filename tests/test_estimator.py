"""`MultiStepRegressor`: scikit-learn's own checks, its tools, and the numbers by another road."""

import pickle
import subprocess
import sys

import jax
import numpy as np
import polars as pl
import pytest
from sklearn.base import clone, is_regressor
from sklearn.linear_model import LinearRegression
from sklearn.metrics import r2_score
from sklearn.model_selection import GridSearchCV, GroupKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import multistep as ms
from multistep.dynamics import CorrectedConfig
from multistep.estimator import MultiStepRegressor
from systems import oscillator_episodes, plant_episodes

WIDTH = (
    "what is predicted are the states one row later, as many as X has, whatever y is: its width cannot be "
    "that of a y of the check's own"
)
EXPECTED = {"check_regressors_train": WIDTH, "check_regressor_multioutput": WIDTH}


@pytest.fixture(autouse=True)
def standard_promotion():
    with jax.numpy_dtype_promotion("standard"):
        yield


@pytest.mark.slow
@parametrize_with_checks(
    [MultiStepRegressor(recipe="linear")],
    expected_failed_checks=lambda estimator: EXPECTED,
    xfail_strict=True,
)
def test_the_checks_of_scikit_learn(estimator, check):
    check(estimator)


def matrix(episodes):
    """Episode, states, inputs; those of the last row, which nobody knows, are zero."""
    parts = [
        np.column_stack([np.full(len(states), number), states, np.append(inputs, 0)])
        for number, (states, inputs, _) in enumerate(episodes)
    ]
    return np.concatenate(parts)


def linear(**changes):
    return MultiStepRegressor(n_inputs=1, episode_feature=True, recipe="linear").set_params(**changes)


@pytest.fixture(scope="module")
def plant():
    return matrix(plant_episodes(num=6, steps=60))


@pytest.fixture(scope="module")
def lagged(plant):
    return linear(lags=3).fit(plant)


def test_a_row_is_predicted_from_its_own_episode():
    """The line by another road, over the transitions within the episodes."""
    X = matrix(oscillator_episodes(6, 40))
    within = np.flatnonzero(np.diff(X[:, 0]) == 0)
    expected = LinearRegression().fit(X[within, 1:], X[within + 1, 1:3]).predict(X[:, 1:])
    found = linear().fit(X).predict(X)
    assert found.shape == (len(X), 2)
    np.testing.assert_allclose(found, expected, atol=1e-4)


def test_lags_are_the_rows_before_in_the_episode(plant, lagged):
    found = lagged.predict(plant)
    for row in (2, 3, 59, 60, 63, 120):
        first = 61 * (row // 61)
        rows = np.maximum(np.arange(row - 2, row + 1), first)  # at the start the first row has stood before
        (expected,) = lagged.model_.rollout(plant[rows, 1:2], plant[rows[:2], 2:], plant[row : row + 1, 2:])
        np.testing.assert_allclose(found[row], expected, rtol=1e-6)
    settled = np.flatnonzero((np.arange(len(plant)) % 61 >= 2) & (np.arange(len(plant)) % 61 < 60))
    np.testing.assert_allclose(found[settled], plant[settled + 1, 1:2], atol=1e-3 * plant[:, 1].std())


def test_the_score_is_r2_averaged_over_the_steps_ahead(plant):
    model = linear(score_horizon=3).fit(plant)
    of_horizons = []
    for horizon in (1, 2, 3):
        rows = np.flatnonzero(np.arange(len(plant)) % 61 <= 60 - horizon)
        ahead = [model.model_.rollout(plant[r, 1:2], plant[r : r + horizon, 2:])[-1] for r in rows]
        of_horizons.append(r2_score(plant[rows + horizon, 1], np.ravel(ahead)))
    assert model.score(plant) == pytest.approx(np.mean(of_horizons), rel=1e-5)
    assert model.score(plant, plant[:, 1:2]) == model.score(plant)


def test_a_simulation_is_a_free_run(plant, lagged):
    other = plant_episodes(num=1, steps=200, seed=1)
    X = matrix(other)
    found = lagged.simulate(X[:3, 1:2], X[:, 2:])
    np.testing.assert_array_equal(found[:3], X[:3, 1:2])
    (run,) = ms.free_run(lagged.model_, other)
    np.testing.assert_allclose(found[3:], run.predicted, rtol=1e-6)
    assert np.abs(found - X[:, 1:2]).max() < 0.01 * X[:, 1].std()


@pytest.mark.slow
def test_the_lags_of_the_plant_are_found_by_a_grid_search(plant):
    search = GridSearchCV(linear(), {"lags": [2, 3]}, cv=GroupKFold(2))
    search.fit(plant, groups=plant[:, 0])
    assert search.best_params_ == {"lags": 3}
    assert search.best_score_ > 0.999 > search.cv_results_["mean_test_score"][0]
    assert search.best_estimator_.n_past_ == 3
    held_out = [plant[:, 0] % 2 == number for number in (0, 1)]  # as GroupKFold deals equal groups
    by_hand = [linear(lags=3).fit(plant[~rows]).score(plant[rows]) for rows in held_out]
    assert search.best_score_ == pytest.approx(np.mean(by_hand), rel=1e-6)


def test_a_scaler_before_it_changes_nothing(plant):
    """The scaler has the column of episodes, too: equal numbers stay equal."""
    alone, scaled = linear(lags=2).fit(plant), make_pipeline(StandardScaler(), linear(lags=2)).fit(plant)
    assert scaled.score(plant) == pytest.approx(alone.score(plant), rel=1e-4)
    back = scaled.predict(plant) * plant[:, 1].std() + plant[:, 1].mean()
    np.testing.assert_allclose(back, alone.predict(plant), rtol=1e-3)


def test_it_is_cloned_and_pickled(plant, lagged):
    again = pickle.loads(pickle.dumps(lagged))
    np.testing.assert_array_equal(again.predict(plant), lagged.predict(plant))
    copy = clone(lagged)
    assert copy.get_params() == lagged.get_params()
    assert not hasattr(copy, "model_")
    assert is_regressor(lagged)


def test_columns_keep_the_names_of_a_table(plant, tmp_path):
    table = pl.DataFrame(plant, schema=["run", "level", "valve"])
    model = linear(lags=2).fit(table)
    assert (model.model_.state_names, model.model_.action_names) == (("level",), ("valve",))
    with pytest.raises(ValueError, match="feature names"):
        model.predict(table.rename({"level": "height"}))
    ms.save_model(model.model_, tmp_path / "model.safetensors")
    again = ms.score(ms.load_model(tmp_path / "model.safetensors"), _episodes(table), horizon=50)
    assert again.r2bar() == pytest.approx(model.score(table), rel=1e-6)


def _episodes(table):
    groups = [group.to_numpy() for group in table.partition_by("run")]
    parts = [(rows[:, 1:2], rows[:-1, 2:]) for rows in groups]
    return ms.Episodes.of(parts, state_names=["level"], action_names=["valve"])


def test_the_same_number_gives_the_same_bits(plant):
    small = ms.Once(
        network=ms.NetworkConfig(hidden_size=4), horizon=2, epochs=1, least_steps=5, weights=ms.Uniform()
    )
    one, again, other = (linear(recipe=small, random_state=seed).fit(plant) for seed in (3, 3, 4))
    np.testing.assert_array_equal(one.predict(plant), again.predict(plant))
    assert (one.predict(plant) != other.predict(plant)).any()


@pytest.mark.slow
def test_the_automatic_recipe_says_what_it_did(plant):
    without = ("small", "averaging", "growing", "cross_fitting")
    quick = ms.Automatic(horizon=2, network=CorrectedConfig(hidden_size=4), without=without)
    model = linear(recipe=quick, budget="1k", hidden=3).fit(plant)
    assert model.notes_[0].startswith("Tried, with the judge's score on one episode: ")
    assert model.n_past_ == 10
    assert model.score(plant) > 0.99


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"n_inputs": 2}, "X has 3 columns, 1 of them of episodes and 2 of inputs"),
        ({"n_inputs": -1}, "The n_inputs is -1: give a whole number, 0 or more"),
        ({"lags": 0}, "The lags is 0: give a whole number, 1 or more, or None, or 'auto'"),
        ({"lags": "many"}, "The lags is 'many'"),
        ({"lags": "auto"}, "belongs to the automatic recipe"),
        ({"hidden": 1.5}, "The hidden is 1.5"),
        ({"lags": 70}, "held out for validation has 61 rows, but the model starts from 70 samples"),
        ({"recipe": "best"}, "There is no recipe 'best'"),
        ({"recipe": 3}, "The recipe is 3: give a name, or an object"),
        ({"budget": "60s"}, "The budget '60s' belongs to the automatic recipe"),
        ({"recipe": "automatic", "budget": "soon"}, "The budget is soon: write a time"),
        ({"score_horizon": 0}, "The score_horizon is 0"),
        ({"validation_fraction": 1.0}, "The validation_fraction is 1.0: give a share"),
    ],
)
def test_what_cannot_be_fitted_gets_a_sentence(plant, changes, words):
    with pytest.raises(ms.InputError, match=words):
        linear(**changes).fit(plant)


def test_what_a_model_with_lags_cannot_start_from_gets_a_sentence(plant, lagged):
    for call, words in (
        (
            lambda: lagged.predict(plant[:2]),
            "starts from 3 samples, but the episode from row 0 of X on has 2",
        ),
        (
            lambda: lagged.simulate(plant[:1, 1:2], plant[:, 2:]),
            r"X0 has shape \(1, 1\).*give X0 3 rows of 1",
        ),
        (lambda: lagged.simulate(plant[:3, 1:2], plant[:3, 2:]), r"U has shape \(3, 1\).*more than 3 rows"),
        (lambda: lagged.score(plant[:3]), "nothing to score: the model starts from 3 samples, .* has 3"),
        (lambda: lagged.predict(plant[::-61][[0, 1, 0]]), "starts a second time in row 2"),
        (lambda: linear(lags=3).fit(plant[:8]), "X is one episode of 8 rows .*: give 9 or more"),
    ):
        with pytest.raises(ms.InputError, match=words):
            call()


def test_scikit_learn_is_imported_by_those_alone_who_ask_for_it():
    program = (
        "import sys, multistep as ms; ms.fit; print('sklearn' in sys.modules)\n"
        "sys.modules['sklearn'] = None\n"
        "try: ms.MultiStepRegressor\nexcept ms.InputError as error: print(error)"
    )
    answer = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert answer.stdout.splitlines() == [
        "False",
        "MultiStepRegressor needs scikit-learn 1.6 or later: install multistep with the extra 'sklearn' "
        "(multistep[sklearn]).",
    ]
