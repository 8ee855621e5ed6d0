"""`sweep`: run jobs on workers, one row each, written as it comes; what is in the log already is not run again."""

import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from multistep.errors import reason_of
from multistep.selection.provenance import digest, versions
from multistep.selection.row_log import Row, RowLog
from multistep.selection.workers import prepare_worker

if TYPE_CHECKING:
    from distributed import Client

FAILED = "failed"


class AbstractJob(ABC):
    """One piece of work of a sweep: a frozen record of plain values, so that equal jobs have equal digests."""

    data: str
    """Name of the data that it runs on."""

    @property
    @abstractmethod
    def work(self) -> float:
        """How much work it is beside the other jobs, for the time left."""

    @abstractmethod
    def labels(self) -> Row:
        """What its row begins with, whatever comes of it."""

    @abstractmethod
    def run(self, data: Any) -> Row:
        """What its row goes on with: the outcome and what was measured."""


def sweep(
    jobs: Sequence[AbstractJob], data: Mapping[str, Any], log: RowLog, client: "Client", *, description: str = "fits"
) -> list[Row]:
    """The rows of these jobs in their order, those in the log and those run now.

    The jobs run on the client's workers in their order. A job that fails, or whose worker dies again and again, becomes
    a row with outcome "failed" and the reason.
    """
    from distributed import as_completed

    done: dict[str, Row] = {row["job"]: row for row in log.read()}
    names = [digest(job) for job in jobs]
    waiting = {name: job for name, job in zip(names, jobs, strict=True) if name not in done}
    if not waiting:
        return [done[name] for name in names]
    # The data as tasks of their own: a worker that dies takes nothing along that cannot be made again.
    needed = dict.fromkeys(job.data for job in waiting.values())
    sources = {name: client.submit(_keep, data[name], key=f"data-{name}") for name in needed}
    futures = {
        client.submit(_run, name, job, sources[job.data], key=f"job-{name}", priority=-number): name
        for number, (name, job) in enumerate(waiting.items())
    }
    with _progress() as progress:
        left = sum(job.work for job in waiting.values())
        bar = progress.add_task(description, total=left, jobs=f"{len(jobs) - len(waiting)}/{len(jobs)}")
        for future in as_completed(futures):
            name = futures.pop(future)
            done[name] = _row_of(future, name, waiting[name])
            log.append(done[name])
            future.release()
            progress.update(bar, advance=waiting[name].work, jobs=f"{len(jobs) - len(futures)}/{len(jobs)}")
    return [done[name] for name in names]


def _keep(data: Any) -> Any:
    return data


def _run(name: str, job: AbstractJob, data: Any) -> dict[str, Any]:
    """The row of a job, on the worker."""
    prepare_worker()
    started = time.perf_counter()
    try:
        found = job.run(data)
    except Exception as error:
        found = {"outcome": FAILED, "reason": f"{type(error).__name__}: {reason_of(error)}"}
    return {"job": name, **job.labels(), **found, "seconds": time.perf_counter() - started, "versions": versions()}


def _row_of(future: Any, name: str, job: AbstractJob) -> Row:
    if future.status == "finished":
        return future.result()
    reason = future.exception() if future.status == "error" else "it was cancelled"
    return {"job": name, **job.labels(), "outcome": FAILED, "reason": str(reason), "seconds": 0.0, "versions": versions()}


def _progress() -> Progress:
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.fields[jobs]}"),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
    )
    return Progress(*columns, console=Console(stderr=True))
