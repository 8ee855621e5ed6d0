import math

import jax
import pytest

from multistep.training import Epoch, Fit, LeastSquares, Outcome, QuasiNewton
from multistep.training.history import rankable
from systems import oscillator_episodes


def epoch(number, score):
    return Epoch(number, (1.0,), (1.0,), score, 0.0)


def test_what_is_not_a_number_ranks_last():
    assert [rankable(score) for score in (0.5, math.nan, -math.inf)] == [0.5, -math.inf, -math.inf]


def test_the_best_score_is_that_of_the_epoch_that_is_kept():
    history = (epoch(0, 0.3), epoch(1, 0.7))
    assert Fit(None, history, Outcome.FINISHED).best_score == 0.7
    assert Fit(None, history, Outcome.FINISHED, kept=history[0]).best_score == 0.3
    assert Fit(None, (), Outcome.INTERRUPTED).best_score == -math.inf


@pytest.mark.parametrize(
    "recipe", [LeastSquares(), QuasiNewton(starts=1, adam_steps=1, rounds=1, iterations=1, horizon=2)]
)
@pytest.mark.parametrize("score", [math.nan, -math.inf])
def test_a_score_that_is_not_finite_is_not_made_a_number(recipe, score):
    episodes = oscillator_episodes(2, 10)
    fit = recipe.fit(episodes, episodes, key=jax.random.key(0), score=lambda *_: score)
    assert fit.best_score == -math.inf
    assert not any(epoch.is_scored for epoch in fit.history)
