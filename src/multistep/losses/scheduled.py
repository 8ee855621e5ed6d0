"""Scheduled sampling: each step of a training rollout starts from the true state with some probability."""

import math
from typing import Any

import jax
import jax.numpy as jnp
from jax.core import Tracer
from jaxtyping import Array, Bool, PyTree

from multistep.data import Past, Window
from multistep.dynamics import AbstractDynamics, Prediction, forecast
from multistep.dynamics.base import Memory
from multistep.errors import InputError
from multistep.losses.base import AbstractLoss, LossReport, side_by_side
from multistep.losses.multistep import squared_errors, weighted_loss
from multistep.losses.weights import AbstractWeights
from multistep.types import Actions, Key, Scalar


class ScheduledSampling(AbstractLoss):
    r"""$L = \sum_j \alpha_j \tfrac1d \lVert \hat s_{t+j} - s_{t+j} \rVert^2$ with
    $\hat s_{t+j} = p_\theta(\tilde s_{t+j-1}, a_{t+j-1})$ and $\tilde s$ the true state with probability
    $\epsilon$, else $\hat s$.

    The coin is thrown for every step of every window. With probability 1 it is teacher forcing (the one-step
    loss at each step of the window), with 0 the multi-step loss, the gradient taken through the states that
    were predicted. The curriculum `scheduled` lets the probability fall (Bengio et al., "Scheduled sampling
    for sequence prediction with recurrent neural networks", 2015).
    """

    probability: float | int | Scalar = 0.5

    def __check_init__(self) -> None:
        if isinstance(self.probability, Tracer):
            return
        if not (math.isfinite(self.probability) and 0 <= self.probability <= 1):
            raise InputError(
                f"The probability of scheduled sampling is {self.probability}: it must be from 0 to 1."
            )

    def __call__(
        self, learner: AbstractDynamics, batch: Window, weights: AbstractWeights, key: Key
    ) -> tuple[Scalar, LossReport]:
        def predict(window: Window, key: Key) -> Prediction:
            coin_key, own_key = jax.random.split(key)
            is_true = jax.random.bernoulli(coin_key, self.probability, (len(window.actions),))
            guided = Guided(learner, true_memories(learner, window), is_true)
            return forecast(guided, window.past, window.actions, key=own_key)

        predicted = side_by_side(predict, batch, key)
        errors = jnp.mean(squared_errors(predicted.mean, batch.states), axis=0)
        return weighted_loss(errors, weights), LossReport(errors, weights(errors), predicted.noted)


class Guided(AbstractDynamics):
    """A dynamics along one window, whose memory is put right before some of its steps."""

    learner: AbstractDynamics
    truth: Memory
    """The memory before each step that observations would give, stacked."""
    is_true: Bool[Array, " horizon"]
    """Whether it takes the place of the dynamics' own."""

    @property
    def num_past(self) -> int:
        return self.learner.num_past

    def start(self, past: Past) -> Memory:
        return self.learner.start(past)

    def inputs(self, actions: Actions, key: Key | None) -> PyTree:
        return self.learner.inputs(actions, key), self.truth, self.is_true

    def step(self, memory: Memory, given: Any) -> Memory:
        own, truth, is_true = given
        memory = jax.tree.map(lambda right, mine: jnp.where(is_true, right, mine), truth, memory)
        return self.learner.step(memory, own)

    def predict(self, memory: Memory) -> Prediction:
        return self.learner.predict(memory)


def true_memories(learner: AbstractDynamics, window: Window) -> Memory:
    """What the learner would start each step of the window from, had it been given all observations before,
    stacked."""
    states = jnp.concatenate([window.past.states, window.states])
    actions = jnp.concatenate([window.past.actions, window.actions])
    places = jnp.arange(len(window.actions))[:, None] + jnp.arange(learner.num_past)[None]
    return jax.vmap(learner.start)(Past(states[places], actions[places[:, :-1]]))
