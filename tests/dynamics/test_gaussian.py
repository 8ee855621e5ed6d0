from dataclasses import replace

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import multistep as ms
from multistep.data import Past
from multistep.dynamics import (
    CorrectedConfig,
    Gaussian,
    GaussianConfig,
    LineConfig,
    NetworkConfig,
    Saved,
    forecast,
    load_model,
    save_model,
)
from multistep.dynamics.gaussian import Bounds, GaussianLearner
from multistep.errors import InputError
from multistep.losses import Likelihood, MultiStep, Uniform
from multistep.training import Once
from systems import LinearModel, oscillator_episodes

NETWORKS = {
    "network": NetworkConfig(hidden_size=6, activation="tanh"),
    "corrected": CorrectedConfig(hidden_size=6, activation="tanh"),
}
HORIZON = 7


@eqx.filter_jit
def predicted(dynamics, past, actions):
    return forecast(dynamics, past, actions)


class DisturbedLine(LinearModel):
    """A linear system whose steps are disturbed: the second head says the logarithm of the variance."""

    raw: jax.Array

    def step_both(self, state, action):
        return self.step(state, action), self.raw


@pytest.fixture
def window(getkey):
    actions = jax.random.normal(getkey(), (HORIZON, 2))
    return Past(jax.random.normal(getkey(), (1, 3)), actions[:0]), actions


def bounds(size=3):
    return Bounds(jnp.full(size, -10.0), jnp.full(size, 0.5))


def disturbed(getkey, rollouts):
    a, b = 0.5 * jax.random.normal(getkey(), (3, 3)), jax.random.normal(getkey(), (3, 2))
    return GaussianLearner(DisturbedLine(a, b, jnp.array([-2.0, -4.0, -1.0])), bounds(), rollouts)


def test_the_bounds_are_soft_and_hold():
    raw = jnp.linspace(-1e4, 1e4, 401)[:, None]
    found = jax.vmap(bounds(1))(raw)
    assert (found >= -10).all()
    assert (found <= 0.5 + 1e-4).all()
    assert (jnp.diff(found[:, 0]) >= 0).all()
    np.testing.assert_allclose(bounds(1)(jnp.array([-5.0])), -5.0, atol=0.02)
    np.testing.assert_allclose(bounds(2).penalty(), 0.01 * 10.5)


def test_the_variance_of_a_linear_system_is_propagated_exactly(getkey, window):
    """P_j = sum_i A^i Q A^iT, and the mean is that without disturbances."""
    learner = disturbed(getkey, "propagated")
    found = predicted(learner, *window)
    a, variance = np.asarray(learner.inner.transition), np.exp(bounds()(learner.inner.raw))
    covariance, expected = np.zeros((3, 3)), []
    for _ in range(HORIZON):
        covariance = a @ covariance @ a.T + np.diag(variance)
        expected.append(np.sqrt(np.diag(covariance)))
    np.testing.assert_allclose(found.deviation, expected, rtol=1e-10)
    np.testing.assert_allclose(found.mean, predicted(learner.inner, *window).mean, rtol=1e-12)


@pytest.mark.slow
def test_sampled_rollouts_are_spread_as_the_propagated_variance_says(getkey, window):
    learner = disturbed(getkey, "sampled")
    keys = jax.random.split(getkey(), 10_000)
    draws = jax.jit(jax.vmap(lambda key: forecast(learner, *window, key=key)))(keys)
    expected = predicted(replace(learner, rollouts="propagated"), *window)
    own = jnp.exp(bounds()(learner.inner.raw) / 2)
    np.testing.assert_allclose(draws.deviation, np.broadcast_to(own, draws.deviation.shape))
    total = jnp.sqrt(draws.mean.var(axis=0) + own[None] ** 2)  # of what is predicted, and of the last step
    np.testing.assert_allclose(total, expected.deviation, rtol=0.03)
    np.testing.assert_allclose(draws.mean.mean(axis=0), expected.mean, atol=0.05)


def test_draws_are_reparametrised(getkey, window):
    """The derivative of a drawn state by its log-variance is half of the deviation times the noise."""
    learner = disturbed(getkey, "sampled")
    key = getkey()
    _, noise = learner.inputs(window[1], key)

    def first_draw(raw):
        own = eqx.tree_at(lambda learner: learner.inner.raw, learner, raw)
        return own.step(own.start(window[0]), (window[1][0], noise[0])).state

    raw = learner.inner.raw
    slope = jax.jit(jax.jacobian(first_draw))(raw)
    log_slope = jax.grad(lambda raw: bounds()(raw).sum())(raw)
    expected = 0.5 * jnp.exp(bounds()(raw) / 2) * noise[0] * log_slope
    np.testing.assert_allclose(slope, np.diag(expected), rtol=1e-10, atol=1e-14)


@pytest.mark.parametrize(
    ("name", "rollouts"), [("network", "propagated"), ("network", "sampled"), ("corrected", "mean")]
)
def test_without_draws_the_rollout_is_that_of_the_plain_model(getkey, window, name, rollouts):
    key = getkey()
    plain = NETWORKS[name].make(3, 2, key=key).freeze()
    learner = GaussianConfig(NETWORKS[name], rollouts).make(3, 2, key=key)
    model = learner.freeze()
    assert isinstance(model, Gaussian)
    expected = predicted(plain, *window).mean
    found = predicted(learner, *window)
    np.testing.assert_allclose(found.mean, expected, rtol=1e-12)
    np.testing.assert_array_equal(predicted(model, *window).mean, expected)
    own = model.step_deviation(window[0].states[0], window[1][0])
    np.testing.assert_allclose(found.deviation[0], own, rtol=1e-12)


