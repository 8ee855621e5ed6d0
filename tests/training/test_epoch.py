from dataclasses import replace

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from multistep.data import Window, Windows, deal, window_starts
from multistep.dynamics import Model, NetworkConfig, fit_normaliser
from multistep.dynamics.learner import MOMENTUM, Statistics
from multistep.losses import Balanced, Custom, Exponential, MultiStep, Uniform, multistep_errors
from multistep.training import epoch
from multistep.training.epoch import Training, train_epoch
from systems import random_episodes

PLAIN = NetworkConfig(hidden_size=6)


def windows_of(episodes, horizon):
    """The windows and the starts of all of them."""
    return Windows(*fit_normaliser(episodes).normalise(episodes), horizon), jnp.asarray(
        window_starts(episodes, horizon)
    )


@pytest.mark.parametrize("weights", [Exponential(0.5), Uniform(), Balanced(), Custom([0.2, 0.5, 0.3])])
def test_batch_loss_is_the_weighted_mean_error_of_the_models_own_rollouts(getkey, weights):
    """The compiled loss in normalised space, against the model's public `step` on one window at a time."""
    episodes = random_episodes([20])
    windows, starts = windows_of(episodes, 3)
    learner = PLAIN.make(3, 2, key=getkey())
    batch = jax.vmap(windows.gather)(starts[:5])
    loss, report = MultiStep()(learner, batch, weights, getkey())
    normaliser = jax.tree.map(jnp.asarray, fit_normaliser(episodes))
    model = Model(learner.network, normaliser, episodes.state_names, episodes.action_names)
    errors = []
    for start in range(5):
        state, own = jnp.asarray(episodes.states[start]), []
        for step in range(3):
            state = model.step(state, jnp.asarray(episodes.actions[start + step]))
            own.append(
                (((state - episodes.states[start + step + 1]) / normaliser.state_deviation) ** 2).mean()
            )
        errors.append(own)
    mean = jnp.mean(jnp.asarray(errors), axis=0)
    np.testing.assert_allclose(report.errors, mean, rtol=1e-9)
    np.testing.assert_allclose(report.weights, weights(mean), rtol=1e-9)
    np.testing.assert_allclose(loss, (weights(mean) * mean).sum(), rtol=1e-9)


@pytest.mark.parametrize("network", [PLAIN, replace(PLAIN, batch_norm=True)])
def test_gradient_of_the_batch_loss_is_that_of_finite_differences(getkey, network):
    windows, starts = windows_of(random_episodes([30]), 4)
    batch = jax.vmap(windows.gather)(starts[:8])
    parameters, rebuild = jax.flatten_util.ravel_pytree(network.make(3, 2, key=getkey()))
    key = getkey()
    loss = jax.jit(lambda parameters: MultiStep()(rebuild(parameters), batch, Exponential(1.5), key)[0])
    gradient = jax.grad(loss)(parameters)
    for direction in np.random.default_rng(0).standard_normal((4, parameters.size)):
        step = 1e-6 * jnp.asarray(direction)
        np.testing.assert_allclose(
            gradient @ direction, (loss(parameters + step) - loss(parameters - step)) / 2e-6, rtol=1e-5
        )


def test_an_epoch_is_adam_on_its_batches(getkey):
    """The compiled epoch, against a plain loop with Adam's update rule written out."""
    (windows, starts), key = windows_of(random_episodes([15]), 2), getkey()
    learner = PLAIN.make(3, 2, key=getkey())
    training, _ = train_epoch(
        Training.start(learner),
        windows,
        starts[:10].reshape(2, 5, 2),
        MultiStep(),
        Uniform(),
        jnp.array([0.01, 0.005]),
        key=key,
    )

    parameters, rebuild = jax.flatten_util.ravel_pytree(eqx.filter(learner, learner.trained()))
    first, second = jnp.zeros_like(parameters), jnp.zeros_like(parameters)
    for number, rate in enumerate([0.01, 0.005]):
        batch = jax.vmap(windows.gather)(starts[5 * number : 5 * number + 5])
        gradient = jax.grad(lambda p, batch=batch: MultiStep()(rebuild(p), batch, Uniform(), key)[0])(
            parameters
        )
        first, second = 0.9 * first + 0.1 * gradient, 0.999 * second + 0.001 * gradient**2
        unbiased = first / (1 - 0.9 ** (number + 1)), second / (1 - 0.999 ** (number + 1))
        parameters = parameters - rate * unbiased[0] / (jnp.sqrt(unbiased[1]) + 1e-8)
    np.testing.assert_allclose(
        jax.flatten_util.ravel_pytree(eqx.filter(training.learner, learner.trained()))[0],
        parameters,
        rtol=1e-7,
        atol=1e-12,
    )


