"""Episodes in `.parquet`: one row per moment, a column each; a file that `save` wrote says which columns are what."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import polars as pl

from multistep.data.atomic import replacing
from multistep.data.columns import Columns
from multistep.data.episodes import Episodes
from multistep.data.recording import Recording
from multistep.data.tables import recordings_of, table_of
from multistep.errors import InputError, reason_of

METADATA = "multistep"


def save_parquet(episodes: Episodes, path: Path) -> None:
    """Write all episodes to one file with a column `episode` and the roles of the columns in its metadata."""
    roles = {
        "states": episodes.state_names,
        "actions": episodes.action_names,
        "rewards": None if episodes.rewards is None else "reward",
        "episode": "episode",
    }
    table = table_of(path, episodes)
    with replacing(path) as temporary:
        try:
            table.write_parquet(temporary, metadata={METADATA: json.dumps(roles)})
        except pl.exceptions.ComputeError as error:  # what polars makes of a disk that is full
            raise OSError(reason_of(error)) from error


def read_parquet(path: Path, columns: Columns) -> list[Recording]:
    """The episodes of one file; columns that are not named are those that the file itself names, if it does."""

    def numbers(names: Sequence[str]) -> Iterator[tuple[int, list[np.ndarray]]]:
        # Some rows at a time: a large file is in memory once, as rows, and never a second time as columns.
        offset = 0
        for rows in pl.scan_parquet(path).select(names).collect_batches(maintain_order=True):
            yield offset, [_numbers(path, rows[name]) for name in names]
            offset += len(rows)

    try:
        roles = json.loads(pl.read_parquet_metadata(path).get(METADATA, "{}"))
        columns = Columns(
            states=columns.states or tuple(roles.get("states", ())),
            actions=columns.actions or tuple(roles.get("actions", ())),
            rewards=columns.rewards or roles.get("rewards"),
            episode=columns.episode or roles.get("episode"),
            time=columns.time,
        )
        return recordings_of(str(path), pl.scan_parquet(path), numbers, columns)
    except (pl.exceptions.PolarsError, OSError) as error:
        raise InputError(f"{path} cannot be read as .parquet ({reason_of(error)}): write it again.") from error


def _numbers(path: Path, values: pl.Series) -> np.ndarray:
    """The column as numbers, NaN where it is null; times become seconds."""
    if values.dtype in (pl.Datetime, pl.Date):
        values = values.dt.timestamp("us") / 1e6
    elif values.dtype == pl.Duration:
        values = values.dt.total_microseconds() / 1e6
    if not (values.dtype.is_numeric() or values.dtype == pl.Boolean):
        raise InputError(f"{path}, column {values.name} is of type {values.dtype}, not numbers: convert it or leave it out.")
    if values.dtype not in (pl.Float32, pl.Float64):
        values = values.cast(pl.Float64)
    return values.fill_null(float("nan")).to_numpy() if values.null_count() else values.to_numpy()
