"""The judge: which of two models of one dataset is better, whatever the noise on what it starts from."""

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int

from multistep.data import Episodes, Windows, unit_of, window_starts
from multistep.dynamics import AbstractDynamics, AbstractModel, ObservedModel, Observer
from multistep.training.base import Score
from multistep.training.history import rankable
from multistep.training.smoothing import LOWEST_NOISE, CannotSmooth, fit_observer
from multistep.types import State

MEASUREMENTS = 20
"""Measurements before a rollout that the observer makes its start of, where episodes are long enough."""


def judge(model: Any, train: Episodes, valid: Episodes, score: Score) -> float:
    """The score on the validation episodes from the states that the model's own observer believes in, or from
    those that were measured, whichever suits the model better.

    A rollout from a measured state is off by the noise on it, and a model that shrinks differences is off by
    less of it, true or not. The observer, whose noise is fitted to the training episodes, starts each model
    where that model thinks the state is, given the measurements before. Where noise is on a few states alone
    an observer may be wrong by more than the measurements are: no model is to suffer from that
    (`multistep bench judge`).

    **Arguments:**

    - `model`: in the user's units; one with memory is scored as it is: it starts from several measurements.
    - `train`: episodes to fit the observer's noise to.
    - `valid`: episodes to predict.
    - `score`: `score(model, valid)`, the higher the better.
    """
    return max(rankable(score(view, valid)) for view in (model, observed(model, train, valid)))


def observed(model: Any, train: Episodes, valid: Episodes) -> AbstractDynamics:
    """The model as the judge sees it; as it is, where there is no observer of it."""
    if not isinstance(model, AbstractModel):
        return model
    try:
        observer = fit_observer(model, train)
    except CannotSmooth:
        return model
    return ObservedModel(observer, num_measurements(valid))


def num_measurements(episodes: Episodes) -> int:
    """How many measurements the observer may have before a rollout in these episodes."""
    return max(1, min(MEASUREMENTS, int(episodes.lengths.max()) // 5))


@dataclass(frozen=True)
class Filtered:
    """A score as the judge takes it, where the noise on the measurements is known: for many models at little
    cost. The better one of two: from what was measured, and from what an observer makes of it.

    What a model's steps are off by follows from its one-step errors and that noise.
    """

    score: Score
    measurement_noise: tuple[float, ...]

    @staticmethod
    def by(observer: Observer, score: Score) -> "Filtered":
        """With the measurement noise of this observer, whatever the model."""
        return Filtered(score, tuple(np.asarray(observer.measurement_noise, float).tolist()))

    def __call__(self, model: Any, episodes: Episodes) -> float:
        return max(rankable(self.score(view, episodes)) for view in self._views(model, episodes))

    def best_view(self, model: Any, episodes: Episodes) -> AbstractDynamics:
        """The model as the judge sees it from where it starts better."""
        return max(self._views(model, episodes), key=lambda view: rankable(self.score(view, episodes)))

    def _views(self, model: Any, episodes: Episodes) -> tuple[Any, AbstractDynamics]:
        return model, self.view(model, episodes)

    def view(self, model: Any, episodes: Episodes) -> AbstractDynamics:
        """The model from the states that its observer believes in; as it is, where it makes its own of the
        past."""
        if not isinstance(model, AbstractModel):
            return model
        noise = jnp.asarray(self.measurement_noise, float)
        lowest = LOWEST_NOISE * jnp.asarray(unit_of(episodes.states), float)
        transitions = Windows(jnp.asarray(episodes.states, float), jnp.asarray(episodes.actions, float), 1)
        squares = _step_noise(model, transitions, jnp.asarray(window_starts(episodes, 1)), noise)
        step_noise = jnp.sqrt(jnp.maximum(squares, lowest**2))
        return ObservedModel(Observer(model, noise, step_noise), num_measurements(episodes))


@jax.jit
def _step_noise(model: AbstractModel, windows: Windows, starts: Int[Array, "steps 2"], noise: State) -> State:
    """Variance of what a step is off by: that of the one-step errors, less what noise before and after adds.

    The error of a step from a measured state has the variance $q^2 + r^2 + \\mathrm{diag}(J R J^\\top)$.
    """

    def of_step(start: Int[Array, " 2"]) -> State:
        past, actions, states = windows.gather(start)
        jacobian = jax.jacfwd(model.step)(past.states[-1], actions[0])
        error = states[0] - model.step(past.states[-1], actions[0])
        return error**2 - noise**2 - (jacobian**2 @ noise**2)

    return jax.lax.map(of_step, starts, batch_size=512).mean(axis=0)
