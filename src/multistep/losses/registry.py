"""The losses that can be typed."""

from multistep.losses.base import AbstractLoss
from multistep.losses.hallucinated import HallucinatedReplay
from multistep.losses.likelihood import Likelihood
from multistep.losses.multistep import MultiStep
from multistep.losses.noisy import Noisy
from multistep.losses.scheduled import ScheduledSampling
from multistep.registry import Registry
from multistep.runs.provenance import plain

LOSSES = Registry(
    "loss",
    AbstractLoss,
    {
        "multistep": MultiStep,
        "likelihood": Likelihood,
        "hallucinated": HallucinatedReplay,
        "scheduled": ScheduledSampling,
        "noisy": Noisy,
    },
)


@plain.register
def describe_loss(loss: AbstractLoss) -> str:
    """The text that finds the loss again."""
    return LOSSES.describe(loss)
