from dataclasses import replace
from types import SimpleNamespace

import jax
import numpy as np
import pytest

import multistep as ms
from multistep.data import join
from multistep.dynamics import CorrectedConfig
from multistep.selection import automatic, lengths
from multistep.selection.automatic import Automatic
from multistep.selection.budget import Budget, seconds_spent
from multistep.selection.folds import deal_folds
from multistep.selection.recipes import RECIPES
from multistep.selection.tried import NAMES, Tried
from multistep.training import Epoch, Fit, LeastSquares, Outcome
from systems import LinearModel, oscillator_episodes

SCORE = ms.R2Bar(10)
SMALL = {"horizon": 8, "network": CorrectedConfig(hidden_size=8), "budget": "60k"}


@pytest.fixture(autouse=True)
def standard_promotion():
    with jax.numpy_dtype_promotion("standard"):
        yield


@pytest.fixture(scope="module")
def data():
    train, valid = oscillator_episodes(8, 60, noise=0.1), oscillator_episodes(4, 60, noise=0.1, seed=1)
    return train, valid


@pytest.fixture(scope="module")
def fitted(data):
    with jax.numpy_dtype_promotion("standard"):
        return Automatic(**SMALL, without=("cross_fitting",)).fit(*data, key=jax.random.key(0), score=SCORE)


def test_it_is_what_fit_does_and_what_can_be_typed():
    import inspect

    assert inspect.signature(ms.fit).parameters["recipe"].default == Automatic()
    assert RECIPES.find("automatic", ms.Once()) == Automatic()
    assert RECIPES.find("automatic", ms.Once(horizon=7)).horizon == 7
    with pytest.raises(
        ms.InputError, match=r"chooses network, length and step size .*: leave those options out"
    ):
        RECIPES.find("automatic", ms.Once(epochs=3))


@pytest.mark.slow
def test_it_tries_judges_and_says_why(fitted, data):
    assert list(fitted.parts) == ["linear", "small", "first", "second"]
    assert set(fitted.judged) == set(fitted.parts)
    assert fitted.model.learned is fitted.parts[fitted.chosen].model.learned
    assert fitted.model.uncertainty is not None
    assert len(fitted.notes) == 3
    assert fitted.notes[0].startswith("Tried, with the judge's score on 4 episodes: ")
    assert fitted.notes[1].startswith("Chosen: ")
    assert fitted.notes[2].startswith("Trained with a horizon of ")
    np.testing.assert_allclose(np.asarray(fitted.observer.measurement_noise), 0.1, rtol=0.5)
    # On a linear plant nothing is much better than the line, and what is chosen is no worse.
    assert 1 - fitted.judged[fitted.chosen] < 1.3 * (1 - max(fitted.judged.values()))


@pytest.mark.slow
def test_what_is_killed_goes_on_to_the_same_bits(data, tmp_path, monkeypatch):
    recipe = Automatic(**SMALL, without=("small", "cross_fitting", "calibration"))
    given = {"key": jax.random.key(0), "score": SCORE}
    whole = recipe.fit(*data, **given)
    file = tmp_path / "checkpoint.safetensors"
    calls = 0

    def interrupted(model, episodes):
        nonlocal calls
        calls += 1
        if calls == 5:
            raise KeyboardInterrupt
        return SCORE(model, episodes)

    interrupted.__qualname__ = "score"
    stopped = recipe.fit(*data, key=jax.random.key(0), score=interrupted, checkpoint=file)
    assert stopped.outcome is Outcome.INTERRUPTED
    assert stopped.parts
    goes_on = recipe.fit(*data, key=jax.random.key(0), score=interrupted, checkpoint=file)
    assert goes_on.outcome is Outcome.FINISHED
    for one, other in zip(
        jax.tree.leaves(whole.parts["first"].model),
        jax.tree.leaves(goes_on.parts["first"].model),
        strict=True,
    ):
        np.testing.assert_array_equal(one, other)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("without", "parts"),
    [
        (("linear", "small"), ["first", "second"]),
        (("small", "smoothing", "growing"), ["linear", "first", "second"]),
    ],
)
def test_every_step_can_be_left_out(data, without, parts):
    fit = Automatic(**SMALL, without=(*without, "cross_fitting", "calibration")).fit(
        *data, key=jax.random.key(0), score=SCORE
    )
    assert list(fit.parts) == parts
    horizons = {epoch.horizon for epoch in fit.parts["second"].history}
    assert horizons == ({8} if "growing" in without else {1, 2, 4, 8})
    assert (fit.observer is None) == ("smoothing" in without)
    with pytest.raises(ms.InputError, match="no step lines to leave out: name one of linear, small"):
        Automatic(without=("lines",))


