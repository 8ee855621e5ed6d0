"""One epoch of training as one compiled program."""

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, Int, PyTree
from numpy import ndarray

from multistep.data import Windows
from multistep.dynamics import AbstractDynamics
from multistep.losses import AbstractLoss, AbstractWeights, LossReport
from multistep.types import Key, Scalar

ADAM = optax.scale_by_adam()


class Training(eqx.Module):
    """All that an epoch changes."""

    learner: AbstractDynamics
    moments: PyTree
    """Adam's, of the part of the learner that is trained."""

    @staticmethod
    def start(learner: AbstractDynamics) -> "Training":
        return Training(learner, ADAM.init(eqx.filter(learner, learner.trained())))


def train_epoch(
    training: Training,
    windows: Windows,
    batches: Int[Array | ndarray, "batches batch 2"],
    loss: AbstractLoss,
    weights: AbstractWeights,
    learning_rates: Float[Array, " batches"],
    *,
    key: Key,
) -> tuple[Training, LossReport]:
    """The training after one gradient step per batch of window starts, and the batch reports averaged over
    the epoch."""
    # Numbers are inputs of the compiled program: another beta compiles nothing anew.
    loss, weights = jax.tree.map(
        lambda leaf: jnp.asarray(leaf, float) if isinstance(leaf, float) else leaf, (loss, weights)
    )
    return _train_epoch(training, windows, jnp.asarray(batches), loss, weights, learning_rates, key)


@eqx.filter_jit
def _train_epoch(
    training: Training,
    windows: Windows,
    batches: Int[Array, "batches batch 2"],
    loss: AbstractLoss,
    weights: AbstractWeights,
    learning_rates: Float[Array, " batches"],
    key: Key,
) -> tuple[Training, LossReport]:
    changing, fixed = eqx.partition(training, eqx.is_array)

    def descend(
        changing: PyTree, given: tuple[Int[Array, "batch 2"], Scalar, Key]
    ) -> tuple[PyTree, LossReport]:
        training, (starts, learning_rate, batch_key) = eqx.combine(changing, fixed), given
        batch = jax.vmap(windows.gather)(starts)
        trained, rest = eqx.partition(training.learner, training.learner.trained())

        def cost(trained: PyTree) -> tuple[Scalar, LossReport]:
            return loss(eqx.combine(trained, rest), batch, weights, batch_key)

        (value, report), gradient = jax.value_and_grad(cost, has_aux=True)(trained)
        direction, moments = ADAM.update(gradient, training.moments)
        trained = jax.tree.map(lambda value, change: value - learning_rate * change, trained, direction)
        after = Training(eqx.combine(trained, rest).note(report.noted), moments)
        steepness = report.steepness
        if steepness is None:
            steepness = optax.tree.norm(gradient) / (value + jnp.finfo(value.dtype).tiny)
        return eqx.filter(after, eqx.is_array), report._replace(noted=(), steepness=steepness)

    keys = jax.random.split(key, len(batches))
    changing, reports = jax.lax.scan(descend, changing, (batches, learning_rates, keys))
    return eqx.combine(changing, fixed), jax.tree.map(lambda values: values.mean(axis=0), reports)
