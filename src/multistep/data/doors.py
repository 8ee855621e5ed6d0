"""The one door for what other libraries make of files that may be damaged, and how much they may unpack."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from multistep.errors import InputError, reason_of

LIMITS = "MULTISTEP_LIMITS"
"""Environment variable: `off` lifts the limits on what a file may unpack to, and on the time it takes."""
MOST_TIMES, AT_LEAST = 100, 64 << 20
"""What a file holds may be so many times as large as the file, and this in bytes in any case."""


@contextmanager
def damaged_files_are_said(name: str | Path, what: str, remedy: str) -> Iterator[None]:
    """Around calls of a library that reads a file: whatever it raises becomes one sentence with its reason.

    Only such calls belong in the block. What we make of what they return stands outside, so that a mistake
    of ours is not taken for one in the file.

    **Arguments:**

    - `name`: the file.
    - `what`: what it should be: `.npz`.
    - `remedy`: what to do.
    """
    try:
        yield
    except (InputError, KeyboardInterrupt, SystemExit, GeneratorExit):
        raise
    except MemoryError as error:
        raise InputError(
            f"{name} cannot be read as {what} (it asks for more memory than there is): {remedy}."
        ) from error
    except BaseException as error:  # polars' panics are no `Exception`
        reason = reason_of(error) if isinstance(error, Exception) else str(error).partition("\n")[0]
        raise InputError(f"{name} cannot be read as {what} ({reason}): {remedy}.") from error


def are_limits_on() -> bool:
    return os.environ.get(LIMITS, "") != "off"


def most_bytes(size: int) -> int:
    """How much a file of this size may hold."""
    return max(AT_LEAST, MOST_TIMES * size)


def check_unpacked_size(name: str | Path, size: int, unpacked: int) -> None:
    """Raise an `InputError` if a small file would fill the memory.

    **Arguments:**

    - `size`: of the file.
    - `unpacked`: of what is to be read from it, by what it says itself.
    """
    if are_limits_on() and unpacked > most_bytes(size):
        raise InputError(
            f"{name} has {size / 1e6:.2f} MB and would unpack to {unpacked / 1e6:.0f} MB: if you trust it, "
            f"set {LIMITS}=off in the environment, or write it again without compression."
        )
