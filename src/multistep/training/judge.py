"""The judge: which of two models of one dataset is better, whatever the noise on what it starts from."""

from typing import Any

from multistep.data import Episodes
from multistep.dynamics import AbstractDynamics, AbstractModel, ObservedModel
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
    return ObservedModel(observer, max(1, min(MEASUREMENTS, int(valid.lengths.max()) // 5)))