def test_running_statistics_see_each_gradient_step_once(getkey):
    """The mean over the rollout's steps enters with the weight of PyTorch's momentum, starting from mean 0,
    variance 1."""
    (windows, starts), key = windows_of(random_episodes([15]), 3), getkey()
    learner = replace(PLAIN, batch_norm=True).make(3, 2, key=getkey())
    training, _ = train_epoch(
        Training.start(learner), windows, starts[None], MultiStep(), Uniform(), jnp.zeros(1), key=key
    )
    inputs = jax.vmap(windows.gather)(starts)
    statistics = _first_layer_statistics(learner, inputs)
    np.testing.assert_allclose(training.learner.statistics[0].mean, MOMENTUM * statistics.mean, rtol=1e-9)
    np.testing.assert_allclose(
        training.learner.statistics[0].variance, 1 - MOMENTUM + MOMENTUM * statistics.variance, rtol=1e-9
    )


def _first_layer_statistics(learner, batch: Window) -> Statistics:
    """By hand: roll the batch, take mean and variance of the first layer at every step, and average over the
    steps."""
    state, means, variances = np.asarray(batch.past.states[:, 0]), [], []
    for step in range(batch.actions.shape[1]):
        x = np.concatenate([state, batch.actions[:, step]], axis=1)
        for layer, (linear, norm) in enumerate(zip(learner.network.common, learner.norms, strict=True)):
            x = x @ np.asarray(linear.weight) + np.asarray(linear.bias)
            if layer == 0:
                means.append(x.mean(axis=0))
                variances.append(x.var(axis=0))
            x = (x - x.mean(axis=0)) / np.sqrt(x.var(axis=0) + 1e-5) * np.asarray(norm.scale) + np.asarray(
                norm.shift
            )
            x = np.maximum(x, 0)
        head = learner.network.mean_head
        hidden = np.tanh(x @ np.asarray(head.hidden.weight) + np.asarray(head.hidden.bias))
        state = state + hidden @ np.asarray(head.output.weight) + np.asarray(head.output.bias)
    return Statistics(jnp.asarray(np.mean(means, axis=0)), jnp.asarray(np.mean(variances, axis=0)))


def test_the_deviation_head_stays_as_it_was(getkey):
    windows, starts = windows_of(random_episodes([15]), 2)
    learner = PLAIN.make(3, 2, key=getkey())
    before = jax.tree.map(np.asarray, learner.network)
    training, _ = train_epoch(
        Training.start(learner),
        windows,
        starts[:10].reshape(2, 5, 2),
        MultiStep(),
        Uniform(),
        jnp.full(2, 0.1),
        key=getkey(),
    )
    after = training.learner.freeze()
    for mine, theirs in zip(
        jax.tree.leaves(before.deviation_head), jax.tree.leaves(after.deviation_head), strict=True
    ):
        np.testing.assert_array_equal(mine, theirs)
    assert not np.array_equal(before.mean_head.output.weight, after.mean_head.output.weight)


def test_other_beta_seed_noise_and_data_compile_nothing_anew(getkey, monkeypatch):
    counted = eqx.debug.assert_max_traces(epoch._train_epoch.__wrapped__, max_traces=1)
    monkeypatch.setattr(epoch, "_train_epoch", eqx.filter_jit(counted))
    for seed, beta in enumerate([0.3, 1.0, 20.0]):
        windows, starts = windows_of(random_episodes([15], seed=seed), 2)
        batches = deal(np.asarray(starts), 5, key=getkey())
        training, rates = Training.start(PLAIN.make(3, 2, key=getkey())), jnp.full(2, 0.1 * seed)
        train_epoch(training, windows, batches, MultiStep(), Exponential(beta), rates, key=getkey())


def test_errors_of_the_public_loss_agree(getkey):
    """`multistep_errors` of a model whose normaliser is the identity is the training loss's error on one
    window."""
    windows, starts = windows_of(random_episodes([15]), 3)
    learner = PLAIN.make(3, 2, key=getkey())
    identity = jax.tree.map(jnp.asarray, fit_normaliser(random_episodes([5])))
    identity = type(identity)(jnp.zeros(3), jnp.ones(3), jnp.zeros(2), jnp.ones(2))
    window = windows.gather(starts[4])
    model = Model(learner.network, identity, ("a", "b", "c"), ("u", "v"))
    _, report = MultiStep()(learner, jax.tree.map(lambda x: x[None], window), Uniform(), getkey())
    np.testing.assert_allclose(multistep_errors(model, window), report.errors, rtol=1e-10)
