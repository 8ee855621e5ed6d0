"""Options of the commands that fit: what stands in for states that nobody measures."""

from dataclasses import dataclass
from itertools import product
from typing import Literal

from multistep.dynamics import AbstractMemory
from multistep.selection.lags import memory_of


@dataclass(frozen=True)
class MemoryOptions:
    """What a model knows besides the last sample."""

    lags: int | Literal["auto"] | None = None
    """Samples that the model starts from, where the columns are not the whole state: the last outputs and the
    inputs between them; auto: as many as the judge prefers, or a hidden state (default: 1; with --hidden 10).
    """
    hidden: int | None = None
    """Numbers of a hidden state, the outputs among them, that is learned with the model and read from the
    last samples."""

    @property
    def memory(self) -> AbstractMemory:
        """What the options stand for."""
        return memory_of(self.lags, self.hidden)


@dataclass(frozen=True)
class MemoriesToTry:
    """What a model may know besides the last sample; of several values each is tried."""

    lags: tuple[int | Literal["auto"], ...] = ()
    """Samples that the model starts from, one number or several to try: the last outputs and the inputs
    between them; auto: as many as the judge of the automatic recipe prefers (default: 1; with --hidden 10).
    """
    hidden: tuple[int, ...] = ()
    """Numbers of a hidden state, the outputs among them, one size or several to try, each with every number
    of lags."""

    @property
    def memories(self) -> list[AbstractMemory]:
        """What the options stand for, in their order."""
        return [memory_of(*pair) for pair in product(self.lags or (None,), self.hidden or (None,))]
