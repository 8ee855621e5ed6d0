"""The losses that can be typed."""

from multistep.losses.base import AbstractLoss
from multistep.losses.likelihood import Likelihood
from multistep.losses.multistep import MultiStep
from multistep.registry import Registry
from multistep.runs.provenance import plain

LOSSES = Registry("loss", AbstractLoss, {"multistep": MultiStep, "likelihood": Likelihood})


@plain.register
def describe_loss(loss: AbstractLoss) -> str:
    """The text that finds the loss again."""
    return LOSSES.describe(loss)
