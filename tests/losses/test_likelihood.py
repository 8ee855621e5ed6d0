import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats

import multistep as ms
from multistep.data import Past, Window
from multistep.dynamics import CorrectedConfig, GaussianConfig, NetworkConfig
from multistep.errors import InputError
from multistep.losses import (
    LOSSES,
    Custom,
    Likelihood,
    MultiStep,
    Uniform,
    forecast_batch,
    negative_log_likelihood,
    precisions,
)
from multistep.training import Once

NETWORK = NetworkConfig(hidden_size=6, activation="tanh")
KEY = jax.random.key(5)


@pytest.fixture
def batch(getkey):
    actions = jax.random.normal(getkey(), (4, 5, 2))
    states = jax.random.normal(getkey(), (4, 6, 3))
    return Window(Past(states[:, :1], actions[:, :0]), actions, states[:, 1:])


@eqx.filter_jit
def cost(loss, own, batch, weights):
    return loss(own, batch, weights, KEY)


@eqx.filter_jit
def forecasts(own, batch):
    return forecast_batch(own, batch, KEY)


@eqx.filter_jit
def gradient(loss, own, batch):
    return eqx.filter_grad(lambda own: loss(own, batch, Uniform(), KEY)[0])(own)


def with_one_deviation(own):
    silent = lambda own: own.inner.network.deviation_head  # noqa: E731
    return eqx.tree_at(silent, own, jax.tree.map(jnp.zeros_like, silent(own)))


def learner(getkey, rollouts="sampled", network=NETWORK):
    return GaussianConfig(network, rollouts).make(3, 2, key=getkey())


