"""`LeastSquares`: a linear model in closed form, as a recipe like any other."""

import time
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp

from multistep.data import Episodes, Windows, window_starts
from multistep.dynamics import (
    AbstractArchitecture,
    AbstractDynamics,
    LineConfig,
    forecast,
    in_units,
)
from multistep.losses import Uniform
from multistep.runs.provenance import plain
from multistep.training.base import AbstractRecipe, Fit, Score
from multistep.training.history import Epoch, Outcome, rankable
from multistep.training.once import check_past
from multistep.training.settings import Settings
from multistep.types import Key


@dataclass(frozen=True)
class LeastSquares(AbstractRecipe):
    """The linear model whose one-step errors on the training episodes are least: what any other must beat."""

    network: AbstractArchitecture = field(default_factory=LineConfig)
    """What is fitted: a line, or one with a memory."""

    @property
    def settings(self) -> Settings:
        return Settings(horizon=1, weights=Uniform(), epochs=1, least_steps=1)

    def vary(self, **changes: Any) -> "LeastSquares":
        return replace(self, network=changes.get("network", self.network))

    def fit(
        self,
        train: Episodes,
        valid: Episodes,
        *,
        key: Key,
        score: Score,
        checkpoint: str | Path | None = None,
    ) -> Fit:
        started = time.perf_counter()
        network = self.network.suited_to(train)
        normaliser = network.normaliser(train)
        line = network.make(train.state_size, train.action_size, key=key)
        past = line.num_past
        check_past(train, past)
        windows, starts = Windows(*normaliser.normalise(train), 1, past), window_starts(train, 1, past)
        line = line.begin(windows, starts, normaliser)
        units = jax.tree.map(lambda values: jnp.asarray(values, float), normaliser)
        names = train.state_names, train.action_names
        model = in_units(line.freeze(), units, *names, train.time_step, train.units)
        error = float(_error(line, windows, jnp.asarray(starts)))
        value = rankable(score(model, valid))
        epoch = Epoch(0, (error,), (1.0,), value, time.perf_counter() - started)
        return Fit(model, (epoch,), Outcome.FINISHED)


@plain.register
def _plain_least_squares(recipe: LeastSquares) -> dict[str, Any]:
    """What is fitted only where it is not a line: rows from before there was anything else stay valid."""
    return {} if recipe == LeastSquares() else {"network": plain(recipe.network)}


@jax.jit
def _error(line: AbstractDynamics, windows: Windows, starts: jax.Array) -> jax.Array:
    """Mean squared error one step ahead."""

    def of_window(start: jax.Array) -> jax.Array:
        window = windows.gather(start)
        return ((forecast(line, window.past, window.actions).mean - window.states) ** 2).mean()

    return jax.vmap(of_window)(starts).mean()