def test_the_second_head_and_the_bounds_are_trained(getkey):
    for network in (*NETWORKS.values(), NetworkConfig(8, batch_norm=True, dropout=0.1)):
        learner = GaussianConfig(network, "mean").make(3, 2, key=getkey())
        on = learner.trained()
        inner = on.inner.network if hasattr(on.inner, "network") else on.inner
        assert all(jax.tree.leaves((inner.deviation_head, inner.mean_head, on.bounds)))
    assert not any(jax.tree.leaves(on.inner.statistics))


@pytest.mark.slow
@pytest.mark.parametrize(("name", "rollouts"), [("corrected", "propagated"), ("network", "sampled")])
def test_100_steps_are_finite_and_so_are_their_gradients(getkey, name, rollouts):
    """In single precision, from a random start, from data without any noise, and where errors grow."""
    learner = GaussianConfig(NETWORKS[name], rollouts).make(3, 2, key=getkey())
    learner = jax.tree.map(lambda leaf: leaf.astype(jnp.float32), learner)
    head = lambda learner: learner.inner.network.mean_head.output.weight  # noqa: E731
    unstable = eqx.tree_at(head, learner, 3 * jnp.ones_like(head(learner)))
    certain = eqx.tree_at(lambda learner: learner.bounds.lowest, learner, jnp.full(3, -30, jnp.float32))
    actions = jax.random.normal(getkey(), (1, 100, 2), jnp.float32)
    states = jnp.ones((1, 101, 3), jnp.float32)
    batch = ms.data.Window(Past(states[:, :1], actions[:, :0]), actions, states[:, 1:])

    @eqx.filter_jit
    def descend(own):
        cost = lambda own: Likelihood(jnp.float32(0.5))(own, batch, Uniform(), jax.random.key(0))[0]  # noqa: E731
        return eqx.filter_value_and_grad(cost)(own)

    for own in (learner, unstable, certain):
        value, gradient = descend(own)
        assert jnp.isfinite(value)
        assert all(jnp.isfinite(leaf).all() for leaf in jax.tree.leaves(gradient))


SMALL = Once(
    network=GaussianConfig(NETWORKS["corrected"]),
    horizon=2,
    weights=Uniform(),
    loss=Likelihood(0.5),
    epochs=3,
    least_steps=1,
)


@pytest.fixture
def fitted():
    """What a recipe makes of a few episodes."""
    train, valid = oscillator_episodes(6, 40, noise=0.05), oscillator_episodes(2, 40, seed=1)

    def fit(recipe, **options):
        return recipe.fit(train, valid, key=jax.random.key(0), **{"score": one_step} | options)

    with jax.numpy_dtype_promotion("standard"):  # Adam of optax mixes integer counts with floats
        yield fit


def one_step(model, episodes):
    states, actions, _ = episodes[0]
    predicted = jax.vmap(model.step)(jnp.asarray(states[:-1]), jnp.asarray(actions))
    return -float(((predicted - states[1:]) ** 2).mean())


@pytest.mark.slow
def test_it_is_saved_and_loaded_and_gone_on_from(fitted, tmp_path):
    model = fitted(replace(SMALL, epochs=1)).model
    path = tmp_path / "model.safetensors"
    save_model(model, path)
    back = load_model(path)
    assert eqx.tree_equal(back, model)
    assert (back.step_deviation(jnp.zeros(2), jnp.zeros(1)) > 0).all()
    more = fitted(replace(SMALL, network=Saved(path)))
    assert isinstance(more.model.learned, Gaussian)
    assert (more.model.learned.bounds.lowest != model.learned.bounds.lowest).all()
    np.testing.assert_allclose(np.sum(more.history[0].weights), 1)


@pytest.mark.slow
def test_a_fit_that_is_resumed_has_the_same_bits(fitted, tmp_path):
    network = GaussianConfig(NetworkConfig(8, batch_norm=True, dropout=0.1), "sampled")
    once, calls = replace(SMALL, network=network), []
    whole = fitted(once)

    def interrupted(model, episodes):
        calls.append(None)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return one_step(model, episodes)

    first, second = (fitted(once, score=interrupted, checkpoint=tmp_path / "c") for _ in range(2))
    assert [len(fit.history) for fit in (first, second)] == [1, 3]
    assert eqx.tree_equal(second.model, whole.model)


@pytest.mark.slow
def test_a_loss_on_the_mean_trains_it_like_the_plain_model(fitted):
    once = replace(SMALL, loss=MultiStep(), network=NETWORKS["corrected"])
    other = replace(once, network=GaussianConfig(once.network, "mean"))
    plain, gaussian = (fitted(recipe).history[-1].errors for recipe in (once, other))
    np.testing.assert_allclose(gaussian, plain, rtol=1e-9)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (
            lambda: GaussianConfig(rollouts="drawn"),
            "The rollouts are drawn: they must be one of propagated, ",
        ),
        (lambda: GaussianConfig("nothing"), "There is no architecture 'nothing'"),
        (lambda: GaussianConfig(NetworkConfig(batch_norm=True)), "cannot be propagated through batch norm"),
        (
            lambda: GaussianConfig(LineConfig()).make(2, 1, key=jax.random.key(0)),
            "LineConfig has no head for",
        ),
    ],
)
def test_what_a_gaussian_cannot_be_made_of_gets_a_sentence(make, words):
    with pytest.raises(InputError, match=words):
        make()


def test_it_is_typed_around_another_architecture():
    from multistep.dynamics import ARCHITECTURES

    assert ARCHITECTURES.find("gaussian") == GaussianConfig(CorrectedConfig())
    assert ARCHITECTURES.find("gaussian:network,sampled") == GaussianConfig(NetworkConfig(), "sampled")
