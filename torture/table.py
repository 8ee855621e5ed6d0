"""The table at the end: what was tried, how often, what was lost."""

import time
from dataclasses import dataclass, field

OVER = "the time was over"


@dataclass
class Tried:
    """One kind of trial."""

    what: str
    times: int = 0
    refused: int = 0
    """Of these, with one sentence."""
    lost: list[str] = field(default_factory=list)
    """What went wrong, with all that is needed to do it again."""
    left_out: str | None = None
    """Why it was not tried at all."""
    seconds: float = 0.0

    def add(self, problem: str | None, *, refused: bool = False) -> None:
        self.times += 1
        self.refused += refused
        if problem is not None:
            self.lost.append(problem)


class Clock:
    """How long the whole may take."""

    def __init__(self, minutes: float):
        self.end = time.monotonic() + 60 * minutes

    @property
    def is_over(self) -> bool:
        return time.monotonic() > self.end


def print_table(rows: list[Tried]) -> None:
    print(f"\n{'what':<42} {'tried':>7} {'refused':>8} {'lost':>5} {'seconds':>8}")
    for row in rows:
        end = f"  not tried: {row.left_out}" if row.left_out else ""
        print(f"{row.what:<42} {row.times:>7} {row.refused:>8} {len(row.lost):>5} {row.seconds:>8.0f}{end}")
    print(
        f"{'all':<42} {sum(row.times for row in rows):>7} {sum(row.refused for row in rows):>8} "
        f"{sum(len(row.lost) for row in rows):>5} {sum(row.seconds for row in rows):>8.0f}"
    )
    for row in rows:
        for problem in row.lost[:20]:
            print(f"LOST {row.what}: {problem}")
