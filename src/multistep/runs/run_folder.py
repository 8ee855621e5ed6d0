"""What a run leaves on disk: `config.json`, `rows.csv`, `summary.json`. Figures and tables are drawn from
these alone."""

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import polars as pl

from multistep.errors import InputError
from multistep.runs.atomic import alone_with, lock_of, replacing, write_text
from multistep.runs.json_texts import parse_json
from multistep.runs.provenance import plain, versions
from multistep.runs.row_log import Row


def write_run(
    out: Path, command: str, config: Any, rows: Sequence[Row] | pl.DataFrame, summary: Mapping[str, Any]
) -> None:
    """Leave the three files of a run in `out`; each is whole or not there, the summary comes last."""
    write_json(out / "config.json", {"command": command, "config": plain(config), "versions": versions()})
    write_rows(out / "rows.csv", rows)
    write_json(out / "summary.json", summary)


def check_run(out: Path, command: str) -> None:
    """Refuse a folder of another command, or one that cannot be written to: call before the work begins."""
    check_writable(out)
    found = _found(out)
    if found and found["command"] != command:
        raise InputError(f"{out} holds what 'multistep {found['command']}' has left: choose another --out.")


def check_study(out: Path, command: str, **settings: Any) -> None:
    """Refuse a folder that holds another run, or this one with other settings: what is in it would be mixed
    up with ours. One that cannot be written to is refused, too."""
    check_writable(out)
    found = _found(out)
    if found and (
        found["command"] != command
        or any(found["config"].get(name) != plain(settings[name]) for name in settings)
    ):
        names = " or ".join(settings)
        raise InputError(f"{out} holds another run, or this one with another {names}: choose another --out.")


def open_run(out: Path, command: str, config: Any) -> None:
    """Make the folder that of this command; a folder of another command is refused.

    A configuration that is there stays: it is that of the results beside it, until `write_run` replaces them
    all.
    """
    check_run(out, command)
    if not (out / "config.json").exists():
        write_json(out / "config.json", {"command": command, "config": plain(config), "versions": versions()})


def check_writable(out: Path) -> None:
    """Raise an `InputError` unless there can be a folder here that we may write to."""
    there = next(folder for folder in (out, *out.absolute().parents) if folder.exists())
    if not there.is_dir():
        raise InputError(f"{there} is a file, so there can be no folder {out}: choose another --out.")
    if not os.access(there, os.W_OK | os.X_OK):
        raise InputError(f"{there} cannot be written to: choose another --out.")


@contextmanager
def alone_in(out: Path) -> Iterator[None]:
    """Alone with the folder of a run, from its first file to its last: a second one is told."""
    check_writable(out)
    place = out.absolute()
    made = [folder for folder in place.parents if not folder.exists()]
    try:
        with alone_with(place):
            yield
    finally:
        if not place.exists():  # nothing came of it, so nothing is left of it
            lock_of(place).unlink(missing_ok=True)
            with suppress(OSError):  # somebody else has put something there
                for folder in made:
                    folder.rmdir()


def _found(out: Path) -> dict[str, Any] | None:
    """Command and configuration of the run that the folder holds, if any."""
    path = out / "config.json"
    if not path.exists():
        return None
    try:
        found = parse_json(path.read_bytes())
        return {"command": str(found["command"]), "config": dict(found["config"])}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(
            f"{path} was not written by multistep, or is damaged: choose another --out."
        ) from error


def write_rows(path: Path, rows: Sequence[Row] | pl.DataFrame) -> None:
    """Write rows as a table; a frame keeps its columns even if it has no rows."""
    frame = rows if isinstance(rows, pl.DataFrame) else pl.DataFrame(list(rows), infer_schema_length=None)
    with replacing(path) as temporary:
        frame.write_csv(temporary)


def write_json(path: Path, value: Any) -> None:
    write_text(path, json.dumps(plain(value), indent=2, allow_nan=False) + "\n")
