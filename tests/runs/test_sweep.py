"""Sweeps on real workers: processes of their own, a real scheduler, real fits; one of them is killed in the
middle."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from dataclasses import replace

import jax
import numpy as np
import pytest

from multistep.data import Episodes, episodes_digest
from multistep.errors import InputError
from multistep.evaluation import score
from multistep.losses import AbstractWeights, Exponential
from multistep.runs import provenance, workers
from multistep.runs.provenance import digest, versions
from multistep.runs.row_log import RowLog
from multistep.runs.sweep import sweep
from multistep.runs.workers import connect
from multistep.selection.fit import fit
from multistep.selection.fit_job import FitJob
from multistep.selection.folds import deal_folds


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    """A scheduler and two workers, started as on a cluster: the scheduler file and the workers' processes."""
    file = tmp_path_factory.mktemp("cluster") / "scheduler.json"
    processes = start_cluster(file, ("first", "second"))
    yield file, processes[1:]
    for process in processes:
        process.kill()
        process.wait()


def start_cluster(file, names):
    """A scheduler and workers of these names, each a process."""
    python = [sys.executable, "-m"]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "cwd": file.parent}
    where = ["--scheduler-file", str(file)]
    options = ["--host", "127.0.0.1", "--port", "0", "--no-dashboard"]
    scheduler = subprocess.Popen([*python, "distributed.cli.dask_scheduler", *where, *options], **quiet)
    while not file.exists():
        assert scheduler.poll() is None
        time.sleep(0.05)
    return [scheduler, *(start_worker(file, name) for name in names)]


def start_worker(file, name):
    command = [
        sys.executable,
        "-m",
        "distributed.cli.dask_worker",
        "--scheduler-file",
        str(file),
        "--name",
        name,
    ]
    options = ["--nthreads", "1", "--no-nanny", "--no-dashboard"]
    return subprocess.Popen(
        [*command, *options], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=file.parent
    )


def jobs_of(episodes: Episodes, small, horizons=(1, 2), seeds=(0,)):
    folds = deal_folds(len(episodes), 3, key=jax.random.key(0))
    data = episodes_digest(episodes)
    return [
        FitJob(data, replace(small, horizon=horizon, weights=Exponential(1.0)), fold, seed, 20)
        for seed in seeds
        for horizon in horizons
        for fold in folds
    ]


@pytest.mark.slow
def test_a_sweep_survives_the_death_of_a_worker(cluster, oscillators, small, tmp_path):
    """No row is lost, none is there twice, and the worker that is left ran what the other one had begun."""
    file, processes = cluster
    jobs, log = jobs_of(oscillators, small, seeds=range(6)), RowLog(tmp_path / "fits.jsonl")

    def kill_one():
        while len(log.read()) < 4:
            time.sleep(0.02)
        os.kill(processes[0].pid, signal.SIGKILL)

    with connect(str(file)) as client, log.writing():
        client.wait_for_workers(2, timeout=60)
        killer = threading.Thread(target=kill_one)
        killer.start()
        rows = sweep(jobs, {jobs[0].data: oscillators}, log, client)
        killer.join()
        assert len(client.scheduler_info()["workers"]) == 1
    assert processes[0].wait(10) == -signal.SIGKILL
    assert [row["job"] for row in rows] == [digest(job) for job in jobs]
    assert Counter(row["job"] for row in log.read()) == Counter({digest(job): 1 for job in jobs})
    assert {row["outcome"] for row in rows} == {"finished"}


@pytest.mark.slow
def test_a_scheduler_that_dies_leaves_no_row_of_what_was_not_run(oscillators, small, tmp_path):
    """The sweep ends with a sentence, and the same jobs go on elsewhere."""
    jobs, log = jobs_of(oscillators, small, seeds=range(4)), RowLog(tmp_path / "fits.jsonl")
    file = tmp_path / "scheduler.json"
    scheduler, *others = start_cluster(file, ("only",))

    def kill_it():
        while len(log.read()) < 2:
            time.sleep(0.02)
        scheduler.kill()

    try:
        killer = threading.Thread(target=kill_it)
        killer.start()
        with pytest.raises(InputError, match="connection to the Dask scheduler was lost"), log.writing():  # noqa: SIM117
            with connect(str(file)) as client:
                sweep(jobs, {jobs[0].data: oscillators}, log, client)
        killer.join()
    finally:
        for process in (scheduler, *others):
            process.kill()
            process.wait()
    rows = log.read()
    assert 2 <= len(rows) < len(jobs)
    assert {row["outcome"] for row in rows} == {"finished"}


