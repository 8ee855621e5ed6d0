"""Options of every command that fits: what stands in for states that nobody measures."""

from dataclasses import dataclass
from typing import Literal

from multistep.dynamics import AbstractMemory, HiddenState, Lags, NoMemory
from multistep.errors import InputError
from multistep.selection.lags import ChosenMemory

READ = 10
"""Outputs that a hidden state is read from at the start, where the user does not say."""


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
        if self.lags == "auto":
            if self.hidden is not None:
                raise InputError("--lags auto chooses the hidden state too: leave --hidden out.")
            return ChosenMemory()
        if self.hidden is not None:
            return HiddenState(self.hidden, READ if self.lags is None else self.lags)
        return NoMemory() if self.lags is None else Lags(self.lags)
