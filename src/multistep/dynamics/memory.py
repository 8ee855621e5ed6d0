"""What a model carries from step to step: the state, the last outputs and inputs, or a hidden state."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from numbers import Integral
from typing import Any

from multistep.dynamics.base import AbstractArchitecture
from multistep.dynamics.hidden import HiddenConfig
from multistep.dynamics.lagged import LaggedConfig
from multistep.dynamics.limited import LimitedConfig
from multistep.dynamics.network import NetworkConfig
from multistep.dynamics.shallow import ShallowConfig
from multistep.errors import InputError, counted


class AbstractMemory(ABC):
    """What turns an architecture of measured states into one of outputs alone: a frozen dataclass."""

    @property
    @abstractmethod
    def num_past(self) -> int:
        """Samples that a model with it starts from."""

    @abstractmethod
    def around(self, network: AbstractArchitecture) -> AbstractArchitecture:
        """The architecture with this memory, in which `network` predicts the next step."""

    def check_sizes(self, state_size: int, action_size: int) -> None:
        """Raise an `InputError` if there can be no such memory of so many outputs and inputs."""
        return


@dataclass(frozen=True)
class NoMemory(AbstractMemory):
    """Everything that matters is measured: the state is its own memory."""

    @property
    def num_past(self) -> int:
        return 1

    def around(self, network: AbstractArchitecture) -> AbstractArchitecture:
        return network


@dataclass(frozen=True)
class Lags(AbstractMemory):
    """The last outputs and the inputs between them, shifted."""

    count: int
    """Outputs; 1 is no memory."""

    def __post_init__(self) -> None:
        if not _is_count(self.count):
            raise InputError(
                f"{self.count!r} lags: give the number of outputs to remember, 1 or more, and whole."
            )

    @property
    def num_past(self) -> int:
        return self.count

    def around(self, network: AbstractArchitecture) -> AbstractArchitecture:
        if self.count == 1:
            return network
        _check(network)
        return LaggedConfig(self.count, network)


@dataclass(frozen=True)
class HiddenState(AbstractMemory):
    """A state that is learned, started from the last outputs and inputs."""

    size: int
    """Its numbers, the outputs among them."""
    lags: int = 10
    """Outputs that it is read from at the start."""

    def __post_init__(self) -> None:
        if not (_is_count(self.size) and _is_count(self.lags)):
            raise InputError(
                f"A hidden state of {self.size!r} numbers, read from {self.lags!r} outputs: both must be "
                "1 or more, and whole."
            )

    @property
    def num_past(self) -> int:
        return self.lags

    def around(self, network: AbstractArchitecture) -> AbstractArchitecture:
        _check(network)
        if isinstance(
            network, ShallowConfig | LimitedConfig
        ):  # for second-order descent, which knows each weight of few
            return HiddenConfig(self.size, self.lags, network, encoder_size=0)
        return HiddenConfig(self.size, self.lags, network)

    def check_sizes(self, state_size: int, action_size: int) -> None:
        read = self.lags * state_size + (self.lags - 1) * action_size
        if self.size > read:
            raise InputError(
                f"A hidden state of {self.size} numbers cannot be read from a past of "
                f"{counted(read, 'number')} ({counted(self.lags, 'sample')}): ask for more lags, or for a "
                "smaller state."
            )


def _is_count(number: Any) -> bool:
    return isinstance(number, Integral) and not isinstance(number, bool) and int(number) >= 1


def _check(network: AbstractArchitecture) -> None:
    if isinstance(network, NetworkConfig) and (network.batch_norm or network.dropout):
        raise InputError(
            "Batch norm and dropout are for models of measured states alone: leave them out, or the lags."
        )
