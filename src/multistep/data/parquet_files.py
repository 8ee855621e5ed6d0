"""Episodes in `.parquet`: one row per moment, a column each; a file that `save` wrote says which columns are
what."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl

from multistep.data.columns import Columns
from multistep.data.episodes import Episodes
from multistep.data.known import known_of, with_known
from multistep.data.recording import Recording
from multistep.data.table_recordings import as_number, recordings_of, table_of
from multistep.errors import InputError, reason_of
from multistep.runs.atomic import replacing

METADATA = "multistep"


def save_parquet(episodes: Episodes, path: Path) -> None:
    """Write all episodes to one file with a column `episode` and the roles of the columns in its metadata."""
    roles = {
        "states": episodes.state_names,
        "actions": episodes.action_names,
        "rewards": None if episodes.rewards is None else "reward",
        "episode": "episode",
        **known_of(episodes),
    }
    table = table_of(path, episodes)
    with replacing(path) as temporary:
        try:
            table.write_parquet(temporary, metadata={METADATA: json.dumps(roles)})
        except pl.exceptions.ComputeError as error:  # what polars makes of a disk that is full
            raise OSError(reason_of(error)) from error


def read_parquet(path: Path, columns: Columns) -> list[Recording]:
    """The episodes of one file; columns that are not named are those that the file itself names, if it
    does."""

    def numbers(groups: Sequence[Sequence[str]]) -> Iterator[tuple[int, list[np.ndarray]]]:
        # Some rows at a time: a large file is in memory once, as rows, and never a second time as columns.
        table, offset = pl.scan_parquet(path, glob=False), 0
        schema, asked = table.collect_schema(), {name for names in groups for name in names}
        columns = {name: as_number(str(path), name, schema) for name in asked}
        for rows in table.select(**columns).collect_batches(maintain_order=True):
            yield offset, [rows.select(names).to_numpy() if names else np.empty((0, 0)) for names in groups]
            offset += len(rows)

    try:
        roles = json.loads(pl.read_parquet_metadata(path).get(METADATA, "{}"))
        roles = roles if isinstance(roles, dict) else {}
        columns = replace(
            columns,
            states=columns.states or tuple(roles.get("states", ())),
            actions=columns.actions or tuple(roles.get("actions", ())),
            rewards=columns.rewards or roles.get("rewards"),
        )
        if columns.episode is None and "episode" in roles:
            # Ids that the file itself has given count from 0 in every file: they mean nothing outside of it.
            columns = replace(columns, episode=roles["episode"])
            return [
                with_known(replace(r, episode_ids=()), roles)
                for r in recordings_of(str(path), pl.scan_parquet(path, glob=False), numbers, columns)
            ]
        return recordings_of(str(path), pl.scan_parquet(path, glob=False), numbers, columns)
    except (pl.exceptions.PolarsError, OSError) as error:
        raise InputError(
            f"{path} cannot be read as .parquet ({reason_of(error)}): write it again."
        ) from error