def test_the_cluster_gives_what_a_plain_call_gives(cluster, oscillators, small, tmp_path):
    job = jobs_of(oscillators, small, horizons=(3,))[1]
    log = RowLog(tmp_path / "fits.jsonl")
    with connect(str(cluster[0])) as client, log.writing():
        [row] = sweep([job], {job.data: oscillators}, log, client)
    with jax.enable_x64(False):
        train, valid, test = (
            oscillators.take(part) for part in (job.fold.train, job.fold.valid, job.fold.test)
        )
        key = jax.random.fold_in(jax.random.key(0), 1)
        expected = score(fit(train, valid, job.config, key=key).model, test, horizon=20)
    np.testing.assert_allclose(row["r2"], expected.r2, atol=1e-5)
    assert row["r2bar"] == pytest.approx(np.mean(expected.r2), abs=1e-5)
    assert (row["horizon"], row["weights"], row["fold"], row["seed"]) == (3, "exponential:1", 1, 0)
    assert row["config"] == digest(job.config)
    assert row["settings"]["network"]["hidden_size"] == 8
    assert row["versions"]["jax"] == jax.__version__
    assert row["seconds"] >= row["fit_seconds"] > 0


def test_a_job_that_fails_is_a_row_with_its_reason_and_the_sweep_goes_on(
    cluster, oscillators, small, tmp_path
):
    fine, too_long = jobs_of(oscillators, small, horizons=(1, 61))[::3]
    diverging = replace(fine, config=replace(small, learning_rate=1e30))
    log = RowLog(tmp_path / "fits.jsonl")
    with connect(str(cluster[0])) as client, log.writing():
        failed, diverged, finished = sweep([too_long, diverging, fine], {fine.data: oscillators}, log, client)
    assert failed["outcome"] == "failed"
    assert "shorter than the horizon of 61 steps" in failed["reason"]
    assert "r2" not in failed
    assert diverged["outcome"] == "diverged"
    assert finished["outcome"] == "finished"
    assert len(log.read()) == 3


def test_what_is_in_the_log_is_not_run_again(oscillators, small, tmp_path):
    """No client is needed where nothing is left to do."""
    jobs, log = jobs_of(oscillators, small), RowLog(tmp_path / "fits.jsonl")
    with log.writing():
        for job in jobs:
            log.append({"job": digest(job), "mark": str(job.fold.number)})
        rows = sweep(jobs, {jobs[0].data: oscillators}, log, client=None)  # pyright: ignore[reportArgumentType]
    assert [row["mark"] for row in rows] == [str(job.fold.number) for job in jobs]


def test_rows_of_other_versions_are_kept_with_a_note(oscillators, small, tmp_path):
    jobs, log = jobs_of(oscillators, small), RowLog(tmp_path / "fits.jsonl")
    with log.writing():
        for job in jobs:
            log.append({"job": digest(job), "versions": {**versions(), "jax": "0.1"}})
        with pytest.warns(UserWarning, match="made with other versions of jax"):
            sweep(jobs, {jobs[0].data: oscillators}, log, client=None)  # pyright: ignore[reportArgumentType]


class Shifted(AbstractWeights):
    """Weights of a user's own."""

    shift: float | jax.Array

    def __call__(self, errors):
        return errors * 0 + 1 / errors.size


def test_the_digest_tells_weights_apart(small):
    arrays = [Shifted(jax.numpy.array(shifts)) for shifts in ([0.1, 0.2], [0.2, 0.1])]
    different = [
        Shifted(0.1),
        Shifted(0.2),
        *arrays,
        Exponential(0.1234567),
        Exponential(0.1234568),
        Exponential(0.1),
    ]
    assert len({digest(replace(small, horizon=2, weights=weights)) for weights in different}) == 7
    assert digest({"horizon": np.int64(2), "rate": np.float64(0.5)}) == digest({"horizon": 2, "rate": 0.5})


