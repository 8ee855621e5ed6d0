"""The judge: which of two models of one dataset is better, whatever the noise on what it starts from."""

from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np

from multistep.data import Episodes
from multistep.dynamics import AbstractDynamics, AbstractModel, ObservedModel, Observer
from multistep.training.base import Score
from multistep.training.smoothing import CannotSmooth, fit_observer

MEASUREMENTS = 20
"""Measurements before a rollout that the observer makes its start of, where episodes are long enough."""


def judge(model: Any, train: Episodes, valid: Episodes, score: Score) -> float:
    """The score on the validation episodes from the states that the model's own observer believes in.

    A rollout from a measured state is off by the noise on it, and a model that shrinks differences is off by
    less of it, true or not. The observer, whose noise is fitted to the training episodes, starts each model
    where that model thinks the state is, given the measurements before.

    **Arguments:**

    - `model`: in the user's units; one with memory is scored as it is: it starts from several measurements.
    - `train`: episodes to fit the observer's noise to.
    - `valid`: episodes to predict.
    - `score`: `score(model, valid)`, the higher the better.
    """
    return score(observed(model, train, valid), valid)


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
    """A score as the judge takes it, with noise that is known already: for the epochs of one fit."""

    score: Score
    measurement_noise: tuple[float, ...]
    step_noise: tuple[float, ...]

    @staticmethod
    def by(observer: Observer, score: Score) -> "Filtered":
        """With the noise of this observer, whatever the model."""
        noises = (observer.measurement_noise, observer.step_noise)
        return Filtered(score, *(tuple(np.asarray(noise, float).tolist()) for noise in noises))

    def __call__(self, model: Any, episodes: Episodes) -> float:
        if not isinstance(model, AbstractModel):
            return self.score(model, episodes)
        noises = (jnp.asarray(noise, float) for noise in (self.measurement_noise, self.step_noise))
        return self.score(ObservedModel(Observer(model, *noises), num_measurements(episodes)), episodes)
