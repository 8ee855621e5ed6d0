"""One epoch of training as one compiled program."""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, Int, PyTree
from numpy import ndarray

from multistep.data import Window, Windows
from multistep.dynamics import BATCH, Learner, Network, Statistics, no_statistics, rollout
from multistep.losses import AbstractWeights, squared_errors, weighted_loss
from multistep.types import Key, PerHorizon, Scalar

MOMENTUM = 0.1  # share of the newest batch in the running statistics of batch norm, as in PyTorch
ADAM = optax.scale_by_adam()


class Training(eqx.Module):
    """All that an epoch changes, and the part of the learner that the loss does not touch."""

    trained: Learner
    untouched: Learner
    statistics: tuple[Statistics, ...]
    moments: PyTree

    @staticmethod
    def start(learner: Learner) -> "Training":
        # The deviation head has no part in a loss on the mean: leaving it out saves a third of the
        # optimiser's work.
        everything = jax.tree.map(lambda _: True, learner)
        head = jax.tree.map(lambda _: False, learner.network.deviation_head)
        mean_part = eqx.tree_at(lambda spec: spec.network.deviation_head, everything, head)
        trained, untouched = eqx.partition(learner, mean_part)
        return Training(trained, untouched, no_statistics(learner), ADAM.init(trained))

    @property
    def network(self) -> Network:
        """The network as it would be used now."""
        return eqx.combine(self.trained, self.untouched).freeze(self.statistics)


class BatchReport(NamedTuple):
    """What one batch showed, before its gradient step."""

    errors: PerHorizon
    weights: PerHorizon


@jax.jit
def train_epoch(
    training: Training,
    windows: Windows,
    batches: Int[Array | ndarray, "batches batch 2"],
    weights: AbstractWeights,
    learning_rates: Float[Array, " batches"],
    *,
    key: Key,
) -> tuple[Training, BatchReport]:
    """The training after one gradient step per batch of window starts, and the batch reports averaged over
    the epoch."""

    def descend(training: Training, given):
        starts, learning_rate, batch_key = given
        batch = jax.vmap(windows.gather)(starts)
        gradient, (report, statistics) = jax.grad(batch_loss, has_aux=True)(
            training.trained, weights, batch, batch_key
        )
        return _descended(training, gradient, statistics, learning_rate), report

    training, reports = jax.lax.scan(
        descend, training, (batches, learning_rates, jax.random.split(key, len(batches)))
    )
    return training, jax.tree.map(lambda values: values.mean(axis=0), reports)


def batch_loss(
    learner: Learner, weights: AbstractWeights, batch: Window, key: Key
) -> tuple[Scalar, tuple[BatchReport, tuple[Statistics, ...]]]:
    """Weighted multi-step loss of a batch of normalised windows; also its report and the batch-norm
    statistics it saw."""

    def errors_of(window: Window, key: Key) -> tuple[PerHorizon, tuple[Statistics, ...]]:
        start = (window.states[0], no_statistics(learner))
        masks = learner.draw_masks(len(window.actions), key=key)
        predicted, statistics = rollout(learner.step, start, (window.actions, masks))
        return squared_errors(predicted, window.states[1:]), statistics

    keys = jax.random.split(key, len(batch.states))
    errors, statistics = jax.vmap(errors_of, axis_name=BATCH, out_axes=(0, None))(batch, keys)
    errors = jnp.mean(errors, axis=0)
    # Each step of the rollout has statistics of its own; the running ones see their mean, once per gradient
    # step.
    statistics = jax.tree.map(lambda values: values.mean(axis=0), statistics)
    return weighted_loss(errors, weights), (BatchReport(errors, weights(errors)), statistics)


def _descended(
    training: Training, gradient: PyTree, statistics: tuple[Statistics, ...], learning_rate: Scalar
) -> Training:
    direction, moments = ADAM.update(gradient, training.moments)
    trained = jax.tree.map(lambda value, change: value - learning_rate * change, training.trained, direction)
    running = jax.tree.map(
        lambda old, new: (1 - MOMENTUM) * old + MOMENTUM * new, training.statistics, statistics
    )
    return Training(trained, training.untouched, running, moments)