@pytest.mark.slow
def test_few_episodes_judge_once_each_and_are_all_fitted(data, monkeypatch):
    train, valid = (part.take(range(3)) for part in data)
    recipe = Automatic(**SMALL | {"budget": "100k"}, without=("small", "smoothing", "calibration"))
    monkeypatch.setattr(automatic.Tried, "is_clear", False)
    monkeypatch.setattr(lengths, "PASSES", 20)
    found = recipe.fit(train, valid, key=jax.random.key(0), score=SCORE)
    assert "on 6 episodes" in found.notes[0]
    assert found.judged[found.chosen] == max(found.judged.values())
    assert found.notes[-1] == "Fitted again to all episodes, those of the validation too."
    # The linear part by another road: each third or so of the episodes, forecast by the line of the others.
    pool = join(train, valid)
    scores = []
    for fold in deal_folds(6, 4, valid_share=0.0, key=jax.random.key(0)):
        own = LeastSquares().fit(pool.take(fold.train), pool, key=jax.random.key(0), score=SCORE).model
        scores.append(SCORE(own, pool.take(fold.test)))
    np.testing.assert_allclose(found.judged["linear"], np.mean(scores), rtol=1e-6)


@pytest.mark.slow
def test_epochs_are_scored_on_some_of_many_validation_steps_and_parts_on_all(data, monkeypatch):
    monkeypatch.setattr(automatic, "LOOKED_AT", 60)
    seen = []

    def score(model, episodes):
        seen.append(episodes.num_steps)
        return SCORE(model, episodes)

    recipe = Automatic(**SMALL, without=("small", "smoothing", "cross_fitting", "calibration"))
    fit = recipe.fit(*data, key=jax.random.key(0), score=score)
    looks = sum(len(part.history) for part in fit.parts.values())
    assert len(seen) > looks > 0
    assert max(seen[:looks]) <= 72
    assert seen[looks:] == [240] * len(fit.parts)
    assert "on 4 episodes" in fit.notes[0]


@pytest.fixture
def pretended(monkeypatch):
    """What is tried, on what episodes: a line and a large network that nobody fits; a call that is asked to
    is interrupted."""
    calls, stops = [], {}

    def pretend(recipe, train, valid, key, score, checkpoint=None, ways=tuple(NAMES)):
        calls.append((train, valid, ways))
        if len(calls) in stops:
            raise stops[len(calls)]
        parts = {name: fit_of(1 - 0.1 * len(calls) * number) for number, name in enumerate(ways)}
        return Tried(
            parts, {name: SCORE(part.model, valid) for name, part in parts.items()}, SCORE, valid, None, ()
        )

    monkeypatch.setattr(Automatic, "_try", pretend)
    monkeypatch.setattr(automatic.Tried, "is_clear", False)
    return calls, stops


def fit_of(factor):
    """A model that is right with a factor of 1."""
    transition, push = np.array([[0.99, 0.1], [-0.1, 0.97]]), np.array([[0.0], [0.1]])
    model = LinearModel(jax.numpy.asarray(transition * factor), jax.numpy.asarray(push))
    return Fit(model, (Epoch(0, (1.0,), (1.0,), factor, 0.0),), Outcome.FINISHED)


@pytest.mark.parametrize("stop", [KeyboardInterrupt(), automatic._Interrupted(fit_of(0.5))])
@pytest.mark.parametrize("call", [2, 5, 6])
def test_what_is_interrupted_while_folds_are_fitted_leaves_the_best_of_all_episodes(
    data, pretended, stop, call
):
    pretended[1][call] = stop
    found = Automatic().fit(*data, key=jax.random.key(0), score=SCORE)
    assert len(pretended[0]) == call
    assert found.outcome is Outcome.INTERRUPTED
    assert found.notes[-1] == "It was interrupted."
    assert found.model is found.parts[found.chosen].model
    np.testing.assert_array_equal(found.model.transition, fit_of(1.0).model.transition)
    assert "on 4 episodes" in found.notes[0]


def test_episodes_that_train_and_validate_are_in_one_fold(data, pretended):
    train, _ = data
    Automatic().fit(train, train.take([1, 5]), key=jax.random.key(0), score=SCORE)
    (_, *folds, (pool, _, _)) = pretended[0]
    assert len(pool) == 8
    assert sorted(len(test) for _, test, _ in folds) == [2, 2, 2, 2]


@pytest.mark.parametrize(
    ("text", "budget"),
    [
        ("60s", Budget(seconds=60)),
        ("1.5min", Budget(seconds=90)),
        ("1h", Budget(seconds=3600)),
        ("20M", Budget(model_steps=20_000_000)),
        ("500k", Budget(model_steps=500_000)),
    ],
)
def test_budgets_as_typed(text, budget):
    assert Budget.parse(text) == budget


