import jax
import jax.numpy as jnp
import numpy as np
import pytest

from multistep.errors import InputError
from multistep.losses import (
    Balanced,
    Custom,
    Exponential,
    Uniform,
    describe_weights,
    effective_horizon,
    parse_weights,
)


@pytest.mark.parametrize(("beta", "expected"), [(0.1, [0.91, 0.09]), (2.0, [0.33, 0.67])])
def test_the_papers_examples(beta, expected):
    np.testing.assert_allclose(Exponential(beta)(jnp.ones(2)), expected, atol=0.005)


@pytest.mark.parametrize("horizon", [1, 2, 10, 50])
@pytest.mark.parametrize("beta", [0.1, 0.3, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0, 5.0, 20.0])
def test_exponential_weights_are_powers_that_sum_to_one(beta, horizon):
    alphas = Exponential(beta)(jnp.ones(horizon))
    powers = np.array([beta**i for i in range(horizon)])
    np.testing.assert_allclose(alphas, powers / powers.sum(), rtol=1e-10)
    assert jnp.isfinite(Exponential(beta)(jnp.ones(horizon, jnp.float32))).all()


def test_uniform_custom_and_beta_one():
    np.testing.assert_allclose(Uniform()(jnp.ones(4)), [0.25] * 4)
    np.testing.assert_allclose(Exponential(1.0)(jnp.ones(4)), [0.25] * 4)
    np.testing.assert_allclose(Custom([0.5, 0.2, 0.3])(jnp.ones(3)), [0.5, 0.2, 0.3])


def test_balanced_weights_make_every_horizon_contribute_the_same():
    errors = jnp.array([1e-3, 2.0, 5.0])
    alphas = Balanced()(errors)
    np.testing.assert_allclose(alphas.sum(), 1)
    np.testing.assert_allclose(alphas * errors, alphas[0] * errors[0], rtol=1e-10)
    np.testing.assert_allclose(Balanced()(jnp.array([0.0, 1.0])), [1, 0], atol=1e-100)


def test_balanced_descends_the_mean_log_error():
    """The gradient of sum alpha_j e_j is that of the mean of log e_j, times the harmonic mean of the
    errors."""

    def errors(x):
        return jnp.stack([jnp.sum(x**2), jnp.sum((x - 1) ** 4), jnp.sum(jnp.exp(x))])

    x = jnp.array([0.3, -0.7])
    ours = jax.grad(lambda x: jnp.sum(Balanced()(errors(x)) * errors(x)))(x)
    logs = jax.grad(lambda x: jnp.mean(jnp.log(errors(x))))(x)
    np.testing.assert_allclose(ours, logs * 3 / jnp.sum(1 / errors(x)), rtol=1e-10)


def test_effective_horizon():
    np.testing.assert_allclose(effective_horizon(jnp.array([1.0, 0.0, 0.0])), 1)
    np.testing.assert_allclose(effective_horizon(Uniform()(jnp.ones(10))), 5.5)
    np.testing.assert_allclose(effective_horizon(Exponential(2.0)(jnp.ones(2))), 5 / 3)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Exponential(0.0), "above 0"),
        (lambda: Exponential(float("nan")), "above 0"),
        (lambda: Custom([0.5, 0.6]), "sum to 1.1: they must sum to 1"),
        (lambda: Custom([1.5, -0.5]), "none may be negative"),
        (lambda: Custom(jnp.array([1.5, -0.5])), "none may be negative"),
        (lambda: Custom([float("nan"), 1.0]), "none may be negative"),
        (lambda: Custom([0.5, 0.5]).check(3), "2 weights for a horizon of 3"),
        (lambda: parse_weights("linear"), "write balanced"),
        (lambda: parse_weights("exponential"), "write balanced"),
        (lambda: parse_weights("0.5,0.1"), "must sum to 1"),
    ],
)
def test_bad_weights_get_one_sentence(make, words):
    with pytest.raises(InputError, match=words):
        make()


@pytest.mark.parametrize("text", ["balanced", "uniform", "exponential:1.5", "0.5,0.25,0.25"])
def test_weights_are_read_back_as_they_were_written(text):
    assert describe_weights(parse_weights(text)) == text