def test_the_digest_of_a_job_is_that_of_its_settings(oscillators, small):
    first, again = (jobs_of(oscillators, small)[0] for _ in range(2))
    assert digest(first) == digest(again)
    others = [
        replace(first, seed=1),
        replace(first, score_horizon=21),
        replace(first, config=replace(small, learning_rate=2e-3)),
        replace(first, config=replace(small, weights=Exponential(1.1))),
        replace(first, fold=replace(first.fold, valid=(), train=first.fold.train + first.fold.valid)),
        replace(first, data=episodes_digest(oscillators.take(range(8)))),
    ]
    assert len({digest(job) for job in [first, *others]}) == 7


def test_local_workers_use_one_thread_each_and_share_the_cores():
    with connect(num_workers=2) as client:
        found = client.run(_threads_of_jax)
    assert len({process for process, *_ in found.values()}) == 2
    for _, busy_cores, allowed in found.values():
        assert busy_cores < 1.5  # processor time over wall time of a large product
        assert allowed == len(os.sched_getaffinity(0))


def _threads_of_jax():
    import jax.numpy as jnp

    workers.prepare_worker()
    product = jax.jit(lambda x: x @ x / 1e3)
    x = product(jnp.ones((1500, 1500), jnp.float32)).block_until_ready()
    wall, processor = time.perf_counter(), time.process_time()
    for _ in range(5):
        x = product(x)
    x.block_until_ready()
    allowed = {len(os.sched_getaffinity(int(thread))) for thread in os.listdir("/proc/self/task")}
    assert len(allowed) == 1
    return os.getpid(), (time.process_time() - processor) / (time.perf_counter() - wall), allowed.pop()


@pytest.mark.parametrize(
    ("where", "message"),
    [
        ("no/such/file.json", "There is no scheduler file no/such/file.json"),
        ("tcp://127.0.0.1:1", "No Dask scheduler answers at tcp://127.0.0.1:1"),
        ("nonsense://x", "No Dask scheduler answers at nonsense://x"),
    ],
)
def test_a_cluster_that_is_not_there(where, message, monkeypatch):
    monkeypatch.setattr(workers, "CONNECT_SECONDS", 1)
    with pytest.raises(InputError, match=message), connect(where):
        pass


def test_workers_with_other_versions_are_refused(cluster, monkeypatch):
    monkeypatch.setattr(provenance, "_versions", lambda: {"jax": "0.1", "commit": "x"})
    with (
        pytest.raises(InputError, match=r"has other versions of jax than this process"),
        connect(str(cluster[0])),
    ):
        pass


def test_rows_of_a_worker_that_joins_later_with_other_versions_are_refused(
    oscillators, small, tmp_path, cluster, monkeypatch
):
    jobs, log = jobs_of(oscillators, small)[:1], RowLog(tmp_path / "fits.jsonl")
    with log.writing(), connect(str(cluster[0])) as client:
        monkeypatch.setattr(provenance, "_versions", lambda: {"jax": "0.1"})
        with pytest.raises(InputError, match="A worker that joined later has other versions of jax"):
            sweep(jobs, {jobs[0].data: oscillators}, log, client)
        assert log.read() == []


def test_a_cluster_without_workers_is_waited_for(tmp_path, monkeypatch):
    monkeypatch.setattr(workers, "PATIENCE_SECONDS", 0.1)
    file = tmp_path / "scheduler.json"
    processes = start_cluster(file, ())

    def start_later():
        time.sleep(1)
        processes.append(start_worker(file, "late"))

    try:
        starter = threading.Thread(target=start_later)
        starter.start()
        with (
            pytest.warns(UserWarning, match="has no workers yet: waiting for the first one"),
            connect(str(file)) as client,
        ):
            assert [worker["name"] for worker in client.scheduler_info()["workers"].values()] == ["late"]
        starter.join()
    finally:
        for process in processes:
            process.kill()
            process.wait()


def test_no_workers_on_this_machine():
    with pytest.raises(InputError, match="0 workers were asked for"), connect(num_workers=0):
        pass
