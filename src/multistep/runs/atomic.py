"""Writing a file so that it is either whole or not there."""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from filelock import FileLock, Timeout

from multistep.errors import InputError
from multistep.runs.leftovers import sweep_leftovers, temporary_beside


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A temporary path beside `path` that takes its place once the block has ended well.

    Killed or failing in between, `path` keeps what it held before and nothing half-written stays under its
    name.
    """
    path = Path(path)
    if path.is_dir():
        raise InputError(f"Cannot write {path}: it is a folder; name a file.")
    # Named before it is made: an interrupt at any moment finds it.
    temporary = temporary_beside(path)
    sweep_leftovers(path.parent)
    try:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            temporary.touch(mode=0o600, exist_ok=False)
        except OSError as error:
            raise InputError(f"Cannot write {path}: {error.strerror}; choose another place.") from error
        yield temporary
        with open(temporary, "rb") as written:
            os.fsync(written.fileno())
        os.chmod(temporary, 0o666 & ~_umask())
        os.replace(temporary, path)
    except OSError as error:
        raise InputError(
            f"Cannot write {path}: {error.strerror or error}; free some space or choose another place."
        ) from error
    finally:
        with suppress(OSError):  # not there, or its folder is not
            temporary.unlink()


@contextmanager
def alone_with(path: Path) -> Iterator[None]:
    """Alone with a file or folder: another process that wants to write to it is refused."""
    lock = FileLock(lock_of(path))
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        lock.acquire(timeout=0)
    except Timeout as error:
        raise InputError(
            f"Another process is writing to {path}: wait for it, or choose another place."
        ) from error
    except OSError as error:
        raise InputError(f"Cannot write {path}: {error.strerror or error}; choose another place.") from error
    try:
        sweep_leftovers(path)
        sweep_leftovers(path.parent)
        yield
    finally:
        lock.release()


def lock_of(path: Path) -> Path:
    """Beside it; in it where it is a folder in one that is not ours to write to, as a mounted one may be."""
    is_alone = path.is_dir() and not os.access(path.parent, os.W_OK)
    return path / ".lock" if is_alone else path.with_name(f".{path.name}.lock")


def reserve(path: Path, size: int) -> None:
    """Raise `OSError` unless a file of this size can be written here: for libraries that do not survive a
    full disk."""
    if not hasattr(os, "posix_fallocate"):
        return
    try:
        with open(path, "wb") as file:
            os.posix_fallocate(file.fileno(), 0, size)
    finally:
        path.unlink(missing_ok=True)


def write_text(path: Path, text: str) -> None:
    """Write `text` to `path` atomically."""
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
