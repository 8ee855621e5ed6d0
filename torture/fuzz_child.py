"""Run as a program: opens damaged files one after the other, within limits of time and memory.

Arguments: a folder, the kind of file, the first seed and the one past the last. A line for each: its seed and
what came of it. Whoever started this process sees a seed without an end where it hung or died.
"""

import os
import random
import resource
import signal
import sys
import traceback
import warnings
from pathlib import Path
from typing import Any

from torture.mutate import mutated
from torture.targets import SPRUNG, target_of

SECONDS = 45
MEMORY = 1 << 30
"""More than the process had before."""


class TooLong(BaseException):
    """No reader catches it."""


def ring(*_: Any) -> None:
    raise TooLong


def outcome(open_it: Any) -> str:
    from multistep.errors import InputError

    try:
        open_it()
    except InputError as error:
        return "refused" if "\n" not in str(error) else "lost a sentence of more than one line"
    except TooLong:
        return "lost a hang"
    except BaseException as error:
        place = traceback.extract_tb(error.__traceback__)[-1]
        what = (str(error).splitlines() or [""])[0]
        return f"lost {type(error).__name__}: {what[:120]} at {place.filename}:{place.lineno}"
    return "read"


def main(folder: str, kind: str, first: int, last: int) -> None:
    warnings.simplefilter("ignore")
    os.chdir(folder)
    target = target_of(kind)
    whole = Path(target.path).read_bytes()
    outcome(target.open)  # what is imported at the first use is no part of the trial
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY, used + MEMORY))
    signal.signal(signal.SIGALRM, ring)
    for seed in range(first, last):
        print(seed, end=" ", flush=True)
        Path(target.path).write_bytes(mutated(whole, random.Random(f"{kind} {seed}")))
        signal.alarm(SECONDS)
        found = outcome(target.open)
        signal.alarm(0)
        if Path(SPRUNG).exists():
            Path(SPRUNG).unlink()
            found = "lost: code was executed"
        print(found, flush=True)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
