import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import norm

from multistep.data import Episodes, Past
from multistep.dynamics import (
    CorrectedConfig,
    Observer,
    Uncertainty,
    forecast_with_spread,
    in_units,
    load_model,
    roll_particles,
    save_model,
)
from multistep.dynamics.base import AbstractModel
from multistep.dynamics.ensemble import Averaged
from multistep.dynamics.normaliser import fit_normaliser
from multistep.dynamics.uncertainty import NORMAL, SHARES, normal_scales, width_of
from multistep.errors import InputError
from systems import LinearModel

TRANSITION = np.array([[0.95, 0.2], [-0.3, 1.02]])
CONTROL = np.array([[0.1], [0.4]])
MEASUREMENT, STEP = np.array([0.3, 0.5]), np.array([0.1, 0.05])
NUM = 20_000


@pytest.fixture
def model():
    return LinearModel(jnp.asarray(TRANSITION), jnp.asarray(CONTROL))


def uncertainty(measurement=MEASUREMENT, step=STEP, steps=8, rest=0.0, num_episodes=0):
    size = len(measurement)
    rest = jnp.full((steps, size), rest)
    return Uncertainty(
        jnp.asarray(measurement),
        jnp.asarray(step),
        rest,
        normal_scales(steps, size),
        jnp.zeros(()),
        num_episodes,
        1,
    )


def spread_of(covariance, steps):
    """Covariances of the state after each step, by the recursion of a linear system."""
    for _ in range(steps):
        covariance = TRANSITION @ covariance @ TRANSITION.T + np.diag(STEP**2)
        yield covariance


def test_particles_of_a_linear_system_have_its_mean_and_covariance(model):
    past = Past(jnp.array([[0.4, -1.0]]), jnp.zeros((0, 1)))
    actions = jnp.asarray(np.random.default_rng(0).normal(size=(6, 1)))
    found = roll_particles(model, uncertainty(), past, actions, number=NUM, key=jax.random.key(0))
    mean = np.asarray(past.states[0])
    for step, covariance in enumerate(spread_of(np.diag(MEASUREMENT**2), 6)):
        mean = TRANSITION @ mean + CONTROL @ np.asarray(actions[step])
        error = 4 * np.sqrt(np.diag(covariance) / NUM)
        assert (np.abs(found[:, step].mean(axis=0) - mean) < error).all()
        np.testing.assert_allclose(np.cov(found[:, step].T), covariance, rtol=0.05, atol=0.01)


def test_after_several_measurements_they_start_at_the_observers_belief(model):
    rng = np.random.default_rng(1)
    past = Past(jnp.asarray(rng.normal(size=(5, 2))), jnp.asarray(rng.normal(size=(4, 1))))
    after = Observer(model, jnp.asarray(MEASUREMENT), jnp.asarray(STEP)).filter(*past).after
    found = roll_particles(model, uncertainty(), past, jnp.zeros((1, 1)), number=NUM, key=jax.random.key(0))
    (covariance,) = spread_of(np.asarray(after.covariance[-1]), 1)
    np.testing.assert_allclose(np.cov(found[:, 0].T), covariance, rtol=0.05, atol=0.005)
    np.testing.assert_allclose(found[:, 0].mean(axis=0), TRANSITION @ after.mean[-1], atol=0.02)


def test_the_deviation_is_that_of_state_and_measurement(model):
    past, actions = Past(jnp.array([[0.4, -1.0]]), jnp.zeros((0, 1))), jnp.zeros((4, 1))
    found = forecast_with_spread(
        model, uncertainty(rest=0.2), past, actions, number=NUM, key=jax.random.key(0)
    )
    covariances = list(spread_of(np.diag(MEASUREMENT**2), 4))
    expected = np.sqrt([np.diag(each) + MEASUREMENT**2 + 0.2**2 for each in covariances])
    np.testing.assert_allclose(found.deviation, expected, rtol=0.03)
    np.testing.assert_allclose(found.samples.std(axis=0), expected, rtol=0.03)
    low, high = found.interval(0.9)
    np.testing.assert_allclose((high - low) / 2, norm.ppf(0.95) * expected, rtol=0.03)
    np.testing.assert_allclose(found.quantile(0.05), low)
    np.testing.assert_allclose(found.quantile(0.5), found.mean)
    assert not found.is_calibrated


class Drifting(AbstractModel):
    """s' = s + drift."""

    drift: jax.Array
    deviation: float | None = eqx.field(static=True, default=None)

    def step(self, state, action):
        return state + self.drift

    def step_deviation(self, state, action):
        return None if self.deviation is None else jnp.full(state.shape, self.deviation)


def exact(steps=5):
    return uncertainty(np.zeros(1), np.zeros(1), steps)


