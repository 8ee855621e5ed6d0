"""A table of one row per moment becomes a `Recording`: the action of a row is the one taken in its state."""

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import pairwise
from typing import Any

import numpy as np
import polars as pl
from jaxtyping import Float, Int
from numpy import ndarray

from multistep.data.columns import Columns, Experiment, amid, experiments, seconds_in, with_units
from multistep.data.episodes import Episodes
from multistep.data.recording import Recording
from multistep.errors import InputError, counted

GAP = 1.5  # a step this many times as long as the usual one has lost a sample

TIME = "time"

# Groups of columns by name, as numbers with NaN where they are empty: an array of some rows for each group,
# with the number of the first row.
ReadColumns = Callable[[Sequence[Sequence[str]]], Iterator[tuple[int, list[ndarray]]]]


def recordings_of(
    source: str, table: pl.LazyFrame, numbers: ReadColumns, columns: Columns
) -> list[Recording]:
    """One recording per experiment in the table."""
    available = [name for name in table.collect_schema().names() if not name.startswith("\0")]
    columns, units = with_units(columns, available)
    chosen, state_names, action_names = experiments(source, columns, available)
    for column in filter(None, (columns.episode, columns.time)):
        if column not in available:
            raise InputError(f"{source} has no column {column}; it has {', '.join(available)}.")
    ids = None if columns.episode is None else table.select(columns.episode).collect()[:, 0]
    times = None if columns.time is None else _times(table, numbers, columns.time)
    second = 1.0 if columns.time is None else seconds_in(columns.time)
    recordings = []
    for experiment in chosen:
        height = _used_height(source, table, experiment.own)
        bounds = _episode_bounds(source, ids, height)
        num_gaps, numbers_of_pieces = 0, np.arange(len(bounds))
        if times is not None:
            bounds, numbers_of_pieces, num_gaps = _without_gaps(source, str(columns.time), times, bounds)
        states, actions, rewards = _gather(numbers, experiment, bounds)
        recordings.append(
            Recording(
                source=source,
                states=states,
                actions=actions,
                rewards=rewards[:, 0] if experiment.rewards else None,
                lengths=bounds[:, 1] - bounds[:, 0] - 1,
                first_rows=bounds[:, 0] + 1,
                state_names=state_names,
                action_names=action_names,
                num_gaps=num_gaps,
                units=units,
                episode_ids=() if ids is None else tuple(map(str, ids.gather(bounds[:, 0].tolist()))),
                numbers=numbers_of_pieces,
                time_steps=None
                if times is None
                else second * np.concatenate([np.diff(times[start:end]) for start, end in bounds]),
            )
        )
    return recordings


def table_of(path: object, episodes: Episodes) -> pl.DataFrame:
    """All episodes in one table with a column `episode`, and one of the time if the step is known; the last
    row of each has no action and no reward."""
    last_rows = (episodes.state_offsets + episodes.lengths).tolist()
    within = np.ones(len(episodes.states), bool)
    within[last_rows] = False
    columns = [pl.Series("episode", np.repeat(np.arange(len(episodes)), episodes.lengths + 1))]
    step = episodes.time_step
    if step is not None and TIME not in (*episodes.state_names, *episodes.action_names):
        moments = np.arange(len(episodes.states)) - np.repeat(episodes.state_offsets, episodes.lengths + 1)
        digits = 9 - int(np.floor(np.log10(step)))  # rounding of the product is no part of the time
        columns.append(pl.Series(TIME, np.round(moments * step, digits)))
    columns += [
        pl.Series(name, values) for name, values in zip(episodes.state_names, episodes.states.T, strict=True)
    ]
    for name, values in zip(episodes.action_names, episodes.actions.T, strict=True):
        columns.append(_with_holes(name, values, within))
    if episodes.rewards is not None:
        columns.append(_with_holes("reward", episodes.rewards, within))
    names = [column.name for column in columns]
    if len(set(names)) < len(names):
        raise InputError(
            f"Cannot write {path}: a table needs different names for all of its columns ({', '.join(names)})."
        )
    return pl.DataFrame(columns)


