"""The multi-step negative log-likelihood: what the errors weigh is learned, as inverse variances."""

import math

import jax
import jax.numpy as jnp
from jax.core import Tracer
from jaxtyping import Array, Float

from multistep.data import Window
from multistep.dynamics import AbstractDynamics
from multistep.errors import InputError
from multistep.losses.base import AbstractLoss, LossReport, forecast_batch
from multistep.losses.multistep import squared_errors
from multistep.losses.weights import AbstractWeights
from multistep.types import Key, PerHorizon, Scalar


class Likelihood(AbstractLoss):
    r"""$\sum_j w_j \langle \log\sigma_j + (s_{t+j} - \mu_j)^2 / 2\sigma_j^2 + \tfrac12 \log 2\pi \rangle$.

    The mean is over the batch and the state's dimensions, $w_j$ are the weights: uniform ones make this the
    likelihood of the appendix, divided by the horizon (Proposition "likelihood"). What $\mu_j$ and $\sigma_j$
    are is the dynamics' business. To it is added what the dynamics asks for its bounds.

    The history has the squared errors and, as the weights of the steps ahead, what these are multiplied by:
    $\alpha_j \propto w_j \langle 1 / 2\sigma_j^2 \rangle$.
    """

    exponent: float | int | Scalar = 0.0
    r"""Each term is multiplied by $\sigma^{2 \cdot \text{exponent}}$, through which no gradient flows: at 0
    this is the likelihood, at 1 the mean has the gradient of a squared error. 0.5 keeps states that are
    predicted badly at first from being given up (Seitzer et al. 2022, "beta-NLL")."""

    def __check_init__(self) -> None:
        if not isinstance(self.exponent, Tracer | jax.Array) and not 0 <= self.exponent <= 1:
            raise InputError(
                f"The exponent of the likelihood's variance is {self.exponent}: it must be from 0 to 1."
            )

    def __call__(
        self, learner: AbstractDynamics, batch: Window, weights: AbstractWeights, key: Key
    ) -> tuple[Scalar, LossReport]:
        predicted = forecast_batch(learner, batch, key)
        if predicted.deviation is None:
            raise InputError(
                "The likelihood needs a dynamics that predicts its deviation, which a "
                f"{type(learner).__name__} does not: choose the architecture gaussian."
            )
        errors = jnp.mean(squared_errors(predicted.mean, batch.states), axis=0)
        surprise = negative_log_likelihood(predicted.mean, predicted.deviation, batch.states)
        exponent = 2 * jnp.asarray(self.exponent, surprise.dtype)
        scaled = jax.lax.stop_gradient(predicted.deviation**exponent) * surprise
        given = weights(errors)
        value = jnp.sum(given * scaled.mean(axis=(0, 2))) + learner.penalty()
        alphas = given * precisions(predicted.deviation)
        # It may be negative, so that a gradient is no share of it: as steep at every horizon.
        steepness = jnp.ones_like(value)
        return value, LossReport(errors, alphas / alphas.sum(), predicted.noted, steepness)


def negative_log_likelihood(
    mean: Float[Array, "*any"], deviation: Float[Array, "*any"], observed: Float[Array, "*any"]
) -> Float[Array, "*any"]:
    r"""$-\log \mathcal N(s \mid \mu, \sigma)$
    $= \log\sigma + (s - \mu)^2 / 2\sigma^2 + \tfrac12 \log 2\pi$, each number by itself."""
    return jnp.log(deviation) + ((observed - mean) / deviation) ** 2 / 2 + math.log(2 * math.pi) / 2


def precisions(deviation: Float[Array, "batch horizon state"]) -> PerHorizon:
    r"""$\langle 1 / 2\sigma_j^2 \rangle$ over a batch and the state's dimensions: what a likelihood
    multiplies the squared error of each step ahead by."""
    return jnp.mean(1 / (2 * deviation**2), axis=(0, 2))
