"""Episodes from data frames, and back: polars, or pandas where the user has it."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import polars as pl

from multistep.data.columns import Columns
from multistep.data.episodes import Episodes
from multistep.data.recording import Recording
from multistep.data.table_recordings import as_number, recordings_of, table_of
from multistep.errors import InputError

Frame = Any
"""A data frame of polars or pandas, which is not imported unless the user has."""


def is_frame(thing: Any) -> bool:
    """Whether this is a frame, of a kind that can be read."""
    return isinstance(thing, pl.DataFrame | pl.LazyFrame) or (
        type(thing).__module__.partition(".")[0] == "pandas" and type(thing).__name__ == "DataFrame"
    )


def read_frame(frame: Frame, source: str, columns: Columns) -> list[Recording]:
    """The episodes of one frame; `source` is what messages call it."""
    table = _from_pandas(source, frame) if not isinstance(frame, pl.DataFrame | pl.LazyFrame) else frame
    table = table.lazy().with_columns(pl.col(pl.Float32, pl.Float64).fill_nan(None)).collect()

    def numbers(groups: Sequence[Sequence[str]]) -> Iterator[tuple[int, list[np.ndarray]]]:
        wanted = {name: as_number(source, name, table.schema) for names in groups for name in names}
        found = table.select(**wanted)
        yield 0, [found.select(names).to_numpy() if names else np.empty((0, 0)) for names in groups]

    return recordings_of(source, table.lazy(), numbers, columns)


def to_frame(episodes: Episodes) -> pl.DataFrame:
    """One row per moment: its episode, its time if the step is known, states, actions and rewards; the last
    row of an episode has no action."""
    return table_of("a frame", episodes)


def named(
    rows: np.ndarray, names: Sequence[str], time_step: float | None = None, first: int = 1
) -> pl.DataFrame:
    """Rows of numbers under their names, with the number of each step and its time if that is known.

    **Arguments:**

    - `rows`: a row for each step.
    - `names`: of its columns.
    - `time_step`: from each row to the next.
    - `first`: the number of the first step.
    """
    steps = first + np.arange(len(rows))
    columns = {"step": steps} | ({} if time_step is None else {"time": steps * time_step})
    columns = {name: values for name, values in columns.items() if name not in names}
    return pl.DataFrame(columns | dict(zip(names, np.asarray(rows).T, strict=True)))


def as_pandas(frame: pl.DataFrame) -> Any:
    """The same frame for pandas."""
    try:
        import pandas  # the user's own: not among what multistep needs
    except ImportError as error:
        raise InputError("pandas is not installed: install it, or take to_polars().") from error
    return pandas.DataFrame({column.name: column.to_numpy() for column in frame})


def _from_pandas(source: str, frame: Any) -> pl.DataFrame:
    """Column by column, so that nothing but NumPy stands between; a named index is a column too."""
    if any(name is not None for name in frame.index.names):
        frame = frame.reset_index()
    names = [str(name) for name in frame.columns]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise InputError(f"{source} has more than one column {', '.join(twice)}: give each its own name.")
    return pl.DataFrame([_series(name, frame.iloc[:, at]) for at, name in enumerate(names)])


def _series(name: str, column: Any) -> pl.Series:
    kind = column.dtype
    if getattr(kind, "tz", None) is not None:
        column = column.dt.tz_convert(None)
    elif kind.kind in "fiub" and not isinstance(kind, np.dtype):  # with a missing value of its own
        precision = np.float32 if kind.itemsize == 4 and kind.kind == "f" else np.float64
        return pl.Series(name, column.to_numpy(dtype=precision, na_value=np.nan))
    if column.dtype.kind in "fiubmM":
        return pl.Series(name, column.to_numpy())
    return pl.Series(name, column.astype(object).where(column.notna(), None).tolist(), strict=False)
