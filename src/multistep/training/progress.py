"""The progress bar of a fit, on a terminal only."""

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from multistep.training.history import Epoch


@contextmanager
def progress_bar(horizon: int, num_epochs: int, history: tuple[Epoch, ...]) -> Iterator[Callable[[Epoch], None]]:
    """A function to call with each epoch that ended; the bar starts behind those already in `history`."""
    columns = (
        TextColumn(f"horizon {horizon}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        TextColumn("score {task.fields[score]}  best {task.fields[best]}"),
    )
    # Only where somebody looks at this fit alone: a sweep runs many, in other threads, and has a bar of its own.
    disable = not sys.stderr.isatty() or threading.current_thread() is not threading.main_thread()
    best = max((epoch.score for epoch in history), default=float("-inf"))
    with Progress(*columns, console=Console(stderr=True), disable=disable) as progress:
        task = progress.add_task("fit", total=num_epochs, completed=len(history), score="-", best="-")

        def show(epoch: Epoch) -> None:
            nonlocal best
            best = max(best, epoch.score)
            progress.update(task, advance=1, score=f"{epoch.score:.3f}", best=f"{best:.3f}")

        yield show