def test_a_particle_keeps_its_member_or_not():
    both = Averaged((Drifting(jnp.array([1.0])), Drifting(jnp.array([-1.0]))))
    past, actions = Past(jnp.zeros((1, 1)), jnp.zeros((0, 1))), jnp.zeros((5, 1))
    given = {"number": 400, "key": jax.random.key(0)}
    kept = roll_particles(both, exact(), past, actions, **given)
    assert sorted(np.unique(kept[:, -1])) == [-5, 5]
    mean = roll_particles(both, exact(), past, actions, **given, members="mean")
    assert not np.any(mean)
    drawn = np.asarray(roll_particles(both, exact(), past, actions, **given, members="drawn"))[:, -1, 0]
    # A random walk of five steps: a binomial distribution.
    assert set(drawn) == {-5, -3, -1, 1, 3, 5}
    assert abs(drawn.var() - 5) < 1
    steps = np.diff(roll_particles(both, exact(), past, actions, **given, members="drawn")[..., 0], axis=1)
    assert set(np.abs(steps).ravel()) == {1.0}  # a row is the way of one particle


def test_members_of_other_shapes_have_their_particles_too():
    both = Averaged((Drifting(jnp.array([1.0])), Drifting(jnp.array([-1.0]), 0.0)))
    past, actions = Past(jnp.zeros((1, 1)), jnp.zeros((0, 1))), jnp.zeros((5, 1))
    kept = roll_particles(both, exact(), past, actions, number=10, key=jax.random.key(0))
    assert sorted(np.unique(kept[:, -1])) == [-5, 5]


def test_a_models_own_deviation_takes_the_place_of_the_observers():
    model = Drifting(jnp.array([0.0]), 0.5)
    past, actions = Past(jnp.zeros((1, 1)), jnp.zeros((0, 1))), jnp.zeros((4, 1))
    found = roll_particles(model, exact(), past, actions, number=NUM, key=jax.random.key(0))
    np.testing.assert_allclose(found[..., 0].std(axis=0), 0.5 * np.sqrt(np.arange(1, 5)), rtol=0.03)


def test_scales_stretch_the_interval_and_widths_between_them_are_in_order(model):
    twice = eqx.tree_at(lambda known: known.scales, uncertainty(), 2 * normal_scales(8, 2))
    past, actions = Past(jnp.array([[0.4, -1.0]]), jnp.zeros((0, 1))), jnp.zeros((3, 1))
    one, two = (
        forecast_with_spread(model, known, past, actions, number=50, key=jax.random.key(0))
        for known in (uncertainty(), twice)
    )
    np.testing.assert_allclose(two.deviation, 2 * one.deviation, rtol=1e-6)
    np.testing.assert_allclose(two.samples - two.mean[None], 2 * (one.samples - one.mean[None]), rtol=1e-6)
    scales = normal_scales(1, 1)
    for share, normal in zip(SHARES, NORMAL, strict=True):
        np.testing.assert_allclose(width_of(share, scales), normal, rtol=1e-6)
    np.testing.assert_allclose(width_of(0.999, scales), norm.ppf(0.9995), rtol=1e-6)
    widths = [float(width_of(share, scales)[0, 0]) for share in np.linspace(0.01, 0.999, 200)]
    assert (np.diff(widths) > 0).all()


@pytest.fixture
def fitted(getkey):
    rng = np.random.default_rng(0)
    data = Episodes.of([(rng.normal(size=(21, 2)), rng.normal(size=(20, 1)))])
    learned = CorrectedConfig(hidden_size=4, num_common_layers=1).make(2, 1, key=getkey()).freeze()
    return in_units(learned, fit_normaliser(data), ("position", "velocity"), ("force",), 0.02)


def with_spread(model, **options):
    return eqx.tree_at(
        lambda model: model.uncertainty, model, uncertainty(**options), is_leaf=lambda leaf: leaf is None
    )


def test_predict_forecasts_in_units_and_survives_a_file(fitted, tmp_path):
    model = with_spread(fitted, num_episodes=5)
    save_model(model, tmp_path / "model.safetensors")
    state, actions = [0.5, 0.1], np.zeros((12, 1))
    expected = model.predict(state, actions, number=30)
    found = load_model(tmp_path / "model.safetensors").predict(state, actions, number=30)
    for name in ("mean", "spread", "samples", "scales"):
        np.testing.assert_array_equal(getattr(found, name), getattr(expected, name))
    assert found.is_calibrated
    assert (found.state_names, found.time_step) == (("position", "velocity"), 0.02)
    assert found.samples.shape == (30, 12, 2)  # beyond the last scale, that of the last


def test_what_cannot_be_forecast_is_said(fitted):
    with pytest.raises(InputError, match="does not know how far"):
        fitted.predict([0.5, 0.1], np.zeros((3, 1)))
    model = with_spread(fitted)
    with pytest.raises(InputError, match="0 particles"):
        model.predict([0.5, 0.1], np.zeros((3, 1)), number=0)
    with pytest.raises(InputError, match="one number for each of position, velocity"):
        model.predict([0.5], np.zeros((3, 1)))
    found = model.predict([0.5, 0.1], np.zeros((3, 1)))
    for share in (0.0, 1.0, -0.1, 1.5):
        with pytest.raises(InputError, match="between 0 and 1"):
            found.quantile(share)
        with pytest.raises(InputError, match="between 0 and 1"):
            found.interval(share)
