"""The settings that come with the package."""

from typing import Literal

from multistep.dynamics import NetworkConfig
from multistep.losses import Exponential
from multistep.training.once import Once
from multistep.training.smoothed import Smoothed

DEFAULT = Once()
"""Ours: neither batch norm nor dropout, a long horizon, balanced weights. One fit; `SMOOTHED` is two."""

PAPER = Once(
    network=NetworkConfig(batch_norm=True, dropout=0.1),
    horizon=4,
    weights=Exponential(1.5),
    epochs=30,
    least_steps=1,
)
"""The paper's network, optimiser and batch size, with the horizon and weights it found best for noisy
Cartpole data."""

SMOOTHED = Smoothed.of(DEFAULT)
"""Fitted again without the noise, if there is any."""

Preset = Literal["default", "paper"]
PRESETS: dict[Preset, Once] = {"default": DEFAULT, "paper": PAPER}