def as_number(source: str, name: str, schema: Mapping[str, Any]) -> pl.Expr:
    """The column as a floating-point number; null will be NaN, times become seconds."""
    column, kind = pl.col(name), schema[name]
    if kind in (pl.Float32, pl.Float64):
        return column
    if kind in (pl.Datetime, pl.Date):
        return column.dt.timestamp("us") / 1e6
    if kind == pl.Duration:
        return column.dt.total_microseconds() / 1e6
    if kind.is_numeric() or kind == pl.Boolean:
        return column.cast(pl.Float64)
    raise InputError(f"{source}, column {name} is of type {kind}, not numbers: convert it or leave it out.")


def seconds_of(text: pl.Series) -> ndarray | None:
    """Dates and times as seconds since the first of them, or none if one is neither; without a zone they are
    all in the same."""
    try:
        times = [datetime.fromisoformat(cell) for cell in text.to_list()]
        since = [(time - times[0]).total_seconds() for time in times]
    except (TypeError, ValueError, IndexError):
        return None
    return np.array(since)


def _times(table: pl.LazyFrame, numbers: ReadColumns, name: str) -> Float[ndarray, " rows"]:
    """The column as numbers; where it is text that is none, as dates and times."""
    try:
        return np.concatenate([rows[:, 0] for _, (rows,) in numbers([[name]])])
    except InputError:
        text = table.select(name).collect()[:, 0]
        seconds = seconds_of(text) if text.dtype == pl.String else None
        if seconds is None:
            raise
        return seconds


def _used_height(source: str, table: pl.LazyFrame, columns: Sequence[str]) -> int:
    """Rows up to the last one with a value: an empty line at the end, or the rest of a longer experiment
    beside, is none."""
    empty = pl.all_horizontal(pl.col(column).is_null() for column in columns)
    height = int(table.select(pl.len()).collect().item())
    if height == 0:
        raise InputError(f"{source} has no rows: it holds no episode.")
    if not table.slice(height - 1, 1).select(empty).collect().item():
        return height
    filled = table.select((~empty).arg_true()).collect()[:, 0]
    if len(filled) == 0:
        raise InputError(
            f"The columns {', '.join(columns)} of {amid(source)} are empty: it holds no episode."
        )
    return int(filled[-1]) + 1


def _episode_bounds(source: str, ids: pl.Series | None, height: int) -> Int[ndarray, "episodes 2"]:
    """First row and row past the end of each episode."""
    edges = [0, height]
    if ids is not None:
        ids = ids.head(height)
        if ids.null_count():
            row = ids.is_null().arg_max()
            raise InputError(
                f"{source}, row {(row or 0) + 1}: the episode {ids.name} is empty; give every row the id of "
                "its episode."
            )
        if ids.dtype.is_nested():
            raise InputError(
                f"{source}: the episode {ids.name} is of type {ids.dtype}; use numbers or text for ids."
            )
        runs = ids.rle_id().to_numpy()
        changes = np.flatnonzero(runs[1:] != runs[:-1]) + 1
        edges = [0, *changes.tolist(), height]
        seen: dict[object, int] = {}
        for row, name in zip(edges[:-1], ids.gather(edges[:-1]).to_list(), strict=True):
            if name in seen:
                raise InputError(
                    f"{source}, row {row + 1}: episode {name} starts a second time (first in row "
                    f"{seen[name]}); sort the rows "
                    "so that each episode stands in one piece, or give it an id of its own."
                )
            seen[name] = row + 1
    bounds = np.array([edges[:-1], edges[1:]]).T
    short = np.flatnonzero(bounds[:, 1] - bounds[:, 0] < 2)
    if len(short):
        raise InputError(
            f"{source}, row {bounds[short[0], 0] + 1}: an episode of one row has no step; give it at least "
            "two rows."
        )
    return bounds


