"""`RowLog`: rows appended to a file one by one, so that a process killed at any moment loses none that was
written."""

import hashlib
import json
import os
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from multistep.errors import InputError
from multistep.runs.atomic import alone_with, write_text
from multistep.runs.json_texts import parse_json
from multistep.runs.provenance import plain

Row = Mapping[str, Any]
CHECK = b'{"check": "'
"""How a line begins; then come the digits and the row."""
CHECK_SIZE = 16


class RowLog:
    """Rows as lines of JSON; the last line may be torn by a kill and is then dropped."""

    def __init__(self, path: Path):
        self.path = path

    @contextmanager
    def writing(self) -> Iterator["RowLog"]:
        """Alone with the file: a second sweep that writes to it is refused. A torn last line is cut off."""
        with alone_with(self.path):
            self._cut_torn_line()
            yield self

    def read(self) -> list[dict[str, Any]]:
        """All whole rows, in the order they were written; one that was changed since is refused."""
        if not self.path.exists():
            return []
        try:
            content = self.path.read_bytes()
        except OSError as error:
            raise InputError(f"Cannot read {self.path}: {error.strerror}.") from error
        lines = content.split(b"\n")[:-1]  # what follows the last line break is torn
        return [self._parse(line, number) for number, line in enumerate(lines, start=1)]

    def append(self, row: Row) -> None:
        """Add one row; once this returns, it is on the disk."""
        try:
            with open(self.path, "a", encoding="utf-8") as file:
                file.write(_line(plain(row)))
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise InputError(
                f"Cannot write {self.path}: {error.strerror}; free some space and start again."
            ) from error

    def forget(self, outcome: str, jobs: Collection[str] | None = None) -> None:
        """Drop the rows with this outcome, those of these jobs or all, so that what they stand for is run
        again."""
        rows = [
            row
            for row in self.read()
            if row.get("outcome") != outcome or not (jobs is None or row.get("job") in jobs)
        ]
        write_text(self.path, "".join(map(_line, rows)))

    def _parse(self, line: bytes, number: int) -> dict[str, Any]:
        try:
            row = parse_json(_checked(line))
            if not isinstance(row, dict):
                raise ValueError
        except ValueError as error:
            raise InputError(
                f"Line {number} of {self.path} is damaged: delete it, its fit is run again."
            ) from error
        return row

    def _cut_torn_line(self) -> None:
        if not self.path.exists():
            return
        with open(self.path, "rb+") as file:
            content = file.read()
            file.truncate(content.rfind(b"\n") + 1)


def _line(row: Row) -> str:
    """The row as a line that begins with a check of all that follows."""
    text = json.dumps(row, allow_nan=False)
    check = f'{CHECK.decode()}{_digest(text.encode())}"'
    return check + (f", {text[1:]}" if row else "}") + "\n"


def _checked(line: bytes) -> bytes:
    """The line without its check, or a `ValueError` if it is not what was written; older ones have none."""
    if not line.startswith(CHECK):
        return line
    check, rest = line[len(CHECK) : len(CHECK) + CHECK_SIZE], line[len(CHECK) + CHECK_SIZE + 1 :]
    text = b"{" + rest.removeprefix(b", ")
    if check.decode() != _digest(text):
        raise ValueError
    return text


def _digest(text: bytes) -> str:
    return hashlib.sha256(text).hexdigest()[:CHECK_SIZE]
