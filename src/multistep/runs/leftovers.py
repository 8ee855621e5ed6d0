"""Temporary files whose writer was killed: found by their names, removed by the next that writes there."""

import os
import re
import shutil
import socket
import uuid
from contextlib import suppress
from functools import cache
from hashlib import sha256
from pathlib import Path

HOST = sha256(socket.gethostname().encode()).hexdigest()[:8]
NAME = re.compile(rf"\..*\.{HOST}-(\d+)-[0-9a-f]{{8}}(\..*)?")


def temporary_beside(path: Path) -> Path:
    """A new name beside this one that says who writes there, with a dot first, so that nobody lists it."""
    return path.with_name(f".{path.name}.{HOST}-{os.getpid()}-{uuid.uuid4().hex[:8]}{path.suffix}")


@cache  # once for each folder: a command need not look after every file
def sweep_leftovers(folder: Path) -> None:
    """Remove what killed processes of this machine have left in the folder."""
    if os.name != "posix":  # elsewhere nobody can ask whether a process lives without ending it
        return
    with suppress(OSError):
        for entry in os.scandir(folder):
            found = NAME.fullmatch(entry.name)
            if found and not _is_alive(int(found[1])):
                _remove(Path(entry.path))


def _is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:  # somebody else's
        return True
    return True


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)
