"""The weighted multi-step loss: L = sum_j alpha_j e_j, the gradient taken through every composition of the model."""

import jax.numpy as jnp
from jaxtyping import Array, Float

from multistep.data import Window
from multistep.dynamics import AbstractModel, rollout
from multistep.losses.weights import AbstractWeights
from multistep.types import PerHorizon, Scalar


def multistep_errors(model: AbstractModel, window: Window) -> PerHorizon:
    r"""Mean squared error of the model's own rollout at each step ahead.

    $e_j = \tfrac1d \lVert \hat s_{t+j} - s_{t+j} \rVert^2$, with $\hat s_t = s_t$ and
    $\hat s_{t+j+1} = f_\theta(\hat s_{t+j}, a_{t+j})$. Unweighted: see `weighted_loss`.
    """
    return squared_errors(rollout(model.step, window.states[0], window.actions), window.states[1:])


def squared_errors(predicted: Float[Array, "horizon state"], observed: Float[Array, "horizon state"]) -> PerHorizon:
    """Mean over the state's dimensions of the squared error at each step ahead."""
    return jnp.mean((predicted - observed) ** 2, axis=-1)


def weighted_loss(errors: PerHorizon, weights: AbstractWeights) -> Scalar:
    r"""$L_\alpha = \sum_j \alpha_j e_j$, with `errors` averaged over a batch of windows (Definition "loss")."""
    return jnp.sum(weights(errors) * errors)
