"""Ends of a state's range at which it stays: a tank that is full, a stop, a sensor that shows no more."""

import numpy as np
from jaxtyping import Float, Int
from numpy import ndarray

from multistep.data.episodes import Episodes

LEAST_STAY = 5
"""Samples in a row with the very same value at an end."""
ABOVE_INSIDE = 3
"""So many times as long as at any value inside the range."""
FEW_VALUES = 20
"""With so few a column is a switch, which is always at one of its ends."""


def stuck_ends(episodes: Episodes) -> tuple[tuple[float | None, ...], tuple[float | None, ...]]:
    """The lowest and the highest value of each state where it stays at that, else None."""
    starts = episodes.state_offsets
    found = [_ends_of(values, starts) for values in np.asarray(episodes.states, np.float64).T]
    return tuple(low for low, _ in found), tuple(high for _, high in found)


def _ends_of(
    values: Float[ndarray, " rows"], starts: Int[ndarray, " episodes"]
) -> tuple[float | None, float | None]:
    is_new = np.diff(values, prepend=np.nan) != 0
    is_new[starts] = True
    first = np.flatnonzero(is_new)
    # What an episode starts with is a plant at rest, not one that has come to an end.
    is_reached = ~np.isin(first, starts)
    stays, at = np.diff(first, append=len(values)), values[first]
    low, high = values.min(), values.max()
    inside = (at != low) & (at != high)
    if len(np.unique(at)) <= FEW_VALUES or not inside.any():
        return None, None
    least = max(LEAST_STAY, ABOVE_INSIDE * stays[inside].max())
    longest = [stays[is_reached & (at == end)].max(initial=0) for end in (low, high)]
    ends = [float(end) if stay >= least else None for end, stay in zip((low, high), longest, strict=True)]
    return ends[0], ends[1]
