"""Least squares on many choices of columns, from one pass over the data; errors on held-out blocks."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from multistep.data.episodes import unit_of

BLOCKS = 10
"""Pieces of the data, in order: those with even numbers are predicted from the odd ones, and the other way
round."""
RIDGE = 1e-10
"""So that columns which repeat each other do no harm."""
LEAST = 1e-12
"""Of a column's variance: a smaller error is rounding."""


class Products(NamedTuple):
    """Sums of products of columns, each of zero mean and unit deviation, in each block."""

    sums: Float[ndarray, "blocks column column"]
    counts: Float[ndarray, " blocks"]

    @staticmethod
    def of(table: Float[ndarray, "rows column"]) -> "Products":
        """Of the columns of a table, whose rows are in order."""
        centred = (table - table.mean(axis=0)) / unit_of(table)
        parts = np.array_split(centred, BLOCKS)
        return Products(np.stack([part.T @ part for part in parts]), np.array([float(len(p)) for p in parts]))

    def errors(self, inputs: Sequence[int], outputs: Sequence[int]) -> Float[ndarray, "blocks output"]:
        """Mean squared error of each output in each block, by least squares on the blocks of the other
        parity."""
        chosen, told = list(inputs), list(outputs)
        found = np.empty((BLOCKS, len(told)))
        for parity in (0, 1):
            sums, count = self.sums[1 - parity :: 2].sum(axis=0), self.counts[1 - parity :: 2].sum()
            square = sums[np.ix_(chosen, chosen)] + RIDGE * count * np.eye(len(chosen))
            weights = np.linalg.solve(square, sums[np.ix_(chosen, told)])
            for block in range(parity, BLOCKS, 2):
                own = self.sums[block]
                explained = 2 * own[np.ix_(chosen, told)] - own[np.ix_(chosen, chosen)] @ weights
                left = own[told, told] - (weights * explained).sum(axis=0)
                found[block] = np.maximum(left / self.counts[block], LEAST)
        return found