def _without_gaps(
    source: str, name: str, times: Float[ndarray, " rows"], bounds: Int[ndarray, "episodes 2"]
) -> tuple[Int[ndarray, "pieces 2"], Int[ndarray, " pieces"], int]:
    """The episodes cut where a sample is missing, which one each piece is of, and in how many places; pieces
    of one row have no step and are left out."""
    steps = [np.diff(times[start:end]) for start, end in bounds]
    for (start, _), step in zip(bounds, steps, strict=True):
        wrong = np.flatnonzero(~(step > 0))
        if len(wrong):
            raise InputError(_not_increasing(source, name, times, int(start + wrong[0] + 1)))
    usual = float(np.median(np.concatenate(steps)))
    pieces, numbers, gaps = [], [], []
    for number, ((start, end), step) in enumerate(zip(bounds, steps, strict=True)):
        after = start + np.flatnonzero(step > GAP * usual) + 1
        gaps += after.tolist()
        edges = [start, *after, end]
        long_enough = [pair for pair in pairwise(edges) if pair[1] - pair[0] > 1]
        pieces += long_enough
        numbers += [number] * len(long_enough)
    if gaps:
        first = times[gaps[0]] - times[gaps[0] - 1]
        warnings.warn(
            f"{source} has {counted(len(gaps), 'gap')} in time, the first before row {gaps[0] + 1} "
            f"({first:.4g} instead of {usual:.4g}): a new episode starts after each.",
            stacklevel=2,
        )
    if not pieces:
        raise InputError(f"{source} has a gap in its time {name} after every row: it holds no episode.")
    return np.array(pieces), np.array(numbers), len(gaps)


def _not_increasing(source: str, name: str, times: Float[ndarray, " rows"], at: int) -> str:
    """What is wrong with the time in this row, counted from 0, or in the one before."""
    before, here = float(times[at - 1]), float(times[at])
    if np.isnan(here) or np.isnan(before):
        row = at + 1 if np.isnan(here) else at
        return f"{source}, row {row}: the time {name} is empty; give every row its time, or remove the row."
    words = f"twice the same ({here:.6g})" if here == before else f"{here:.6g} after {before:.6g}"
    if f"{here:.6g}" == f"{before:.6g}" and here != before:  # as numbers since 1970 have it
        words = f"{before - here:.6g} before that of the row above"
    return (
        f"{source}, row {at + 1}: the time {name} is {words}; it must increase within an episode: sort the "
        "rows, or name the column that tells the episodes apart."
    )


def _gather(
    numbers: ReadColumns, experiment: Experiment, bounds: Int[ndarray, "episodes 2"]
) -> tuple[
    Float[ndarray, "all_states state"], Float[ndarray, "all_steps action"], Float[ndarray, "all_steps reward"]
]:
    """States, actions and rewards within the bounds; the last row of an episode has a state only."""
    within = np.zeros(bounds[-1, 1], bool)
    for start, end in bounds.tolist():
        within[start:end] = True
    acting = within.copy()
    acting[bounds[:, 1] - 1] = False
    masks = (within, acting, acting)
    rewards = (experiment.rewards,) if experiment.rewards else ()
    joined, filled = [np.empty((mask.sum(), 0)) for mask in masks], [0, 0, 0]
    for offset, groups in numbers((experiment.states, experiment.actions, rewards)):
        for index, (mask, rows) in enumerate(zip(masks, groups, strict=True)):
            if filled[index] == 0:
                joined[index] = np.empty((mask.sum(), rows.shape[1]), rows.dtype)
            wanted = mask[offset : offset + len(rows)]
            number = int(np.count_nonzero(wanted))
            place = joined[index][filled[index] : filled[index] + number]
            place[:] = rows if number == len(rows) else rows[: len(wanted)][wanted]
            filled[index] += number
    states, actions, paid = joined
    return states, actions, paid


def _with_holes(name: str, values: ndarray, within: ndarray) -> pl.Series:
    """The values where `within`, null elsewhere."""
    return (
        pl.Series(name, values)
        .gather(pl.Series(np.cumsum(within) - 1))
        .zip_with(pl.Series(within), pl.Series(name, [None], dtype=pl.Series(values[:1]).dtype))
    )
