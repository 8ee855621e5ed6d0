"""The progress of long work."""

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TextColumn,
    TimeRemainingColumn,
)


@contextmanager
def progress_bar(description: str, total: int | None, completed: int) -> Iterator[Callable[[float], None]]:
    """A function to call with the score of each epoch that ended; `completed` of them have ended before."""
    columns = (
        TextColumn(description),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        TextColumn("score {task.fields[score]}  best {task.fields[best]}"),
    )
    best = float("-inf")
    with Progress(*columns, console=Console(stderr=True), disable=not _is_watched()) as progress:
        task = progress.add_task(description, total=total, completed=completed, score="-", best="-")

        def show(score: float) -> None:
            nonlocal best
            best = max(best, score)
            progress.update(task, advance=1, score=f"{score:.3f}", best=f"{best:.3f}")

        yield show


def counting_progress() -> Progress:
    """A bar with steps or episodes done, and the time left."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    return Progress(*columns, console=Console(stderr=True))


def announce(sentence: str) -> None:
    """What is about to happen, for whoever watches."""
    if _is_watched():
        Console(stderr=True).print(sentence)


@contextmanager
def progress_spinner(doing: str) -> Iterator[None]:
    """For work of unknown length."""
    with Progress(
        SpinnerColumn(),
        TextColumn(doing),
        transient=True,
        console=Console(stderr=True),
        disable=not _is_watched(),
    ) as it:
        it.add_task(doing, total=None)
        yield


def _is_watched() -> bool:
    """Whether somebody looks at this fit alone: a sweep runs many, in other threads, and has a bar of its
    own."""
    return sys.stderr.isatty() and threading.current_thread() is threading.main_thread()
