"""The contract of a loss: what a batch of windows costs a dynamics in training."""

from abc import abstractmethod
from collections.abc import Callable
from typing import NamedTuple

import equinox as eqx
import jax
from jaxtyping import PyTree

from multistep.data import Window
from multistep.dynamics import BATCH, AbstractDynamics, Prediction, forecast
from multistep.losses.weights import AbstractWeights
from multistep.types import Key, PerHorizon, Scalar


class LossReport(NamedTuple):
    """What one batch showed, before its gradient step."""

    errors: PerHorizon
    """Mean error at each step ahead, for the history."""
    weights: PerHorizon
    """Weight that each step ahead had."""
    noted: PyTree = ()
    """What the predictions noted, for the dynamics' own use."""
    steepness: Scalar | None = None
    """Norm of the loss's gradient as a share of the loss; the epoch fills it in, unless the loss has."""


class AbstractLoss(eqx.Module):
    """What a batch of windows costs a dynamics. Interchangeable: `MultiStep`, `Likelihood`,
    `HallucinatedReplay`, `ScheduledSampling`, `Noisy`."""

    @abstractmethod
    def __call__(
        self, learner: AbstractDynamics, batch: Window, weights: AbstractWeights, key: Key
    ) -> tuple[Scalar, LossReport]:
        """The loss to descend, and what the history shows of it.

        **Arguments:**

        - `learner`: the dynamics in training, in normalised units; gradients are taken with respect to it.
        - `batch`: windows stacked along a leading axis, all of one horizon.
        - `weights`: how much each step ahead counts.
        - `key`: for whatever is drawn (masks, noise, members); not used by a deterministic loss.
        """


def forecast_batch(learner: AbstractDynamics, batch: Window, key: Key) -> Prediction:
    """The forecasts of a batch of windows, side by side; what they noted is the same for all.

    **Arguments:**

    - `learner`: the dynamics in training.
    - `batch`: windows stacked along a leading axis.
    - `key`: each window draws with one of its own.
    """

    def forecast_window(window: Window, key: Key) -> Prediction:
        return forecast(learner, window.past, window.actions, key=key)

    return side_by_side(forecast_window, batch, key)


def side_by_side(predict: Callable[[Window, Key], Prediction], batch: Window, key: Key) -> Prediction:
    """What is predicted of each window, for a loss that does not simply forecast it.

    **Arguments:**

    - `predict`: predictions for one window, along its horizon.
    - `batch`: windows stacked along a leading axis.
    - `key`: each window draws with one of its own.
    """
    each = Prediction(0, 0, None)  # pyright: ignore[reportArgumentType] - axes in place of arrays
    return jax.vmap(predict, axis_name=BATCH, out_axes=each)(batch, jax.random.split(key, len(batch.states)))
