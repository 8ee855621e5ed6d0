import math

import jax
import pytest

from multistep.data import first_pieces
from multistep.dynamics import HiddenState, Lags, Persistence
from multistep.errors import InputError
from multistep.evaluation import FreeRunR2, R2Bar
from multistep.selection import lags, plant
from multistep.selection.automatic import Automatic
from multistep.selection.budget import Budget
from multistep.selection.lags import ChosenMemory, choose_memory, describe, quick_recipes, shortest
from multistep.selection.plant import OnBoth, small_recipe
from systems import plant_episodes


@pytest.fixture(autouse=True)
def few_candidates(monkeypatch):
    monkeypatch.setattr(lags, "LAGS", (1, 3, 5))
    monkeypatch.setattr(lags, "MORE_NUMBERS", (2,))


@pytest.mark.slow
def test_the_shortest_memory_that_explains_the_plant_is_chosen():
    train, valid = plant_episodes(num=3), plant_episodes(num=2, seed=1)
    memories, judged = choose_memory(train, valid, key=jax.random.key(0), score=FreeRunR2())
    assert memories[0] == Lags(3)
    assert [type(each) for each in memories[1:]] in ([], [HiddenState])
    assert judged[Lags(3)] > 0.999 > judged[Lags(1)]
    assert any(isinstance(each, HiddenState) for each in judged)


@pytest.mark.slow
def test_the_automatic_recipe_says_what_memory_it_took():
    train, valid = plant_episodes(num=3), plant_episodes(num=2, seed=1)
    recipe = Automatic(memory=ChosenMemory(), budget="50k", without=("cross_fitting", "calibration"))
    fit = recipe.fit(train, valid, key=jax.random.key(0), score=FreeRunR2())
    assert fit.model.num_past == 3
    assert any(note.startswith("Memory: 3 lags, of a hidden state of 3 numbers ") for note in fit.notes)
    assert set(fit.parts) == {"linear", "small"}
    assert fit.judged[fit.chosen] == max(fit.judged.values()) > 0.999


def test_the_memory_is_chosen_by_small_networks():
    recipe = Automatic(memory=ChosenMemory(), without=("small",))
    with pytest.raises(InputError, match="do not leave them out"):
        recipe.fit(plant_episodes(num=3), plant_episodes(num=2), key=jax.random.key(0), score=FreeRunR2())


@pytest.mark.slow
def test_no_memory_starts_from_more_outputs_than_it_may():
    train, valid = plant_episodes(num=3), plant_episodes(num=2, seed=1)
    _, judged = choose_memory(train, valid, key=jax.random.key(0), score=FreeRunR2(), most=2)
    assert set(judged) == {Lags(1), HiddenState(3, 2)}


def test_in_words():
    assert [describe(each) for each in (Lags(1), Lags(2), HiddenState(4))] == [
        "one sample",
        "2 lags",
        "a hidden state of 4 numbers",
    ]


def test_a_simulator_is_judged_on_the_records_of_the_training_too():
    train, valid = plant_episodes(num=2), plant_episodes(num=1, seed=1)
    scores = {train.num_steps: 0.2, valid.num_steps: 0.9}
    judge = OnBoth(lambda model, episodes: scores[episodes.num_steps], train)
    assert judge(Persistence(), valid) == 0.2


def test_rollouts_are_as_long_as_what_is_asked_for():
    pool = plant_episodes(num=2)
    longest = int(pool.lengths.max())

    def horizons(score, folds):
        return small_recipe(Lags(2), 5, score, pool, folds, Budget()).horizons

    assert horizons(R2Bar(10), 2) == (50, 300)
    assert horizons(FreeRunR2(), 2) == (50, max(300, longest))
    # Where records are long: through more and more of them, and in the end through the whole.
    assert horizons(FreeRunR2(), 0) == (*(each for each in (50, 300, 2000) if each < longest), longest)


def test_one_start_has_to_do_where_an_iteration_is_long(monkeypatch):
    pool = plant_episodes(num=2)

    def starts(folds):
        return small_recipe(Lags(2), 5, FreeRunR2(), pool, folds, Budget()).starts

    assert (starts(2), starts(0)) == (plant.STARTS, plant.MORE_STARTS)
    # A line of two outputs and two inputs, five units: as many multiplications as a hand counts.
    weights = 4 + 1 + 5 * (4 + 1 + 1)
    monkeypatch.setattr(plant, "MOST_WORK", pool.num_steps * weights**2)
    assert starts(0) == plant.MORE_STARTS
    monkeypatch.setattr(plant, "MOST_WORK", pool.num_steps * weights**2 - 1)
    assert starts(0) == 1


def test_a_large_hidden_state_is_tried_where_there_are_data_enough(monkeypatch):
    train, large = plant_episodes(num=2), 1 + lags.MOST_NUMBERS

    def sizes():
        tried = quick_recipes(train, train, FreeRunR2())
        return [each.size for each in tried if isinstance(each, HiddenState)]

    assert large not in sizes()
    monkeypatch.setattr(lags, "FEW", train.num_steps - 1)
    assert large in sizes()


def test_a_hidden_state_that_its_past_cannot_start_is_refused_and_not_tried():
    train = plant_episodes(num=2)
    with pytest.raises(InputError, match="5 numbers cannot be read from a past of 1 number"):
        Automatic(memory=HiddenState(5, 1)).fit(train, train, key=jax.random.key(0), score=FreeRunR2())
    tried = quick_recipes(train, train, FreeRunR2(), most=2)
    assert HiddenState(3, 2) in tried  # two outputs and the input between them
    assert not any(isinstance(each, HiddenState) and each.size > 3 for each in tried)


def test_a_short_validation_episode_does_not_shorten_the_memories_of_few_episodes():
    train, short = plant_episodes(num=4), first_pieces(plant_episodes(num=1, seed=1), 3)
    assert Lags(5) in quick_recipes(train, short, FreeRunR2())


def test_the_shortest_of_what_is_about_as_good():
    judged = {Lags(2): 0.979, Lags(5): 0.98, HiddenState(3): 0.9795, Lags(1): 0.97}
    assert shortest(list(judged), judged, 1) == Lags(2)
    assert shortest(list(judged), judged | {HiddenState(3): 0.999}, 1) == HiddenState(3)
    assert shortest([Lags(5), Lags(2)], {Lags(2): -math.inf, Lags(5): -math.inf}, 1) == Lags(2)


@pytest.mark.slow
def test_where_no_small_network_can_be_made_it_goes_without_a_memory(monkeypatch):
    monkeypatch.setattr(lags, "is_small", lambda memory, episodes: False)
    train = plant_episodes(num=2)
    recipe = Automatic(
        memory=ChosenMemory(), budget="2k", without=("smoothing", "cross_fitting", "calibration")
    )
    fit = recipe.fit(train, train, key=jax.random.key(0), score=R2Bar(5))
    assert fit.model.num_past == 1
    assert fit.notes[-1].startswith("Memory: none; of so many outputs")