@pytest.mark.parametrize("text", ["60", "0s", "fast", "-3min"])
def test_what_is_no_budget_gets_a_sentence(text):
    with pytest.raises(
        ms.InputError, match="write a time, as in 60s, 5min or 1h, or a number of model steps"
    ):
        Automatic(budget=text)


@pytest.mark.slow
def test_a_budget_of_time_leaves_out_what_would_take_longer(data, monkeypatch):
    monkeypatch.setattr(automatic.Tried, "is_clear", False)
    recipe = Automatic(**SMALL | {"budget": "1s"}, without=("small", "calibration"))
    found = recipe.fit(*data, key=jax.random.key(0), score=SCORE)
    assert "on 4 episodes" in found.notes[0]  # of the validation: there is no time for every one to judge


@pytest.mark.slow
def test_everything_before_the_longer_fit_counts_as_spent(data, monkeypatch, tmp_path):
    """The line takes a minute and a half by a clock that nothing else moves."""
    now = [0.0]
    monkeypatch.setattr(automatic, "time", SimpleNamespace(perf_counter=lambda: now[0]))
    monkeypatch.setattr(lengths, "PASSES", 20)
    fit_line = LeastSquares.fit

    def slowly(*given, **named):
        now[0] += 90
        return fit_line(*given, **named)

    monkeypatch.setattr(LeastSquares, "fit", slowly)
    recipe = Automatic(
        **SMALL | {"budget": "100s"}, without=("small", "smoothing", "cross_fitting", "calibration")
    )
    given = {"key": jax.random.key(0), "score": SCORE, "checkpoint": tmp_path / "fit.safetensors"}
    found = recipe.fit(*data, **given)
    assert list(found.parts) == ["linear", "first"]
    # Who goes on after a kill comes to the same steps, however long it takes now.
    now[0] = -1e6
    monkeypatch.setattr(LeastSquares, "fit", fit_line)
    assert list(recipe.fit(*data, **given).parts) == ["linear", "first"]


def test_what_is_left_is_used_at_the_speed_of_the_first_fit(data):
    history = tuple(Epoch(number, (1.0,), (1.0,), 0.5, 0.5) for number in range(4))
    rough, budget = replace(fit_of(1.0), history=history), Budget(seconds=20)
    first = lengths.first_steps(data[0], budget)
    left = [lengths.second_steps(data[0], budget, rough, spent=spent) for spent in (2.0, 10.0, 19.0)]
    assert left == [7 * first, 3 * first, 0]  # of four fifths of the twenty seconds


def test_seconds_that_were_spent_are_those_of_the_same_fit(tmp_path):
    file = tmp_path / "spent.json"
    assert seconds_spent(3.0, None, "one") == 3.0
    assert [seconds_spent(seconds, file, "one") for seconds in (3.0, 5.0)] == [3.0, 3.0]
    assert seconds_spent(5.0, file, "other") == 5.0
    file.write_text("[")
    assert seconds_spent(7.0, file, "other") == 7.0


def test_model_steps_stay_within_the_budget(data):
    recipe = Automatic(budget="30k")
    assert recipe.most_steps(data[0]) == 30_000
    assert Automatic().most_steps(data[0]) == 480 * (250 + 1000)  # as many passes over so few steps


def test_the_longer_trained_is_kept_unless_it_is_worse_by_more_than_a_standard_error():
    """Linear models that are off by more and more: the judge's numbers are known from the episodes alone."""
    truth = np.array([[0.99, 0.1], [-0.1, 0.97]])
    valid = oscillator_episodes(6, 40, noise=0.3, seed=2)

    def tried(**factors):
        parts = {
            name: Fit(
                LinearModel(jax.numpy.asarray(truth * factor), jax.numpy.asarray([[0.0], [0.1]])),
                (Epoch(0, (1.0,), (1.0,), 0.0, 0.0),),
                Outcome.FINISHED,
            )
            for name, factor in factors.items()
        }
        judged = {name: SCORE(part.model, valid) for name, part in parts.items()}
        return Tried(parts, judged, SCORE, valid, None, ())

    assert tried(linear=1.0, second=0.999).chosen == "second"
    assert tried(linear=1.0, second=0.5).chosen == "linear"
    far = tried(first=1.0, second=0.5)
    assert far.is_clear
    gains = far.gains("first", "second")
    np.testing.assert_allclose(gains.sum(), far.judged["first"] - far.judged["second"], rtol=1e-5)
    assert far.fit(valid).notes[1].startswith("Chosen: a large network, ahead of large networks, trained for")