@pytest.mark.parametrize("rollouts", ["propagated", "mean", "sampled"])
def test_it_is_the_density_that_scipy_has(getkey, batch, rollouts):
    own, weights = learner(getkey, rollouts), Custom([0.1, 0.2, 0.3, 0.3, 0.1])
    value, report = cost(Likelihood(), own, batch, weights)
    predicted = forecasts(own, batch)
    density = scipy.stats.norm(predicted.mean, predicted.deviation).logpdf(batch.states)
    expected = -(density.mean(axis=(0, 2)) * np.array(weights.alphas)).sum()
    np.testing.assert_allclose(value, expected + 0.01 * 10.5, rtol=1e-12)
    np.testing.assert_allclose(
        report.errors, ((predicted.mean - batch.states) ** 2).mean(axis=(0, 2)), rtol=1e-12
    )
    alphas = np.array(weights.alphas) * (0.5 / predicted.deviation**2).mean(axis=(0, 2))
    np.testing.assert_allclose(report.weights, alphas / alphas.sum(), rtol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("rollouts", ["propagated"])
def test_its_gradient_is_that_of_finite_differences(getkey, batch, rollouts):
    network = CorrectedConfig(hidden_size=6, activation="tanh")
    parameters, rebuild = jax.flatten_util.ravel_pytree(learner(getkey, rollouts, network))
    valued = lambda parameters: cost(Likelihood(), rebuild(parameters), batch, Uniform())[0]  # noqa: E731
    gradient = jax.jit(jax.grad(valued))(parameters)
    for direction in np.random.default_rng(0).standard_normal((3, parameters.size)):
        step = 1e-6 * jnp.asarray(direction)
        slope = (valued(parameters + step) - valued(parameters - step)) / 2e-6
        np.testing.assert_allclose(gradient @ direction, slope, rtol=1e-5)


@pytest.mark.slow
def test_the_weighted_squared_error_is_recovered(getkey, batch):
    """With deviations that stay as they are the gradient is that of sum_j alpha_j e_j (Proposition
    "likelihood")."""
    own = with_one_deviation(learner(getkey, "mean"))
    variance = np.exp(own.bounds(jnp.zeros(3)))
    mean_parameters = lambda own: jax.tree.leaves(own.inner.network.mean_head)  # noqa: E731
    gradients = [mean_parameters(gradient(loss, own, batch)) for loss in (Likelihood(), MultiStep())]
    for ours, theirs in zip(*gradients, strict=True):
        np.testing.assert_allclose(ours, theirs / (2 * variance[0]), rtol=1e-10)


@pytest.mark.slow
def test_an_exponent_multiplies_by_the_variance_and_stops_there(getkey, batch):
    """At 0 it is the likelihood itself, at 1 the mean has the gradient of a squared error."""
    own = learner(getkey, "mean")
    zero = gradient(Likelihood(jnp.asarray(0.0)), own, batch)
    same = with_one_deviation(own)
    one, squared = (gradient(loss, same, batch) for loss in (Likelihood(jnp.asarray(1.0)), MultiStep()))

    @jax.jit
    @jax.grad
    def plain(own):
        predicted = forecast_batch(own, batch, KEY)
        return negative_log_likelihood(*predicted[:2], batch.states).mean() + own.penalty()

    for ours, theirs in zip(jax.tree.leaves(zero), jax.tree.leaves(plain(own)), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-13)
    last = lambda tree: tree.inner.network.mean_head.output.bias  # noqa: E731
    np.testing.assert_allclose(last(one), last(squared) / 2, rtol=1e-10)
    predicted = forecasts(own, batch)
    surprise = -scipy.stats.norm(predicted.mean, predicted.deviation).logpdf(batch.states)
    half, _ = cost(Likelihood(jnp.asarray(0.5)), own, batch, Uniform())
    np.testing.assert_allclose(half, (np.asarray(predicted.deviation) * surprise).mean() + 0.105, rtol=1e-12)


def test_the_precision_is_half_of_the_inverse_variance():
    deviation = jnp.array([[[1.0, 2.0], [0.5, 0.5]]])
    np.testing.assert_allclose(precisions(deviation), [(0.5 + 0.125) / 2, 2.0])


def found_deviation(rollouts, horizon, true):
    """Deviation that is learned of a linear system whose steps are disturbed with the true one; states are
    measured as they are."""
    rng, parts = np.random.default_rng(0), []
    transition, control = np.array([[0.9, 0.3], [-0.3, 0.9]]), np.array([[0.0], [0.5]])
    for _ in range(40):
        actions, states = rng.uniform(-1, 1, (100, 1)), [rng.standard_normal(2)]
        for action in actions:
            states.append(transition @ states[-1] + control @ action + true * rng.standard_normal(2))
        parts.append((np.array(states), actions))
    episodes = ms.Episodes.of(parts)
    once = Once(
        network=GaussianConfig(CorrectedConfig(8, 1), rollouts),
        loss=Likelihood(),
        weights=Uniform(),
        horizon=horizon,
        epochs=1,
        least_steps=600,
        learning_rate=1e-2,
    )
    train, valid, _ = ms.split(episodes, (0.9, 0.05, 0.05), key=KEY)
    with jax.numpy_dtype_promotion("standard"):  # as optax needs
        model = ms.fit(train, valid, once, key=KEY).model
    states, actions = jnp.asarray(episodes.states[:100]), jnp.asarray(episodes.actions[:100])
    return np.sqrt((jax.vmap(model.step_deviation)(states, actions) ** 2).mean(axis=0))


@pytest.mark.slow
def test_the_noise_of_steps_is_found():
    true = np.array([0.1, 0.2])
    np.testing.assert_allclose(found_deviation("propagated", 3, true), true, rtol=0.1)


@pytest.mark.slow
def test_two_drawn_steps_find_more_noise_than_there_is():
    """With A A^T = 0.9 the expected loss is least at sigma^2 = q^2 (1 + 0.9 / 2): what was drawn is not
    what was measured, and the second step pays for both."""
    found = found_deviation("sampled", 2, 0.1 * np.ones(2))
    np.testing.assert_allclose(found, 0.1 * np.sqrt(1.45), rtol=0.07)


def test_a_dynamics_without_a_deviation_gets_a_sentence(getkey, batch):
    with pytest.raises(InputError, match="which a Learner does not: choose the architecture gaussian"):
        Likelihood()(NETWORK.make(3, 2, key=getkey()), batch, Uniform(), KEY)


def test_it_is_typed_with_its_exponent():
    assert LOSSES.find("likelihood").exponent == 0
    loss = LOSSES.find("likelihood:0.5")
    assert LOSSES.describe(loss) == "likelihood:exponent=0.5"
    with pytest.raises(
        InputError, match="exponent of the likelihood's variance is 2: it must be from 0 to 1"
    ):
        LOSSES.find("likelihood:2")
