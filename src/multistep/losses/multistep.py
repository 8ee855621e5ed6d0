"""The weighted multi-step loss: L = sum_j alpha_j e_j, the gradient taken through every composition of the
model."""

import jax.numpy as jnp
from jaxtyping import Array, Float

from multistep.data import Window
from multistep.dynamics import AbstractDynamics, forecast
from multistep.losses.base import AbstractLoss, LossReport, forecast_batch
from multistep.losses.weights import AbstractWeights
from multistep.types import Key, PerHorizon, Scalar


class MultiStep(AbstractLoss):
    r"""$L_\alpha = \sum_j \alpha_j e_j$, with $e_j$ averaged over the batch (Definition "loss")."""

    def __call__(
        self, learner: AbstractDynamics, batch: Window, weights: AbstractWeights, key: Key
    ) -> tuple[Scalar, LossReport]:
        predicted = forecast_batch(learner, batch, key)
        errors = jnp.mean(squared_errors(predicted.mean, batch.states), axis=0)
        return weighted_loss(errors, weights), LossReport(errors, weights(errors), predicted.noted)


def multistep_errors(dynamics: AbstractDynamics, window: Window) -> PerHorizon:
    r"""Mean squared error of the dynamics' own rollout at each step ahead.

    $e_j = \tfrac1d \lVert \hat s_{t+j} - s_{t+j} \rVert^2$, with $\hat s_t = s_t$ and
    $\hat s_{t+j+1} = f_\theta(\hat s_{t+j}, a_{t+j})$. Unweighted: see `weighted_loss`.
    """
    return squared_errors(forecast(dynamics, window.past, window.actions).mean, window.states)


def squared_errors(
    predicted: Float[Array, "*batch horizon state"], observed: Float[Array, "*batch horizon state"]
) -> Float[Array, "*batch horizon"]:
    """Mean over the state's dimensions of the squared error at each step ahead."""
    return jnp.mean((predicted - observed) ** 2, axis=-1)


def weighted_loss(errors: PerHorizon, weights: AbstractWeights) -> Scalar:
    r"""$\sum_j \alpha_j e_j$."""
    return jnp.sum(weights(errors) * errors)
