"""`FitConfig`: how a model is trained; `Smoothed`: twice, without the noise; and the presets."""

import math
from dataclasses import dataclass, field, replace
from typing import Literal, NamedTuple

from multistep.dynamics import NetworkConfig
from multistep.errors import InputError
from multistep.losses import AbstractWeights, Balanced, Exponential


@dataclass(frozen=True)
class FitConfig:
    """Everything that a fit depends on besides the data and the key."""

    network: NetworkConfig = field(default_factory=NetworkConfig)
    """Shape of the network."""
    horizon: int = 40
    """Steps ahead that the loss looks at; 1 is the usual one-step loss."""
    weights: AbstractWeights = field(default_factory=Balanced)
    """Weights of the steps ahead: balanced, uniform, exponential:BETA, or the weights themselves as
    0.5,0.3,0.2."""
    epochs: int = 5
    """Passes over all windows; the learning rate falls to zero along a cosine over them."""
    least_steps: int = 2500
    """Gradient steps to take at least: a small dataset is passed over more often than `epochs` says."""
    batch_size: int = 64
    """Windows per gradient step."""
    learning_rate: float = 1e-3
    """Step size of Adam at the start."""
    patience: int | None = None
    """Stop once this many epochs in a row have not improved the validation score; none: never."""

    def __post_init__(self) -> None:
        for name in ("horizon", "epochs", "least_steps", "batch_size", "patience"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise InputError(f"The {name.replace('_', ' ')} is {value}: it must be 1 or more.")
        if not 0 < self.learning_rate < float("inf"):
            raise InputError(
                f"The learning rate is {self.learning_rate}: it must be a finite number above 0."
            )
        if not isinstance(self.weights, AbstractWeights):
            raise InputError(
                f"The weights are {self.weights!r}: give an object, such as Balanced(), Uniform() or "
                "Exponential(2.0)."
            )
        self.weights.check(self.horizon)

    def plan(self, num_windows: int) -> "Plan":
        """Sizes of a fit on so many windows."""
        batch_size = min(self.batch_size, num_windows)
        num_batches = num_windows // batch_size
        return Plan(batch_size, num_batches, max(self.epochs, math.ceil(self.least_steps / num_batches)))


class Plan(NamedTuple):
    """Windows per batch, batches per epoch, epochs."""

    batch_size: int
    num_batches: int
    num_epochs: int


DEFAULT = FitConfig()
"""Ours: neither batch norm nor dropout, a long horizon, balanced weights. One fit; `SMOOTHED` is two."""

PAPER = FitConfig(
    network=NetworkConfig(batch_norm=True, dropout=0.1),
    horizon=4,
    weights=Exponential(1.5),
    epochs=30,
    least_steps=1,
)
"""The paper's network, optimiser and batch size, with the horizon and weights it found best for noisy
Cartpole data."""


@dataclass(frozen=True)
class Smoothed:
    """Two fits: one to the episodes as they were measured, one to the episodes as the first model has
    smoothed them.

    A rollout that starts in a noisy state learns dynamics that are blurred by the noise, worst where they are
    unstable. Smoothed states have a fraction of it, and a shorter horizon will do. Without noise the first
    fit is the only one.
    """

    measured: FitConfig
    """The first fit."""
    smoothed: FitConfig
    """The second one, whose model counts."""

    @staticmethod
    def of(config: FitConfig) -> "Smoothed":
        """The second fit like the first, with half of its horizon, but not below 20, if its weights allow for
        that."""
        try:
            return Smoothed(
                config, replace(config, horizon=min(config.horizon, max(20, config.horizon // 2)))
            )
        except InputError:  # weights that were given one by one
            return Smoothed(config, config)

    @property
    def horizon(self) -> int:
        return self.smoothed.horizon

    @property
    def weights(self) -> AbstractWeights:
        return self.smoothed.weights


SMOOTHED = Smoothed.of(DEFAULT)
"""What `multistep.fit` does by itself."""

Preset = Literal["default", "paper"]
PRESETS: dict[Preset, FitConfig] = {"default": DEFAULT, "paper": PAPER}
