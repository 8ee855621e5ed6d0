"""Workers of this machine: one that is killed while it starts, and who may give them commands."""

import asyncio
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from distributed import Client

from multistep.errors import InputError
from multistep.runs import workers
from multistep.runs.security import key_of_this_run
from multistep.runs.workers import Workers, connect


def children():
    """Processes that Dask has started from here."""
    found = []
    for file in Path("/proc/self/task").glob("*/children"):
        for child in file.read_text().split():
            command = Path(f"/proc/{child}/cmdline")
            if command.exists() and b"spawn_main" in command.read_bytes():
                found.append(int(child))
    return found


def kill_when_started(times, done):
    """Kill the next workers a moment after they have been started."""
    killed = set()
    while len(killed) < times and not done.is_set():
        for child in set(children()) - killed:
            time.sleep(0.2)
            os.kill(child, signal.SIGKILL)
            killed.add(child)
        time.sleep(0.02)


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="needs Linux's list of processes")
def test_workers_that_are_killed_while_they_start_are_started_again(monkeypatch):
    done = threading.Event()
    killer = threading.Thread(target=kill_when_started, args=(1, done))
    killer.start()
    with connect(num_workers=1) as client:
        done.set()
        assert client.submit(max, 1, 2).result() == 2
    killer.join()
    monkeypatch.setattr(workers, "STARTS", 1)
    done = threading.Event()
    killer = threading.Thread(target=kill_when_started, args=(5, done))
    killer.start()
    with (
        pytest.raises(InputError, match=r"1 workers could not be started .*: see whether"),
        connect(num_workers=1),
    ):
        pass
    done.set()
    killer.join()


@pytest.mark.slow
def test_a_stranger_on_this_machine_gives_no_commands():
    with connect(num_workers=1) as client:
        address = client.scheduler_info()["address"]
        assert address.startswith("tls://127.0.0.1")
        assert all(worker.startswith("tls://127.0.0.1") for worker in client.scheduler_info()["workers"])
        for wrong in (address.replace("tls", "tcp"), address):
            security = key_of_this_run() if wrong == address else None
            with pytest.raises((OSError, TypeError, asyncio.TimeoutError)):
                Client(wrong, timeout=2, security=security)


def test_a_cluster_behind_tls_takes_its_three_files(tmp_path):
    there = tmp_path / "ca.pem"
    there.touch()
    for options, words in (
        ({"tls_ca": there}, "are for a cluster"),
        ({"cluster": "tls://localhost:1", "tls_ca": there}, "add --tls-cert"),
        (
            {"cluster": "tls://localhost:1", "tls_ca": tmp_path / "no.pem"},
            "There is no file .*no.pem: correct --tls-ca",
        ),
    ):
        with pytest.raises(InputError, match=words), Workers(**options).connect():
            pass


@pytest.mark.slow
def test_a_cluster_behind_tls_is_reached_with_its_files(tmp_path):
    security = key_of_this_run()
    for name, content in (("ca", security.tls_ca_file), ("key", security.tls_client_key)):
        (tmp_path / name).write_text(content)
    where = ["--scheduler-file", str(tmp_path / "file.json")]
    keys = [
        f"--tls-{name}={tmp_path / file}"
        for name, file in (("ca-file", "ca"), ("cert", "ca"), ("key", "key"))
    ]
    commands = (
        ["dask_scheduler", "--port", "0", "--no-dashboard", "--protocol", "tls"],
        ["dask_worker", "--no-dashboard"],
    )
    processes = [
        subprocess.Popen(
            [sys.executable, "-m", f"distributed.cli.{name}", "--host", "127.0.0.1", *rest, *where, *keys],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd=tmp_path,
        )
        for name, *rest in commands
    ]
    try:
        while not (tmp_path / "file.json").exists():
            assert processes[0].poll() is None
            time.sleep(0.05)
        files = {"tls_ca": tmp_path / "ca", "tls_cert": tmp_path / "ca", "tls_key": tmp_path / "key"}
        with Workers(str(tmp_path / "file.json"), **files).connect() as client:
            assert client.submit(max, 1, 2).result() == 2
    finally:
        for process in processes:
            process.kill()
            process.wait()
