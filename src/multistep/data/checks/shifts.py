"""Actions that a log has in another row than the one they were taken in: a step is predicted with each."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int
from numpy import ndarray

from multistep.data.checks.regression import Products
from multistep.data.episodes import Episodes

OFFSETS = (-2, -1, 0, 1, 2)
MOST_ROWS = 20_000
ROWS_PER_COLUMN = 20
LESS, IN_BLOCKS = 0.8, 9
"""A shift is clear if the held-out error is less than this share of that without it, and less in so many of
the blocks."""
ALL = 0.8
"""Of what the action explains at all shifts together, so much must be explained at the one."""
OPEN, ECHO = 0.95, 0.95
"""A feedback is assumed where past states leave less than `OPEN` of the error of an action that is predicted
from past actions, or where the states before leave more than `ECHO` of that which the state after them
leaves."""


class Shift(NamedTuple):
    """An action that explains the next state better by its value of another row."""

    action: str
    rows: int
    """After the row whose next state is predicted (1: the value of the row below), or before if negative."""
    state: str
    """The one that gains most."""
    less: float
    """By which share its one-step error (root mean square) falls."""

    @property
    def remark(self) -> str:
        name, count = self.action, abs(self.rows)
        samples = "one row" if count == 1 else f"{count} rows"
        where, way = ("below", "up") if self.rows > 0 else ("above", "down")
        delay = "" if self.rows > 0 else f" (or, if the plant has this delay, add --lags {count + 1})"
        return (
            f"The action {name} is perhaps in the wrong row: {self.state} is predicted with {self.less:.0%} "
            f"less error from the {name} {samples} {where}: move the column {name} {way} by {samples}{delay}."
        )


class _Columns(NamedTuple):
    """Where in the table what stands."""

    history: list[int]
    """The state, its last change, and the change of that."""
    changes: list[int]
    """Of the state in the next step."""
    after: list[int]
    """The next state."""
    actions: dict[int, list[int]]
    """Of each offset, one of each action."""


def find_shifts(episodes: Episodes) -> list[Shift]:
    """The actions that are clearly in another row than that of the state which they were taken in.

    The change of the state is regressed on the last three states and the action at each shift, with all other
    actions at all shifts; half of the data predicts the other half. A shift counts where it is clearly better
    than none and explains nearly all that the action explains at all shifts together: what the plant is slow
    to show is spread over several. A later action tells of the state before it wherever there is a feedback,
    so that it counts only where there is none.
    """
    rows = _inner_rows(episodes)
    width = 5 * episodes.state_size + len(OFFSETS) * episodes.action_size
    if len(rows) < ROWS_PER_COLUMN * width or episodes.action_size == 0:
        return []
    table, columns = _table(episodes, rows)
    products = Products.of(table)
    shifts = [_shift_of(products, columns, action, episodes) for action in range(episodes.action_size)]
    return [shift for shift in shifts if shift is not None]


def _shift_of(products: Products, columns: _Columns, action: int, episodes: Episodes) -> Shift | None:
    free = columns.history + [
        at for own in columns.actions.values() for n, at in enumerate(own) if n != action
    ]
    own = {offset: at[action] for offset, at in columns.actions.items()}
    errors = {offset: products.errors([*free, at], columns.changes) for offset, at in own.items()}
    best = min(errors, key=lambda offset: float(np.log(errors[offset].mean(axis=0)).sum()))
    unshifted, shifted = errors[0], errors[best]
    anywhere = products.errors([*free, *own.values()], columns.changes).mean(axis=0)
    gain = unshifted.mean(axis=0) - shifted.mean(axis=0)
    clear = (
        (shifted.mean(axis=0) < LESS * unshifted.mean(axis=0))
        & ((shifted < unshifted).sum(axis=0) >= IN_BLOCKS)
        & (gain >= ALL * (unshifted.mean(axis=0) - anywhere))
    )
    if best == 0 or not clear.any() or (best > 0 and _may_be_feedback(products, columns, action, best)):
        return None
    ratio = np.where(clear, shifted.mean(axis=0) / unshifted.mean(axis=0), 1.0)
    state = int(np.argmin(ratio))
    less = 1 - float(np.sqrt(ratio[state]))
    return Shift(episodes.action_names[action], best, episodes.state_names[state], less)


def _may_be_feedback(products: Products, columns: _Columns, action: int, offset: int) -> bool:
    """Whether the action of a later row may be an answer to the state that it is to explain."""
    told = [columns.actions[offset][action]]
    past = [at for earlier, own in columns.actions.items() if earlier <= 0 for at in own]
    alone, with_states, by_answer, with_before = (
        products.errors(inputs, told).mean()
        for inputs in (
            past,
            [*past, *columns.history],
            columns.after,
            [*columns.after, *columns.history],
        )
    )
    return bool(with_states < OPEN * alone or with_before > ECHO * by_answer)


def _inner_rows(episodes: Episodes) -> Int[ndarray, "rows 2"]:
    """State and action of the moments with two before and three after them, in order, at most `MOST_ROWS`."""
    reach = max(OFFSETS)
    counts = np.maximum(episodes.lengths - 2 * reach, 0)
    within = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts) + reach
    firsts = np.stack([episodes.state_offsets, episodes.action_offsets], axis=1)
    rows = np.repeat(firsts, counts, axis=0) + within[:, None]
    return rows[:: -(-len(rows) // MOST_ROWS)] if len(rows) > MOST_ROWS else rows


def _table(
    episodes: Episodes, rows: Int[ndarray, "rows 2"]
) -> tuple[Float[ndarray, "rows column"], _Columns]:
    at, acting = rows.T
    after, state, before, first = (episodes.states[at + step].astype(np.float64) for step in (1, 0, -1, -2))
    # Differences in place of the states before: fast samples hardly differ.
    parts = [state, state - before, state - 2 * before + first, after - state, after]
    parts += [episodes.actions[acting + offset].astype(np.float64) for offset in OFFSETS]
    ends = np.cumsum([part.shape[1] for part in parts])
    now, change, bend, coming, later, *actions = (
        list(range(end - part.shape[1], end)) for part, end in zip(parts, ends, strict=True)
    )
    columns = _Columns([*now, *change, *bend], coming, later, dict(zip(OFFSETS, actions, strict=True)))
    return np.concatenate(parts, axis=1), columns
