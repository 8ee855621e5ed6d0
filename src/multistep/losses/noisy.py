"""Noise injection: any loss, from starts with noise on them."""

import math
from dataclasses import field

import jax
from jax.core import Tracer

from multistep.data import Window
from multistep.dynamics import AbstractDynamics
from multistep.errors import InputError
from multistep.losses.base import AbstractLoss, LossReport
from multistep.losses.multistep import MultiStep
from multistep.losses.weights import AbstractWeights
from multistep.types import Key, Scalar


class Noisy(AbstractLoss):
    r"""$L(\theta;\, s_t + \sigma\varepsilon,\, a,\, s_{t+1}, \ldots)$ with $\varepsilon \sim N(0, I)$ drawn
    anew for every window.

    The observations that a forecast starts from get the noise, what it is compared with does not: the model
    learns to come back from near the data, as its own rollout will be there. With a horizon of 1 it is the
    noise injection of one-step training.
    """

    loss: AbstractLoss = field(default_factory=MultiStep)
    deviation: float | int | Scalar = 0.02
    """As a share of each state's deviation in the training episodes."""

    def __check_init__(self) -> None:
        if isinstance(self.deviation, Tracer):
            return
        if not (math.isfinite(self.deviation) and self.deviation >= 0):
            raise InputError(f"The deviation of the noise is {self.deviation}: it must be 0 or more.")

    def __call__(
        self, learner: AbstractDynamics, batch: Window, weights: AbstractWeights, key: Key
    ) -> tuple[Scalar, LossReport]:
        noise_key, own_key = jax.random.split(key)
        states = batch.past.states
        noise = self.deviation * jax.random.normal(noise_key, states.shape, states.dtype)
        past = batch.past._replace(states=states + noise)
        return self.loss(learner, batch._replace(past=past), weights, own_key)
