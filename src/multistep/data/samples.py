"""`Samples`: the rows of a matrix, whose columns are episode, states and inputs, as episodes."""

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int
from numpy import ndarray

from multistep.data.episodes import Episodes
from multistep.errors import InputError


class Samples(NamedTuple):
    """A sample in each row: the states, and the inputs that act from it to the next."""

    states: Float[ndarray, "rows state"]
    inputs: Float[ndarray, "rows input"]
    bounds: Int[ndarray, "episodes 2"]
    """First row and row past the end of each episode."""

    @staticmethod
    def of(X: Float[ndarray, "rows column"], num_inputs: int, *, has_ids: bool) -> "Samples":
        """The columns by their part.

        **Arguments:**

        - `X`: the rows of an episode stand together, in the order of time.
        - `num_inputs`: columns at the end that are inputs.
        - `has_ids`: whether the first column says which episode a row is of; else all are of one.
        """
        first, last = int(has_ids), X.shape[1] - num_inputs
        if last <= first:
            raise InputError(
                f"X has {X.shape[1]} columns, {first} of them of episodes and {num_inputs} of inputs: give "
                "at least one column of states between them."
            )
        return Samples(X[:, first:last], X[:, last:], _bounds(X[:, 0] if has_ids else np.zeros(len(X))))

    @property
    def lengths(self) -> Int[ndarray, " episodes"]:
        """Rows of each episode."""
        return self.bounds[:, 1] - self.bounds[:, 0]

    def episodes(self, state_names: Sequence[str] = (), input_names: Sequence[str] = ()) -> Episodes:
        """The same as episodes; the inputs of a last row have acted on nothing yet and are left out."""
        if (self.lengths < 2).any():
            row = self.bounds[self.lengths < 2][0, 0]
            raise InputError(
                f"The episode in row {row} of X has one row and so no step: give it two or more."
            )
        parts = [
            (self.states[start:end], self.inputs[start : end - 1]) for start, end in self.bounds.tolist()
        ]
        return Episodes.of(parts, state_names=state_names, action_names=input_names)

    def pasts(self, num_past: int) -> Int[ndarray, "rows past"]:
        """Of each row the last `num_past` rows of its episode, itself at the end; before there are as many,
        the first one again and again."""
        if (self.lengths < num_past).any():
            (row, end) = self.bounds[self.lengths < num_past][0]
            raise InputError(
                f"The model starts from {num_past} samples, but the episode from row {row} of X on has "
                f"{end - row}: give {num_past} or more rows of it."
            )
        first = np.repeat(self.bounds[:, 0], self.lengths)[:, None]
        return np.maximum(np.arange(len(first))[:, None] + np.arange(1 - num_past, 1)[None], first)


def in_pieces(episodes: Episodes, most: int, *, least_steps: int) -> Episodes:
    """One episode cut into `most` pieces of the same length, about; fewer if they would be too short."""
    (length,) = episodes.lengths.tolist()
    if length < 2 * least_steps:
        raise InputError(
            f"X is one episode of {length + 1} rows (n_samples = {length + 1}), too short to hold a part of "
            f"it out for validation: give {2 * least_steps + 1} or more rows."
        )
    edges = np.linspace(0, length, min(most, length // least_steps) + 1).round().astype(int).tolist()
    states, inputs, _ = episodes[0]
    return Episodes.of(
        [(states[start : end + 1], inputs[start:end]) for start, end in pairwise(edges)],
        state_names=episodes.state_names,
        action_names=episodes.action_names,
    )


def _bounds(ids: Float[ndarray, " rows"]) -> Int[ndarray, "episodes 2"]:
    """First row and row past the end of each run of equal numbers, which must not come back."""
    edges = np.array([0, *(np.flatnonzero(np.diff(ids)) + 1), len(ids)])
    _, first = np.unique(ids[edges[:-1]], return_index=True)
    again = np.setdiff1d(np.arange(len(edges) - 1), first)
    if len(again):
        row = edges[again[0]]
        raise InputError(
            f"Episode {ids[row]:g} starts a second time in row {row} of X: sort the rows so that each "
            "episode stands in one piece, in the order of time."
        )
    return np.stack([edges[:-1], edges[1:]], axis=1)
