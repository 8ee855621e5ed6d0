"""`sweep`: run jobs on workers, one row each, written as it comes; what is in the log already is not run
again."""

import time
import warnings
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from multistep.errors import InputError, reason_of
from multistep.runs.provenance import differing_versions, digest, versions
from multistep.runs.row_log import Row, RowLog
from multistep.runs.workers import prepare_worker, refuse_other_versions

if TYPE_CHECKING:
    from distributed import Client

FAILED = "failed"
JOBS_PER_WORKER = 2  # one that runs and one that waits
POLL_SECONDS = 5.0


class AbstractJob(ABC):
    """One piece of work of a sweep: a frozen record of plain values, so that equal jobs have equal
    digests."""

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
    jobs: Sequence[AbstractJob],
    data: Mapping[str, Any],
    log: RowLog,
    client: "Client",
    *,
    description: str = "fits",
) -> list[Row]:
    """The rows of these jobs in their order, those in the log and those run now.

    The jobs run on the client's workers, first come first served. A job that fails, or whose workers die
    again and again, becomes a row with outcome "failed" and the reason.
    """
    done: dict[str, Row] = {row["job"]: row for row in _rows_of_jobs(log)}
    names = [digest(job) for job in jobs]
    waiting = {name: job for name, job in zip(names, jobs, strict=True) if name not in done}
    _note_other_versions([done[name] for name in names if name in done], log)
    if waiting:
        with _progress() as progress:
            left = sum(job.work for job in waiting.values())
            bar = progress.add_task(description, total=left, jobs=f"{len(jobs) - len(waiting)}/{len(jobs)}")
            for name, row in _run_all(waiting, data, client):
                refuse_other_versions("A worker that joined later", row["versions"])
                log.append(row)
                done[name] = row
                finished = sum(name in done for name in names)
                progress.update(bar, advance=waiting[name].work, jobs=f"{finished}/{len(jobs)}")
    return [done[name] for name in names]


def _rows_of_jobs(log: RowLog) -> list[dict[str, Any]]:
    """The rows in the log, or an `InputError` if one cannot be that of a job."""
    rows = log.read()
    for number, row in enumerate(rows, start=1):
        words, known = (row.get("job"), row.get("outcome", "")), row.get("versions", {})
        if not all(isinstance(word, str) for word in words) or not isinstance(known, dict):
            raise InputError(
                f"Line {number} of {log.path} is not the row of a fit: delete it, or choose another place."
            )
    return rows


def _run_all(
    jobs: Mapping[str, AbstractJob], data: Mapping[str, Any], client: "Client"
) -> Iterator[tuple[str, Row]]:
    """Name and row of each job as it ends.

    Only a few jobs per worker are handed out at a time: a worker that dies is held against those, and the
    rest keep their order.
    """
    from distributed import CancelledError

    queue = deque(jobs)
    futures: dict[Any, str] = {}
    sources: dict[str, Any] = {}
    try:
        while queue or futures:
            while queue and len(futures) < JOBS_PER_WORKER * _num_threads(client):
                name = queue.popleft()
                job = jobs[name]
                if job.data not in sources:
                    # A task of their own: a worker that dies takes no data along that cannot be made again.
                    sources[job.data] = client.submit(_keep, data[job.data], key=f"data-{job.data}")
                futures[client.submit(_run, name, job, sources[job.data], key=f"job-{name}")] = name
            needed = {jobs[name].data for name in (*futures.values(), *queue)}
            sources = {name: source for name, source in sources.items() if name in needed}
            for future in _ended(futures):
                name = futures.pop(future)
                yield name, _row_of(future, name, jobs[name])
    except (CancelledError, OSError) as error:
        sentence = (
            "The connection to the Dask scheduler was lost: the same command goes on with what is left."
        )
        raise InputError(sentence) from error


def _num_threads(client: "Client") -> int:
    """Threads of all workers, at least one: more may be on their way."""
    threads: Any = client.nthreads()
    return max(1, sum(threads.values()))


def _ended(futures: Mapping[Any, str]) -> list[Any]:
    """The futures that have ended, once there are some; none after a while, to look whether workers have
    joined."""
    from distributed import wait

    try:
        found: Any = wait(list(futures), timeout=POLL_SECONDS, return_when="FIRST_COMPLETED")
    except TimeoutError:
        return []
    return list(found.done)


def _keep(data: Any) -> Any:
    return data


def _run(name: str, job: AbstractJob, data: Any) -> dict[str, Any]:
    """The row of a job, on the worker."""
    started = time.perf_counter()
    try:
        prepare_worker()
        found = job.run(data)
    except Exception as error:
        found = {"outcome": FAILED, "reason": f"{type(error).__name__}: {reason_of(error)}"}
    return {
        "job": name,
        **job.labels(),
        **found,
        "seconds": time.perf_counter() - started,
        "versions": versions(),
    }


def _row_of(future: Any, name: str, job: AbstractJob) -> Row:
    if future.status != "error":
        return future.result()
    reason = f"{type(future.exception()).__name__}: {reason_of(future.exception())}"
    return {
        "job": name,
        **job.labels(),
        "outcome": FAILED,
        "reason": reason,
        "seconds": 0.0,
        "versions": versions(),
    }


def _note_other_versions(rows: Sequence[Row], log: RowLog) -> None:
    """Say so if rows that are kept were made by other versions of what decides the numbers."""
    different = {name for row in rows if "versions" in row for name in differing_versions(row["versions"])}
    if different:
        warnings.warn(
            f"Rows in {log.path} that are kept were made with other versions of "
            f"{', '.join(sorted(different))}: for rows of one kind choose another folder.",
            stacklevel=3,
        )


def _progress() -> Progress:
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.fields[jobs]}"),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
    )
    # Rich forgets what is older than this when it estimates the time left; a fit may take minutes.
    return Progress(*columns, console=Console(stderr=True), speed_estimate_period=1e9)
