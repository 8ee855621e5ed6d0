"""Columns that tell nothing of their own: functions of others, or stuck at the end of their range."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from multistep.data.episodes import Episodes

EXACT = 1e-3
"""Of a column's deviation: what others tell up to this much, they tell."""
ROWS_PER_COLUMN = 10
SHARE = 0.1
"""Of the samples at one end of the range: more is a limit."""
FEW, LOOKED_AT = 20, 20_000
"""With so few values in so many samples a column is a switch, which is always at one of its ends."""
ABOVE_INSIDE = 3
"""An end is a limit if so many times as many samples are there as at any value inside."""


class Function(NamedTuple):
    """A column that is a sum of multiples of others, in every row."""

    kind: str
    name: str
    others: dict[str, float]
    """Columns before it, and what they are multiplied with; besides, a constant may be added."""
    states: bool
    """Whether states are among the others."""

    @property
    def remark(self) -> str:
        of = " and ".join(f"{factor:.4g} {name}" for name, factor in self.others.items())
        if self.kind == "action" and self.states:
            return (
                f"The action {self.name} is {of} (and a constant) in every row, so that its effect cannot be "
                "told from theirs: leave it out if it is a copy; if it is a feedback, log runs with other "
                "actions too."
            )
        return (
            f"The {self.kind} {self.name} is {of} (and a constant) in every row: leave one of them out, it "
            "tells nothing that the others do not."
        )


class Limit(NamedTuple):
    """A column that is at one end of its range again and again."""

    kind: str
    name: str
    value: float
    share: float
    """Of the samples that have this value."""

    @property
    def remark(self) -> str:
        what = (
            f"The {self.kind} {self.name} is at the end of its range, {self.value:.6g}, in {self.share:.0%}"
        )
        if self.kind == "state":
            return (
                f"{what} of the samples: if the sensor ends there and the plant does not, leave them out or "
                "measure with a wider range."
            )
        return (
            f"{what} of the samples: if that is a limit of the actuator, log what comes out of it, not what "
            "was asked for; of values beyond it a model knows nothing."
        )


def find_functions(episodes: Episodes) -> list[Function]:
    """The columns that are linear in those before them, states first, up to a thousandth of their
    deviation."""
    table, names, kinds = _moments(episodes)
    spread = table.std(axis=0)
    if len(table) < ROWS_PER_COLUMN * len(names):
        return []
    scaled = (table - table.mean(axis=0)) / np.where(spread > 0, spread, 1.0)
    products = scaled.T @ scaled / len(scaled)
    kept: list[int] = []
    found = []
    for at in np.flatnonzero(spread > 1e-12 * np.abs(table).max(axis=0)).tolist():
        weights = np.linalg.solve(products[np.ix_(kept, kept)], products[kept, at])
        left = products[at, at] - weights @ products[kept, at]
        if left > EXACT**2:
            kept.append(at)
            continue
        used = {n: w for n, w in zip(kept, weights.tolist(), strict=True) if abs(w) > 2 * EXACT}
        others = {names[n]: w * spread[at] / spread[n] for n, w in used.items()}
        found.append(Function(kinds[at], names[at], others, any(kinds[n] == "state" for n in used)))
    return found


def find_limits(episodes: Episodes) -> list[Limit]:
    """The ends of columns where a large share of the samples is, more than anywhere inside the range."""
    columns = [("state", *pair) for pair in zip(episodes.state_names, episodes.states.T, strict=True)]
    columns += [("action", *pair) for pair in zip(episodes.action_names, episodes.actions.T, strict=True)]
    found = []
    for kind, name, values in columns:
        values_seen, counts = np.unique(values[:: -(-len(values) // LOOKED_AT)], return_counts=True)
        if len(values_seen) <= FEW:
            continue
        most_inside = counts[1:-1].max() / counts.sum()
        for end in (values.min(), values.max()):
            share = float((values == end).mean())
            if share > max(SHARE, ABOVE_INSIDE * most_inside):
                found.append(Limit(kind, name, float(end), share))
    return found


def _moments(episodes: Episodes) -> tuple[Float[ndarray, "steps column"], list[str], list[str]]:
    """State and action side by side, of every step; names and kinds of the columns."""
    before = np.delete(episodes.states, episodes.state_offsets + episodes.lengths, axis=0)
    table = np.concatenate([before, episodes.actions], axis=1, dtype=np.float64)
    kinds = ["state"] * episodes.state_size + ["action"] * episodes.action_size
    return table, [*episodes.state_names, *episodes.action_names], kinds
