"""Hallucinated replay: the one-step loss from states that the model itself has predicted, taken as data."""

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import PyTree

from multistep.data import Past, Window
from multistep.dynamics import AbstractDynamics, Prediction
from multistep.dynamics.base import Memory
from multistep.losses.base import AbstractLoss, LossReport
from multistep.losses.multistep import MultiStep
from multistep.losses.weights import AbstractWeights
from multistep.types import Actions, Key, Scalar


class HallucinatedReplay(AbstractLoss):
    r"""$L = \sum_j \alpha_j \tfrac1d \lVert p_\theta(\bar s_{t+j-1}, a_{t+j-1}) - s_{t+j} \rVert^2$ with
    $\bar s_{t+j}$ the model's own rollout, through which no gradient flows.

    Its value is that of the multi-step loss, its gradient is not: each step learns to lead from where the
    rollout has come to back to the true next state, and none learns to come there. With a horizon of 1 it is
    the one-step loss (Talvitie, "Model regularization for stable sample rollouts", 2014).
    """

    def __call__(
        self, learner: AbstractDynamics, batch: Window, weights: AbstractWeights, key: Key
    ) -> tuple[Scalar, LossReport]:
        return MultiStep()(Detached(learner), batch, weights, key)


class Detached(AbstractDynamics):
    """A dynamics whose every step takes the memory that it starts from as data."""

    learner: AbstractDynamics

    @property
    def num_past(self) -> int:
        return self.learner.num_past

    def start(self, past: Past) -> Memory:
        return self.learner.start(past)

    def inputs(self, actions: Actions, key: Key | None) -> PyTree:
        # What `start` has made is no prediction: an encoder in it is trained by the first step.
        return self.learner.inputs(actions, key), jnp.arange(len(actions)) == 0

    def step(self, memory: Memory, given: Any) -> Memory:
        own, is_first = given
        memory = jax.tree.map(lambda leaf: jnp.where(is_first, leaf, jax.lax.stop_gradient(leaf)), memory)
        return self.learner.step(memory, own)

    def predict(self, memory: Memory) -> Prediction:
        return self.learner.predict(memory)
