"""Run as a program: a command that kills itself at a given moment.

Arguments: what is counted (`import`, `fsync`, `replace`, `after-replace`), at which count, then the command.
"""

import os
import signal
import sys
from collections.abc import Callable
from typing import Any


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


class Counter:
    """Dies when it has counted far enough."""

    def __init__(self, last: int):
        self.left = last

    def __call__(self) -> None:
        self.left -= 1
        if self.left < 0:
            die()

    def find_spec(self, *_: Any) -> None:
        """As a finder of modules, which finds none."""
        self()


def counted(function: Callable[..., Any], counter: Counter, *, after: bool) -> Callable[..., Any]:
    def wrapped(*given: Any, **named: Any) -> Any:
        if not after:
            counter()
        found = function(*given, **named)
        if after:
            counter()
        return found

    return wrapped


if __name__ == "__main__":
    what, count = sys.argv[1], Counter(int(sys.argv[2]))
    if what == "import":
        sys.meta_path.insert(0, count)  # pyright: ignore[reportArgumentType]
    else:
        name = what.removeprefix("after-")
        setattr(os, name, counted(getattr(os, name), count, after=what != name))
    from multistep.cli import main

    main(sys.argv[3:])
