import pytest

from multistep.losses import Custom
from multistep.training import Epoch, Growing, Lesson, Once, Outcome
from multistep.training.curricula import AGAIN, LENIENCE

SETTINGS = Once(horizon=16)


def count_windows(horizon):
    return 3200 - horizon


def history(curriculum, score_of, steepness_of=lambda horizon: 1.0):
    """The epochs that the curriculum asks for, with these scores, and why it ended."""
    epochs = ()
    while isinstance(lesson := curriculum.next(epochs, SETTINGS, count_windows), Lesson):
        errors = (1.0,) * lesson.horizon
        score = score_of(len(epochs))
        epochs = (*epochs, Epoch(len(epochs), errors, errors, score, 0.0, steepness_of(lesson.horizon)))
    return epochs, lesson


def rising(number):
    return 1 - 0.9**number


def test_each_horizon_has_as_many_epochs_and_all_together_the_model_steps():
    curriculum = Growing(model_steps=16 * 100 * 3 * (2 + 4 + 8 + 16), batch_size=16, epoch_steps=100)
    epochs, outcome = history(curriculum, rising)
    assert [epoch.horizon for epoch in epochs] == [2] * 3 + [4] * 3 + [8] * 3 + [16] * 3
    assert outcome is Outcome.FINISHED
    assert len(epochs) == curriculum.num_epochs(SETTINGS, count_windows)
    assert curriculum.most_steps(SETTINGS, count_windows) == curriculum.model_steps


def test_the_rate_falls_along_a_cosine_to_zero():
    curriculum = Growing(model_steps=16 * 100 * 3 * 30, batch_size=16, epoch_steps=100)
    epochs, _ = history(curriculum, rising)
    lessons = [curriculum.next(epochs[:number], SETTINGS, count_windows) for number in range(len(epochs))]
    rates = [rate for lesson in lessons for rate in lesson.learning_rates]
    assert rates == sorted(rates, reverse=True)
    assert rates[0] == SETTINGS.learning_rate
    assert rates[-1] < 1e-4 * rates[0]
    half = lessons[9].learning_rates[0]  # before the last horizon 14 of 30 parts are done
    assert 0.5 * rates[0] < half < 0.6 * rates[0]


def test_the_next_horizon_comes_early_where_the_score_no_longer_rises():
    curriculum = Growing(model_steps=16 * 100 * 20 * 30, batch_size=16, epoch_steps=100)
    epochs, outcome = history(curriculum, lambda number: 0.5)
    lengths = [sum(epoch.horizon == horizon for epoch in epochs) for horizon in (2, 4, 8, 16)]
    assert lengths == [5, 5, 5, 20]  # the last one goes on to the end of its learning rate
    assert outcome is Outcome.FINISHED


def test_the_horizon_stops_growing_where_the_gradient_explodes():
    curriculum = Growing(model_steps=16 * 100 * 3 * 30, batch_size=16, epoch_steps=100)
    epochs, outcome = history(curriculum, rising, lambda horizon: 1e3 if horizon > 2 else 1.0)
    assert [epoch.horizon for epoch in epochs] == [2] * 3 + [4] * 9
    assert outcome is Outcome.FINISHED


def test_one_stage_is_the_horizon_that_was_asked_for():
    epochs, _ = history(
        Growing(model_steps=16 * 100 * 16 * 2, stages=1, batch_size=16, epoch_steps=100), rising
    )
    assert [epoch.horizon for epoch in epochs] == [16, 16]


def test_the_last_horizon_is_repeated_while_that_is_of_use():
    curriculum = Growing(model_steps=16 * 100 * 3 * 30, batch_size=16, epoch_steps=100, repeats=4)
    epochs, outcome = history(curriculum, rising)
    assert [epoch.horizon for epoch in epochs[9:]] == [16] * 3 * 5
    assert outcome is Outcome.FINISHED
    assert len(epochs) == curriculum.num_epochs(SETTINGS, count_windows)
    assert curriculum.most_steps(SETTINGS, count_windows) == 16 * 100 * 3 * (30 + 4 * 16)
    epochs, outcome = history(curriculum, lambda number: rising(min(number, 14)))
    assert len(epochs) == 18  # the second time was of no use
    assert outcome is Outcome.STOPPED_EARLY
    rates = [curriculum.next(epochs[:number], SETTINGS, count_windows).learning_rates for number in (12, 14)]
    assert rates[0][0] == pytest.approx(AGAIN * SETTINGS.learning_rate)
    assert rates[1][-1] < 1e-3 * SETTINGS.learning_rate


def test_a_repeat_has_the_horizon_at_which_growing_stopped():
    curriculum = Growing(model_steps=16 * 100 * 3 * 30, batch_size=16, epoch_steps=100, repeats=1)
    epochs, _ = history(curriculum, rising, lambda horizon: 1e3 if horizon > 2 else 1.0)
    assert [epoch.horizon for epoch in epochs] == [2] * 3 + [4] * 12


def epochs_with(*scores):
    return tuple(Epoch(number, (1.0,), (1.0,), score, 0.0) for number, score in enumerate(scores))


def test_the_last_epoch_is_kept_if_it_is_about_as_good():
    assert Growing().best(epochs_with(0.5, 0.8, 0.79)).number == 2
    assert Growing().best(epochs_with(0.5, 0.8, 0.8 - 1.01 * LENIENCE * 0.2)).number == 1
    assert Growing().best(epochs_with(float("-inf"), float("-inf"))).number == 1
    assert Growing().best(()) is None


def test_weights_that_are_given_one_by_one_have_one_horizon():
    settings = Once(horizon=4, weights=Custom((0.4, 0.3, 0.2, 0.1)))
    assert Growing().horizons(settings) == (4,)
    assert Growing().horizons(Once(horizon=4)) == (1, 2, 4)
