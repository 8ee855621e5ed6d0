"""The curricula that can be typed."""

from multistep.registry import Registry
from multistep.runs.provenance import plain
from multistep.training.base import AbstractCurriculum
from multistep.training.counted import Counted
from multistep.training.curricula import Growing, Steady
from multistep.training.scheduled import Scheduled

CURRICULA = Registry(
    "curriculum",
    AbstractCurriculum,
    {"steady": Steady, "growing": Growing, "counted": Counted, "scheduled": Scheduled},
)


@plain.register
def describe_curriculum(curriculum: AbstractCurriculum) -> str:
    """The text that finds the curriculum again."""
    return CURRICULA.describe(curriculum)
