"""What a file says of the model in it: names, units, scaling, time step, range of the training data."""

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from multistep.dynamics.model import MemoryModel, Model


@dataclass(frozen=True)
class Signal:
    """A state or an action."""

    name: str
    unit: str | None
    mean: float
    """Of the training data, as is the deviation: the model normalises with them by itself."""
    deviation: float
    low: float | None
    """The lowest in the training data; none if it is not known, or if any number will do (a whole turn)."""
    high: float | None


@dataclass(frozen=True)
class Facts:
    """What is to be known of a model before it is used."""

    name: str
    states: tuple[Signal, ...]
    actions: tuple[Signal, ...]
    num_past: int
    """Samples that it starts from; 1: its memory is the state itself."""
    memory_size: int
    time_step: float | None

    @property
    def plain(self) -> dict[str, Any]:
        """As plain values, in this order."""
        return asdict(self)

    @property
    def signals(self) -> tuple[Signal, ...]:
        return self.states + self.actions

    @property
    def has_ranges(self) -> bool:
        return any(signal.low is not None for signal in self.signals)


def facts_of(model: Model | MemoryModel, memory_size: int, name: str = "model") -> Facts:
    """What the model knows of itself.

    **Arguments:**

    - `model`: in the user's units.
    - `memory_size`: the numbers that it carries from step to step.
    - `name`: what to call it.
    """
    units, known = dict(model.units), model.normaliser

    def signals(names: tuple[str, ...], mean: Any, deviation: Any, span: Any) -> tuple[Signal, ...]:
        mean = np.asarray(mean)
        low, high = np.full((2, len(names)), np.inf, mean.dtype) if span is None else np.asarray(span)
        columns = zip(names, mean, np.asarray(deviation), low, high, strict=True)
        return tuple(
            Signal(own, units.get(own), _plain(middle), _plain(size), _limit(least), _limit(most))
            for own, middle, size, least, most in columns
        )

    return Facts(
        name,
        signals(model.state_names, known.state_mean, known.state_deviation, known.state_range),
        signals(model.action_names, known.action_mean, known.action_deviation, known.action_range),
        model.num_past,
        memory_size,
        model.time_step,
    )


def _plain(number: np.floating) -> float:
    """The shortest decimal that rounds to this number: 0.7 in single precision is 0.7 in double, not less."""
    return float(str(number))


def _limit(number: np.floating) -> float | None:
    return _plain(number) if np.isfinite(number) else None


def lows_and_highs(signals: tuple[Signal, ...]) -> tuple[list[float], list[float]]:
    """The ends of each range, infinite where there is none."""
    lows = [-np.inf if signal.low is None else signal.low for signal in signals]
    return lows, [np.inf if signal.high is None else signal.high for signal in signals]
