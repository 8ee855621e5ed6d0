"""Episodes in `.csv`: a header, one row per moment."""

import csv
from collections import Counter
from collections.abc import Iterator, Sequence
from io import BytesIO
from pathlib import Path

import numpy as np
import polars as pl

from multistep.data.columns import UNIT, Columns, with_units
from multistep.data.doors import damaged_files_are_said
from multistep.data.episodes import Episodes
from multistep.data.recording import Recording
from multistep.data.table_recordings import recordings_of, seconds_of, table_of
from multistep.errors import InputError, counted, reason_of
from multistep.runs.atomic import replacing

SEPARATORS = ",;\t"
EMPTY = np.empty((0, 0))
DECIMAL_COMMA = r"^[+-]?\d*(,\d*)?([eE][+-]?\d+)?$"


def save_csv(episodes: Episodes, path: Path) -> None:
    """Write all episodes to one file with a column `episode`, units in the header, and the file that each
    comes from where it is known.

    Values in single precision are written with the digits of the same value in double precision: whoever
    reads them back as doubles, as most do, has the same numbers.
    """
    table = table_of(path, episodes)
    if episodes.origins and "file" not in table.columns:
        table = table.insert_column(1, pl.Series("file", episodes.origins).gather(table["episode"]))
    units = {name: unit for name, unit in episodes.units.items() if not UNIT.fullmatch(name)}
    table = table.rename({name: f"{name} [{unit}]" for name, unit in units.items()})
    with replacing(path) as temporary:
        table.with_columns(pl.col(pl.Float32).cast(pl.Float64)).write_csv(temporary)


def read_csv(path: Path, columns: Columns) -> list[Recording]:
    """The episodes of one file: one, or one per value of the column `columns.episode`."""
    table, separator = _read(path, columns)
    clocks = {with_units(columns, table.columns)[0].time}

    def numbers(groups: Sequence[Sequence[str]]) -> Iterator[tuple[int, list[np.ndarray]]]:
        def column(name: str) -> np.ndarray:
            return _numbers(path, table, name, separator, is_time=name in clocks)

        yield 0, [np.stack([column(n) for n in names], axis=1) if names else EMPTY for names in groups]

    return recordings_of(str(path), table.lazy(), numbers, columns)


def _read(path: Path, columns: Columns) -> tuple[pl.DataFrame, str]:
    """The table as text, and the sign that separates its cells: numbers are parsed later, where a bad one can
    be named with its row and column."""
    try:
        with open(path, "rb") as file:
            names, separator = _header(path, file.readline(), columns)
            body = file.read()
    except OSError as error:
        raise InputError(
            f"{path} cannot be read ({error.strerror}): check that it is a file of yours."
        ) from error
    _check_widths(path, body, len(names), separator)
    with damaged_files_are_said(path, ".csv", "repair the file or write it again"):
        table = pl.read_csv(
            body, separator=separator, infer_schema=False, has_header=False, raise_if_empty=False
        )
    if table.width != len(names):
        raise InputError(f"{path} has a header but no rows: it holds no episode.")
    if table.height != body.count(b"\n") + (not body.endswith(b"\n")):
        raise InputError(
            f"{path} has quotes that do not close in the row that they open in: repair them or leave them "
            "out."
        )
    # Columns without a name, or with one that occurs twice and is not asked for, get one that nobody can ask
    # for.
    firsts = {name: at for at, name in reversed(list(enumerate(names)))}
    table.columns = [name if name and firsts[name] == at else f"\0{at}" for at, name in enumerate(names)]
    return table.with_columns(pl.all().str.strip_chars().replace("", None)), separator


def _header(path: Path, line: bytes, columns: Columns) -> tuple[list[str], str]:
    """The names in the first line, and the sign that separates them."""
    try:
        text = line.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(
            f"{path} is not text in UTF-8: save it in that encoding, with a header in its first line."
        ) from error
    if not text.strip() or "\r" in text.rstrip():
        raise InputError(
            f"{path} has no header in its first line: begin it with the names of the columns, and end rows "
            "with \\n."
        )
    # A sign between quotes or brackets separates nothing: the one that gives the most names is taken, the
    # comma last.
    parsed = {sign: _cells(path, "the header", text, sign) for sign in reversed(SEPARATORS)}
    separator = max(parsed, key=lambda sign: len(parsed[sign]))
    names = [name.strip() for name in parsed[separator]]
    twice = {name for name, times in Counter(names).items() if name and times > 1}
    words = [*columns.states, *columns.actions, columns.rewards, columns.episode, columns.time]
    asked = {
        column.strip() for word in words if word for column in (word, *word.partition("=")[2].split(","))
    }
    if twice & asked:
        raise InputError(
            f"{path} has more than one column named {', '.join(sorted(twice & asked))}: give each its own "
            "name."
        )
    return names, separator


def _check_widths(path: Path, body: bytes, width: int, separator: str) -> None:
    """Every row must have as many cells as the header: a missing one would shift all that follow."""
    sign = separator.encode()
    for row, line in enumerate(BytesIO(body), start=1):
        if b'"' in line:
            cells = len(_cells(path, f"row {row}", line.decode("utf-8", "replace"), separator))
        else:
            cells = line.count(sign) + 1
        if cells != width and line.strip():
            raise InputError(
                f"{path}, row {row} has {counted(cells, 'cell')}, the header has {width}: repair this row "
                "(rows are counted from 1 after the header)."
            )


def _cells(path: Path, place: str, line: str, separator: str) -> list[str]:
    """The cells of one line, of any length."""
    before = csv.field_size_limit(len(line) + 1)
    try:
        return next(csv.reader([line], delimiter=separator))
    except csv.Error as error:
        raise InputError(
            f"{path}, {place} cannot be taken apart into cells ({reason_of(error)}): repair it."
        ) from error
    finally:
        csv.field_size_limit(before)


def _numbers(path: Path, table: pl.DataFrame, name: str, separator: str, is_time: bool) -> np.ndarray:
    """The column as numbers, NaN where it is empty, or an `InputError` that names the first cell that is no
    number.

    Decimal commas are read where commas do not separate the cells; times may be dates, which become seconds
    since the first.
    """
    text = table[name]
    values = text.cast(pl.Float64, strict=False)
    bad = (values.is_null() & text.is_not_null()).arg_true()
    if len(bad) and separator != "," and text.drop_nulls().str.contains(DECIMAL_COMMA).all():
        values = text.str.replace(",", ".", literal=True).cast(pl.Float64, strict=False)
        bad = (values.is_null() & text.is_not_null()).arg_true()
    if len(bad) and is_time and (seconds := seconds_of(text)) is not None:
        return seconds
    if len(bad):
        raise InputError(
            f"{path}, row {bad[0] + 1}, column {name} holds '{text[int(bad[0])]}' "
            f"({counted(len(bad), 'cell')} of this column with no number): write numbers with a decimal "
            "point, times as seconds or as dates (2024-05-01T12:00:00.5), or remove these rows (counted from "
            "1 below the header)."
        )
    doubles = values.to_numpy()  # null becomes NaN
    singles = doubles.astype(np.float32)
    # What single precision holds exactly, such as everything that was written from it, is kept in it.
    return singles if np.array_equal(singles, doubles, equal_nan=True) else doubles
