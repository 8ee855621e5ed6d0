"""Workers: one single-threaded process per core of this machine, or those of a Dask cluster that is already
there."""

import gc
import logging
import signal
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from multistep.errors import InputError, reason_of
from multistep.runs.process import available_cores, keep_compiled_programs, keep_freed_memory, use_one_thread
from multistep.runs.provenance import differing_versions, versions
from multistep.runs.security import key_of_this_run, secured_by

if TYPE_CHECKING:
    from distributed import Client

CONNECT_SECONDS = 30
PATIENCE_SECONDS = 5
STARTS = 3
# The data of a study travel with its tasks: nothing to warn of.
DASK_OPTIONS = {"distributed.admin.large-graph-warning-threshold": 1 << 30}


@dataclass(frozen=True)
class Workers:
    """Where jobs run."""

    cluster: str | None = None
    """Dask cluster to run on: its address (tcp://...) or scheduler file (default: the cores of this
    machine)."""
    workers: int | None = None
    """Worker processes on this machine (default: one per core)."""

    tls_ca: Path | None = None
    """Certificate of the authority that the cluster's certificates are of, where it is reached over TLS."""
    tls_cert: Path | None = None
    """Certificate to show to the cluster."""
    tls_key: Path | None = None
    """Key of that certificate."""

    @contextmanager
    def connect(self) -> Iterator["Client"]:
        with self.secured(), connect(self.cluster, num_workers=self.workers) as client:
            yield client

    def secured(self) -> AbstractContextManager[None]:
        """A block in which `connect` reaches the cluster over TLS, if the files for it are given."""
        if self.cluster is None and any((self.tls_ca, self.tls_cert, self.tls_key)):
            raise InputError("--tls-ca, --tls-cert and --tls-key are for a cluster: name it with --cluster.")
        return secured_by(self.tls_ca, self.tls_cert, self.tls_key)


@contextmanager
def connect(cluster: str | None = None, *, num_workers: int | None = None) -> Iterator["Client"]:
    """A Dask client for the cluster: its address (tcp://...), its scheduler file, or none for the cores of
    this machine.

    Workers of this machine are processes of their own, end with the block, and each computes on one thread.
    """
    try:
        import dask.config
        from distributed import Client, LocalCluster
    except ImportError as error:
        raise InputError(
            "Sweeps need Dask: install multistep with the extra 'sweeps' (multistep[sweeps])."
        ) from error
    with dask.config.set(DASK_OPTIONS):
        if cluster is None:
            count = len(available_cores()) if num_workers is None else num_workers
            if count < 1:
                raise InputError(f"{count} workers were asked for: give at least 1.")
            # No limit on memory: Dask would stop a worker whose episodes and compiled programs look large to
            # it.
            options: dict[str, Any] = {
                "threads_per_worker": 1,
                "memory_limit": 0,
                "dashboard_address": "127.0.0.1:0",
            }
            # What fails becomes a row, and Ctrl-C ends workers in the middle: their logs would say it again.
            options["silence_logs"] = logging.CRITICAL
            logging.getLogger("distributed").setLevel(logging.CRITICAL)
            with _started(LocalCluster, count, options) as local, Client(local) as client:
                yield client
        else:
            with _existing(Client, cluster) as client:
                _wait_for_a_worker(client, cluster)
                _check_versions(client, cluster)
                yield client


def on_workers(
    function: Callable[[Any], Any], given: Sequence[Any], where: Workers
) -> Iterator[tuple[int, Any]]:
    """Place and result of the function of each of what is given, as they end, on these workers."""
    with where.connect() as client:
        from distributed import KilledWorker, as_completed

        futures = {client.submit(_prepared, function, one, pure=False): n for n, one in enumerate(given)}
        for future in as_completed(list(futures)):
            try:
                yield futures[future], future.result()
            except KilledWorker as error:
                raise InputError(
                    "Workers were killed again and again in the middle of a fit: see whether the machine has "
                    "the memory, or ask for fewer with --workers; the same command goes on."
                ) from error


def _prepared(function: Callable[[Any], Any], given: Any) -> Any:
    prepare_worker()
    return function(given)


def _started(cluster: Callable[..., Any], count: int, options: dict[str, Any]) -> Any:
    """The cluster, once all of its workers run; one that is killed while it starts is given more chances."""
    security, failure = key_of_this_run(), Exception()
    for _ in range(STARTS):
        try:
            with _deaf_to_interrupts():
                return cluster(n_workers=count, security=security, **options)
        except (RuntimeError, OSError, TimeoutError) as error:
            failure = error
    raise InputError(
        f"{count} workers could not be started on this machine, {STARTS} times ({reason_of(failure)}): see "
        "whether it has the memory, or ask for fewer with --workers."
    ) from failure


@contextmanager
def _deaf_to_interrupts() -> Iterator[None]:
    """Processes started meanwhile ignore Ctrl-C, which a terminal sends to all: the one that started them
    ends them."""
    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread may say so
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


@cache
def prepare_worker() -> None:
    """What a worker does once, before its first computation."""
    keep_compiled_programs()
    keep_freed_memory()
    use_one_thread()


def _existing(client: Callable[..., Any], cluster: str) -> Any:
    is_file = "://" not in cluster
    if is_file and not Path(cluster).is_file():
        raise InputError(
            f"There is no scheduler file {cluster}: give its path, or the scheduler's address as tcp://HOST:PORT."
        )
    where = {"scheduler_file": cluster} if is_file else {"address": cluster}
    try:
        return client(timeout=CONNECT_SECONDS, **where)
    except (OSError, ValueError, TypeError) as error:
        reason = str(error)
    # The client that found nobody is closed here and now: closed by the garbage collector while another one
    # starts, it would wait for itself.
    gc.collect()
    raise InputError(f"No Dask scheduler answers at {cluster} ({reason}): start it, or correct the address.")


def _check_versions(client: "Client", cluster: str) -> None:
    """Refuse workers that cannot run our code, or would run another version of it."""
    try:
        found: Any = client.run(versions)
    except Exception as error:
        raise InputError(
            f"The workers of {cluster} cannot import multistep ({error}): install it there."
        ) from error
    for worker, theirs in found.items():
        refuse_other_versions(f"The worker {worker}", theirs)


def refuse_other_versions(who: str, theirs: Mapping[str, str | None]) -> None:
    """Raise an `InputError` if these are not the versions of this process."""
    different = differing_versions(theirs)
    if different:
        raise InputError(
            f"{who} has other versions of {', '.join(different)} than this process: rows would not be "
            "comparable; install the same versions there."
        )


def _wait_for_a_worker(client: "Client", cluster: str) -> None:
    """As long as it takes: jobs may wait in a queue for hours."""
    try:
        client.wait_for_workers(1, timeout=PATIENCE_SECONDS)
    except TimeoutError:
        warnings.warn(
            f"The cluster at {cluster} has no workers yet: waiting for the first one.", stacklevel=2
        )
        client.wait_for_workers(1)
