r"""The paper's two-parameter system: $s_{t+1} = \theta_1\,\mathrm{sigmoid}(\theta_2 s_t)$, and a network of
the same form."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float, Int
from numpy import ndarray

from multistep.data import Past, Window
from multistep.dynamics import AbstractModel
from multistep.losses import multistep_errors
from multistep.types import Action, PerHorizon, Scalar, State

TRUE_PARAMETERS = (1.5, 2.0)

Parameters = Float[Array, " 2"]
Observed = Float[Array, "samples 3"]


class SigmoidModel(AbstractModel):
    """A network of two layers with one neuron, without biases."""

    parameters: Parameters

    def step(self, state: State, action: Action) -> State:
        return self.parameters[0] * jax.nn.sigmoid(self.parameters[1] * state)


def two_step_errors(parameters: Parameters, observed: Observed) -> Float[Array, " 2"]:
    """Mean squared error one and two steps ahead of the first of three observations: the general loss on this
    system."""

    def of_sample(observations: Float[Array, " 3"]) -> PerHorizon:
        no_actions = jnp.zeros((2, 0), observations.dtype)
        states = observations[:, None]
        window = Window(Past(states[:1], no_actions[:0]), no_actions, states[1:])
        return multistep_errors(SigmoidModel(parameters), window)

    return jax.vmap(of_sample)(observed).mean(axis=0)


def two_step_loss(parameters: Parameters, observed: Observed, alpha: Scalar) -> Scalar:
    r"""$L_\alpha = \alpha e_1 + (1-\alpha) e_2$."""
    one, two = two_step_errors(parameters, observed)
    return alpha * one + (1 - alpha) * two


def train(
    optimiser: optax.GradientTransformation,
    start: Parameters,
    alpha: Scalar,
    observed: Observed,
    batches: Int[Array, "epochs batches batch"],
) -> Float[Array, "epochs_and_one 2"]:
    """The parameters at the start and after each epoch of minimising the loss in these batches."""

    def step(carried: tuple[Parameters, optax.OptState], batch: Int[Array, " batch"]) -> tuple[tuple, None]:
        parameters, state = carried
        slope = jax.grad(two_step_loss)(parameters, observed[batch], alpha)
        change, state = optimiser.update(slope, state)
        return (optax.apply_updates(parameters, change), state), None

    def epoch(
        carried: tuple[Parameters, optax.OptState], numbers: Int[Array, "batches batch"]
    ) -> tuple[tuple, Parameters]:
        carried, _ = jax.lax.scan(step, carried, numbers)
        return carried, carried[0]

    _, history = jax.lax.scan(epoch, (start, optimiser.init(start)), batches)
    return jnp.concatenate([start[None], history])


def simulate(states: Float[ndarray, " samples"]) -> Float[ndarray, "3 samples"]:
    """These states and the two that truly follow."""
    path = [states]
    for _ in range(2):
        path.append(TRUE_PARAMETERS[0] / (1 + np.exp(-TRUE_PARAMETERS[1] * path[-1])))
    return np.stack(path)


def observe(
    states: Float[ndarray, " samples"], noise: float, num_draws: int, rng: np.random.Generator
) -> Float[ndarray, "draws samples 3"]:
    """First states, and both following ones with noise: its deviation is a share of the range of the states
    that follow."""
    path = simulate(states)
    observed = np.repeat(path.T[None], num_draws, axis=0)
    observed[..., 1:] += noise * np.ptp(path[1:]) * rng.standard_normal(observed[..., 1:].shape)
    return observed
