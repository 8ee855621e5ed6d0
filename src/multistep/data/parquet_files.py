"""Episodes in `.parquet`: one row per moment, a column each; a file that `save` wrote says which columns are
what."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from multistep.data.columns import Columns
from multistep.data.doors import check_unpacked_size, damaged_files_are_said
from multistep.data.episodes import Episodes
from multistep.data.known import known_of, with_known
from multistep.data.recording import Recording
from multistep.data.table_recordings import as_number, recordings_of, table_of
from multistep.errors import InputError, reason_of
from multistep.runs.atomic import replacing
from multistep.runs.json_texts import is_list_of, parse_json

METADATA = "multistep"
REMEDY = "write it again"


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

    with damaged_files_are_said(path, ".parquet", REMEDY):
        metadata = pl.read_parquet_metadata(path)
        table = pl.scan_parquet(path, glob=False)
        num_rows = int(table.select(pl.len()).collect().item())
    roles = _roles(path, metadata.get(METADATA, "{}"))
    own = {name: tuple(roles[name]) for name in ("states", "actions") if name in roles}
    columns = replace(columns, **{name: getattr(columns, name) or names for name, names in own.items()})
    columns = replace(columns, rewards=columns.rewards or roles.get("rewards"))
    num_columns = len(columns.states) + len(columns.actions)
    check_unpacked_size(path, path.stat().st_size, 8 * num_rows * num_columns)
    try:
        if columns.episode is not None or "episode" not in roles:
            return recordings_of(str(path), table, numbers, columns)
        # Ids that the file itself has given count from 0 in every file: they mean nothing outside of it.
        found = recordings_of(str(path), table, numbers, replace(columns, episode=roles["episode"]))
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError) as error:
        reason = str(error).partition("\n")[0]
        raise InputError(f"{path} cannot be read as .parquet ({reason}): {REMEDY}.") from error
    return [with_known(replace(recording, episode_ids=()), roles) for recording in found]


def _roles(path: Path, text: str) -> dict[str, Any]:
    """What `save` has left about the columns, or an `InputError` if it is none of that."""
    try:
        roles = parse_json(text)
    except ValueError:
        roles = None
    if not isinstance(roles, dict):
        raise _damaged(path, "is no JSON object")
    for name in ("states", "actions"):
        if not is_list_of(str, roles.get(name, [])):
            raise _damaged(path, f"has {name} that are no names")
    for name in ("rewards", "episode"):
        if not isinstance(roles.get(name), str | None):
            raise _damaged(path, f"has an entry {name} that is no name")
    return roles


def _damaged(path: Path, problem: str) -> InputError:
    return InputError(f"The entry {METADATA} in the metadata of {path} {problem}: {REMEDY}.")
