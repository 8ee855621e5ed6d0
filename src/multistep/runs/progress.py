"""The progress of a fit, on a terminal only."""

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

from multistep.training.history import Epoch


@contextmanager
def progress_bar(
    horizon: int, num_epochs: int, history: tuple[Epoch, ...]
) -> Iterator[Callable[[Epoch], None]]:
    """A function to call with each epoch that ended; the bar starts behind those already in `history`."""
    columns = (
        TextColumn(f"horizon {horizon}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        TextColumn("score {task.fields[score]}  best {task.fields[best]}"),
    )
    best = max((epoch.score for epoch in history), default=float("-inf"))
    with Progress(*columns, console=Console(stderr=True), disable=not _is_watched()) as progress:
        task = progress.add_task("fit", total=num_epochs, completed=len(history), score="-", best="-")

        def show(epoch: Epoch) -> None:
            nonlocal best
            best = max(best, epoch.score)
            progress.update(task, advance=1, score=f"{epoch.score:.3f}", best=f"{best:.3f}")

        yield show


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
