import jax
import jax.numpy as jnp
import numpy as np
import pytest

from multistep.data import Episodes
from multistep.dynamics import (
    AbstractModel,
    LaggedConfig,
    Normaliser,
    Observer,
    in_units,
    load_model,
    save_model,
)
from multistep.dynamics.linear import LineConfig
from multistep.dynamics.normaliser import fit_normaliser
from multistep.evaluation import R2Bar
from multistep.evaluation.calibration import calibration
from multistep.selection.calibrated import LEAST_EPISODES, calibrate
from multistep.training import Ensemble, LeastSquares
from systems import oscillator_episodes

NOISE = 0.05


@pytest.fixture(scope="module")
def data():
    train, held_out, test = (oscillator_episodes(n, 50, noise=NOISE, seed=n) for n in (20, 40, 30))
    fit = LeastSquares(LineConfig()).fit(train, held_out, key=jax.random.key(0), score=R2Bar(5))
    return fit.model, train, held_out, test


def coverage(model, test, horizon=10):
    found = calibration(model, model.uncertainty, test, horizon=horizon, key=jax.random.key(9))
    return {share: values.mean() for share, values in found.coverage.items()}


def test_intervals_hold_what_they_promise_on_new_episodes(data):
    model, train, held_out, test = data
    known = calibrate(model, train, held_out, key=jax.random.key(1))
    assert known.uncertainty.num_episodes == 40
    np.testing.assert_allclose(known.uncertainty.measurement_noise, NOISE, rtol=0.3)
    for share, found in coverage(known, test).items():
        assert abs(found - share) < 0.05
    low, high = known.predict(test[0].states[0], test[0].actions[:10]).interval(0.9)
    assert (low < high).all()


def test_scales_make_up_for_noise_that_was_not_found(data):
    model, train, held_out, test = data
    tenth = Observer(model, jnp.full(2, 0.1 * NOISE), jnp.full(2, 1e-4))
    blind = calibrate(model, train, held_out.take([0]), key=jax.random.key(1), observer=tenth)
    assert not blind.uncertainty.num_episodes  # one episode is too few: as a normal distribution has it
    assert coverage(blind, test)[0.9] < 0.3
    known = calibrate(model, train, held_out, key=jax.random.key(1), observer=tenth)
    for share, found in coverage(known, test).items():
        assert abs(found - share) < 0.05


def test_fewer_episodes_than_the_scales_need_are_said(data):
    model, train, held_out, _ = data
    few = calibrate(model, train, held_out.take(range(LEAST_EPISODES - 1)), key=jax.random.key(1))
    assert not few.predict(train[0].states[0], train[0].actions[:3]).is_calibrated


def test_a_model_with_a_memory_is_calibrated_by_what_it_was_off_by(data, tmp_path):
    _, train, held_out, test = data
    seen = [
        Episodes.of([(part.states[:, :1], part.actions) for part in each]) for each in (train, held_out, test)
    ]
    recipe = LeastSquares(LaggedConfig(3, LineConfig()))
    fit = recipe.fit(seen[0], seen[1], key=jax.random.key(0), score=R2Bar(5))
    known = calibrate(fit.model, seen[0], seen[1], key=jax.random.key(1))
    for share, found in coverage(known, seen[2]).items():
        assert abs(found - share) < 0.1  # what the training shows is not quite what is new
    save_model(known, tmp_path / "model.safetensors")
    again = load_model(tmp_path / "model.safetensors")
    np.testing.assert_array_equal(again.uncertainty.scales, known.uncertainty.scales)


def test_calibration_leaves_the_forecast_as_it_is(data):
    model, train, held_out, test = data
    known = calibrate(model, train, held_out, key=jax.random.key(1))
    state, actions = test[0].states[0], test[0].actions[:5]
    np.testing.assert_array_equal(known.rollout(state, actions), model.rollout(state, actions))
    assert in_units(known.learned, fit_normaliser(train), *known.names).uncertainty is None


class Cubic(AbstractModel):
    """s' = 0.3 s + 0.9 s^3: what starts far enough out runs away."""

    def step(self, state, action):
        return 0.3 * state + 0.9 * state**3


def test_forecasts_that_run_away_leave_scales_that_are_numbers(data):
    _, train, held_out, _ = data
    units = Normaliser(np.zeros(2), np.ones(2), np.zeros(1), np.ones(1))
    model = in_units(Cubic(), units, train.state_names, train.action_names)
    noise = Observer(model, jnp.full(2, NOISE), jnp.full(2, 0.1))
    scales = calibrate(model, train, held_out, key=jax.random.key(1), observer=noise).uncertainty.scales
    assert np.isfinite(scales).all()


def test_a_bootstrapped_ensemble_is_calibrated(data):
    _, train, held_out, test = data
    recipe = Ensemble(LeastSquares(LineConfig()), 3, bootstrap=True)
    fit = recipe.fit(train, held_out, key=jax.random.key(0), score=R2Bar(5))
    known = calibrate(fit.model, train, held_out, key=jax.random.key(1))
    assert abs(coverage(known, test)[0.9] - 0.9) < 0.06
    assert float(known.uncertainty.disagreement) > 0


def test_episodes_that_are_too_short_for_the_horizon_do_not_count(data):
    model, train, held_out, _ = data
    short = [(part.states[:21], part.actions[:20]) for part in held_out]
    mixed = Episodes.of([(held_out[0].states, held_out[0].actions), *short])
    known = calibrate(model, train, mixed, key=jax.random.key(1)).uncertainty
    assert known.num_episodes >= LEAST_EPISODES
    assert len(known.rest) < 20
