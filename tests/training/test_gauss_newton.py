import jax
import numpy as np
import pytest

import multistep as ms
from multistep.dynamics import HiddenConfig, ShallowConfig
from multistep.errors import InputError
from multistep.evaluation import FreeRunR2
from multistep.training import GaussNewton, LeastSquares, Outcome
from systems import oscillator_episodes, plant_episodes, random_episodes
from training.test_quasi_newton import pendulum

SHORT = {"starts": 2, "rounds": 2, "iterations": 2, "horizons": (20,)}


@pytest.mark.slow
def test_a_pendulum_is_found_by_few_iterations():
    train, valid, score = pendulum(6, 0), pendulum(3, 1), ms.R2Bar(40)
    linear = LeastSquares().fit(train, valid, key=jax.random.key(0), score=score)
    small = GaussNewton(starts=2, rounds=8).fit(train, valid, key=jax.random.key(0), score=score)
    # The first look is at the line, without a ridge of its own.
    assert small.history[0].score == pytest.approx(linear.best_epoch.score, abs=0.02)
    assert 1 - small.best_epoch.score < 0.01 * (1 - linear.best_epoch.score)
    assert small.best_epoch.score == pytest.approx(score(small.model, valid), abs=1e-6)


@pytest.mark.slow
def test_a_hidden_state_simulates_a_plant_of_which_one_output_is_seen():
    train, valid = plant_episodes(num=4), plant_episodes(num=2, seed=1)
    network = HiddenConfig(3, 6, ShallowConfig(2), encoder_size=0)
    fit = GaussNewton(network, **SHORT).fit(train, valid, key=jax.random.key(0), score=FreeRunR2())
    assert fit.best_epoch.score > 0.9999
    assert fit.model.num_past == 6


@pytest.mark.slow
def test_with_folds_nothing_is_judged_by_a_model_that_has_seen_it():
    """One of the episodes is of another plant: those who have not seen it cannot predict it."""
    alike, odd = oscillator_episodes(3, 30), random_episodes([30], state_size=2, action_size=1)
    odd = ms.Episodes.of(
        [(odd.states, odd.actions)], state_names=alike.state_names, action_names=alike.action_names
    )

    def never(model, episodes):
        raise AssertionError("the folds judge")

    options = SHORT | {"judged": 5}
    recipe = GaussNewton(ShallowConfig(8), folds=4, ridges=(1e-2, 1e-6), **options)
    fit = recipe.fit(alike, odd, key=jax.random.key(0), score=never)
    known = GaussNewton(ShallowConfig(8), ridges=(1e-6,), **options)
    known = known.fit(alike, alike, key=jax.random.key(0), score=ms.R2Bar(5))
    assert fit.best_epoch.score < 0.9 < known.best_epoch.score


@pytest.mark.slow
def test_a_longer_horizon_goes_on_from_the_best_and_is_left_if_it_does_not_help():
    train, valid = oscillator_episodes(4, 60, noise=0.02), oscillator_episodes(2, 60, noise=0.02, seed=1)
    recipe = GaussNewton(ShallowConfig(2), horizons=(5, 30), starts=1, rounds=2, iterations=2)
    fit = recipe.fit(train, valid, key=jax.random.key(0), score=ms.R2Bar(10))
    assert [epoch.horizon for epoch in fit.history] == [5, 5, 5, 30, 30]
    assert fit.best_epoch.score == max(epoch.score for epoch in fit.history)
    worst = iter([0.0, 3.0, 2.0, 1.0, -1.0, -2.0])
    fit = recipe.fit(train, valid, key=jax.random.key(0), score=lambda model, episodes: next(worst))
    assert fit.best_epoch.number == 1  # the first round of the short one


def test_a_fit_whose_time_is_over_ends():
    train = oscillator_episodes(2, 30)
    recipe = GaussNewton(ShallowConfig(1), seconds=0.0, starts=1, horizons=(5,))
    fit = recipe.fit(train, train, key=jax.random.key(0), score=ms.R2Bar(5))
    assert len(fit.history) == 1
    assert fit.outcome is Outcome.STOPPED_EARLY


@pytest.mark.slow
def test_the_same_key_gives_the_same_bits():
    train, valid = oscillator_episodes(4, 30, noise=0.05), oscillator_episodes(2, 30, noise=0.05, seed=1)
    given = {"key": jax.random.key(3), "score": ms.R2Bar(10)}
    first, again = (GaussNewton(ShallowConfig(2), **SHORT).fit(train, valid, **given) for _ in range(2))
    for one, other in zip(jax.tree.leaves(first.model), jax.tree.leaves(again.model), strict=True):
        np.testing.assert_array_equal(one, other)
    assert first.outcome in (Outcome.FINISHED, Outcome.STOPPED_EARLY)


@pytest.mark.parametrize(
    "options", [{"starts": 0}, {"horizons": ()}, {"folds": 1}, {"ridges": ()}, {"ridges": (-1.0,)}]
)
def test_what_cannot_be_is_said(options):
    with pytest.raises(InputError, match="GaussNewton"):
        GaussNewton(**options)
