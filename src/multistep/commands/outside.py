"""Which steps of episodes leave the range of the data that a model was trained on."""

import warnings

import numpy as np
from jaxtyping import Bool, Float
from numpy import ndarray

from multistep.data import Episodes
from multistep.dynamics import MemoryModel, Model

USUAL = 0.01
"""Share of samples that lie outside where nothing is odd: a few are the highest ever seen."""


def count_outside(model: Model | MemoryModel, episodes: Episodes) -> int | None:
    """How many of the episodes' samples have a state or an action outside of that range, said in a remark if
    it is more than a few; none if the model does not know the range."""
    known = model.normaliser
    if known.state_range is None or known.action_range is None:
        return None
    low, high = np.asarray(known.state_range)
    states = _outside(_turned(episodes.states, low, episodes.turns), low, high)
    actions = _outside(episodes.actions, *np.asarray(known.action_range))
    # The last state of an episode has no action.
    is_outside = np.any(states, axis=1)
    before = np.delete(np.arange(len(states)), episodes.state_offsets + episodes.lengths)
    is_outside[before] |= np.any(actions, axis=1)
    count = int(is_outside.sum())
    if count > USUAL * len(states):
        shares = zip(
            (*model.state_names, *model.action_names),
            (*states.sum(axis=0).tolist(), *actions.sum(axis=0).tolist()),
            strict=True,
        )
        columns = ", ".join(f"{name} in {number}" for name, number in shares if number)
        warnings.warn(
            f"{count} of {len(states)} samples are outside of the range of the training data ({columns}): "
            "there the model is a guess.",
            stacklevel=2,
        )
    return count


def _outside(
    values: Float[ndarray, "rows column"], low: Float[ndarray, " column"], high: Float[ndarray, " column"]
) -> Bool[ndarray, "rows column"]:
    # In single precision all of them, as models have it: rounding alone puts nothing outside.
    rounded, low, high = (np.asarray(part, np.float32) for part in (values, low, high))
    return ~((rounded >= low) & (rounded <= high))


def _turned(
    states: Float[ndarray, "rows column"], low: Float[ndarray, " column"], turns: tuple[float, ...]
) -> Float[ndarray, "rows column"]:
    """Angles within the turn that begins with the lowest one of training."""
    turned = states.copy()
    for column, turn in enumerate(turns):
        if turn and np.isfinite(low[column]):
            turned[:, column] = low[column] + (states[:, column] - low[column]) % turn
    return turned
