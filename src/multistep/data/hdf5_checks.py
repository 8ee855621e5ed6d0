"""Whether an HDF5 file can be read without harm: found by a child that is given a time and a memory."""

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from multistep.data.doors import LIMITS, are_limits_on, most_bytes
from multistep.errors import InputError

PROBE = Path(__file__).with_name("hdf5_probe.py")
SECONDS, BYTES_PER_SECOND = 30.0, 5e6
"""What a file may take: so long in any case, and longer the larger it is."""


def check_hdf5(path: Path, names: Sequence[str], what: str, remedy: str) -> None:
    """Raise an `InputError` for a file that is damaged, claims far more than it has, or reads other files.

    **Arguments:**

    - `names`: the arrays that will be read; none: all of them.
    - `what`: what it should be: `.hdf5`.
    - `remedy`: what to do.
    """
    if not are_limits_on():
        return
    size = path.stat().st_size
    seconds = SECONDS + size / BYTES_PER_SECOND
    command = [sys.executable, str(PROBE), str(path), str(most_bytes(size)), *names]
    try:
        child = subprocess.run(command, capture_output=True, text=True, timeout=seconds, check=False)
    except subprocess.TimeoutExpired as error:
        reason = f"it keeps the HDF5 library busy for more than {seconds:.0f} seconds"
        raise InputError(f"{path} cannot be read as {what} ({reason}): {remedy}.") from error
    reason = "it crashes the HDF5 library" if child.returncode else child.stdout.strip()
    if reason:
        hint = f", or set {LIMITS}=off if you trust it" if "100 times" in reason else ""
        raise InputError(f"{path} cannot be read as {what} ({reason}): {remedy}{hint}.")
