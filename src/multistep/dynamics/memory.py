"""What a model carries from step to step: the state, the last outputs and inputs, or a hidden state."""

from abc import ABC, abstractmethod
from dataclasses import dataclass

from multistep.dynamics.base import AbstractArchitecture
from multistep.dynamics.hidden import HiddenConfig
from multistep.dynamics.lagged import LaggedConfig
from multistep.dynamics.limited import LimitedConfig
from multistep.dynamics.network import NetworkConfig
from multistep.dynamics.shallow import ShallowConfig
from multistep.errors import InputError


class AbstractMemory(ABC):
    """What turns an architecture of measured states into one of outputs alone: a frozen dataclass."""

    @property
    @abstractmethod
    def num_past(self) -> int:
        """Samples that a model with it starts from."""

    @abstractmethod
    def around(self, network: AbstractArchitecture) -> AbstractArchitecture:
        """The architecture with this memory, in which `network` predicts the next step."""


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
        if self.count < 1:
            raise InputError(f"{self.count} lags: give the number of outputs to remember, 1 or more.")

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


def _check(network: AbstractArchitecture) -> None:
    if isinstance(network, NetworkConfig) and (network.batch_norm or network.dropout):
        raise InputError(
            "Batch norm and dropout are for models of measured states alone: leave them out, or the lags."
        )
