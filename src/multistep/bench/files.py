"""`multistep bench files`: loading beside the libraries' own plain reads, memory of large files, time to
collect."""

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import numpy as np
import polars as pl

from multistep.bench.workload import ACTIONS, STATES
from multistep.data import Episodes, load, save
from multistep.runs.row_log import Row
from multistep.runs.run_folder import check_run, write_run
from multistep.tasks import CARTPOLE, HALFCHEETAH

BYTES_PER_STEP = 4 * (STATES + ACTIONS + 1)
EPISODE_STEPS = 1000

COMMAND = "bench files"


@dataclass(frozen=True)
class FilesBenchConfig:
    """Loading beside the libraries' own plain reads, memory of large files, time to collect."""

    out: Path = Path("runs/bench-files")
    """Folder for the results; the files themselves are temporary and beside them."""
    speed_megabytes: int = 250
    """Size of the files that are timed."""
    memory_megabytes: int = 1000
    """Size of the files whose reading is watched for memory."""
    rounds: int = 7
    """Times that each read is repeated, one after the other in turn."""
    episodes: tuple[int, int] = (50, 100)
    """Random episodes of Cartpole and of HalfCheetah to collect, on one core."""


def run_files_bench(config: FilesBenchConfig) -> dict[str, Any]:
    """Measure, leave rows and summary in `config.out` and return the summary."""
    check_run(config.out, COMMAND)
    config.out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=config.out) as name:
        rows = _speed_rows(Path(name), config) + _memory_rows(Path(name), config)
    rows += _collect_rows(config)
    middle = {
        item: statistics.median(row["value"] for row in rows if row["item"] == item)
        for item in {row["item"] for row in rows}
    }
    summary = {
        "npz_speed_of_plain": middle["npz_plain_seconds"] / middle["npz_seconds"],
        "parquet_speed_of_plain": middle["parquet_plain_seconds"] / middle["parquet_seconds"],
        **{item: middle[item] for item in sorted(middle)},
    }
    write_run(config.out, COMMAND, config, rows, summary)
    return summary


def _noise_episodes(megabytes: int) -> Episodes:
    """Noise in the shape of HalfCheetah's data, which does not compress."""
    rng = np.random.default_rng(0)
    num_episodes = max(1, megabytes * 10**6 // (BYTES_PER_STEP * EPISODE_STEPS))
    num_steps = num_episodes * EPISODE_STEPS
    return Episodes(
        states=rng.standard_normal((num_steps + num_episodes, STATES), np.float32),
        actions=rng.standard_normal((num_steps, ACTIONS), np.float32),
        rewards=rng.standard_normal(num_steps, np.float32),
        lengths=np.full(num_episodes, EPISODE_STEPS),
        state_names=tuple(f"state_{index}" for index in range(STATES)),
        action_names=tuple(f"action_{index}" for index in range(ACTIONS)),
    )


def _speed_rows(folder: Path, config: FilesBenchConfig) -> list[Row]:
    npz, parquet = folder / "speed.npz", folder / "speed.parquet"
    episodes = _noise_episodes(config.speed_megabytes)
    save(episodes, npz)
    save(episodes, parquet)
    reads: dict[str, Callable[[], object]] = {
        "npz_plain_seconds": lambda: _plain_npz(npz),
        "npz_seconds": lambda: load(npz),
        "parquet_plain_seconds": lambda: pl.read_parquet(parquet),
        "parquet_seconds": lambda: load(parquet),
    }
    for read in reads.values():
        read()
    return [
        {"item": item, "round": number, "value": _seconds(read)}
        for number in range(config.rounds)
        for item, read in reads.items()
    ]


READ = """
import re, sys
import multistep as ms

def peak():  # in kB; getrusage would count what the parent process had before
    return int(re.search(r"VmHWM:\\s+(\\d+)", open("/proc/self/status").read()).group(1))

before = peak()
ms.load(sys.argv[1])
print((peak() - before) * 1024)
"""


def _memory_rows(folder: Path, config: FilesBenchConfig) -> list[Row]:
    """The largest memory of a process that reads the file, over what it had before, in sizes of the file."""
    episodes, rows = _noise_episodes(config.memory_megabytes), []
    for ending in ("hdf5", "parquet", "npz"):
        path = folder / f"memory.{ending}"
        save(episodes, path)
        answer = subprocess.run(
            [sys.executable, "-c", READ, str(path)], capture_output=True, text=True, check=True
        )
        rows.append(
            {
                "item": f"{ending}_memory_of_size",
                "round": 0,
                "value": int(answer.stdout) / path.stat().st_size,
            }
        )
        path.unlink()
    return rows


def _collect_rows(config: FilesBenchConfig) -> list[Row]:
    rows, cores = [], os.sched_getaffinity(0)
    os.sched_setaffinity(0, {max(cores)})
    for task, number in zip((CARTPOLE, HALFCHEETAH), config.episodes, strict=True):
        seconds = _seconds(
            lambda task=task, number=number: task.collect_random(number, key=jax.random.key(0))
        )
        rows.append({"item": f"{task.name}_{number}_episodes_seconds", "round": 0, "value": seconds})
    os.sched_setaffinity(0, cores)
    return rows


def _plain_npz(path: Path) -> dict[str, np.ndarray]:
    with np.load(path) as archive:
        return dict(archive)


def _seconds(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started
