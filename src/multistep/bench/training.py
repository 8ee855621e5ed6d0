"""`multistep bench training`: speed and memory of training and scoring, everything compared in one run,
interleaved."""

import multiprocessing
import os
import resource
import statistics
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from multistep.bench.workload import (
    BATCH_SIZE,
    Work,
    gemm_work,
    random_episodes,
    scoring_work,
    timed,
    training_work,
)
from multistep.data import Episodes
from multistep.errors import InputError
from multistep.runs.process import available_cores, keep_compiled_programs
from multistep.runs.row_log import Row
from multistep.runs.run_folder import check_run, write_run

TRUSTED_CPU_SHARE = (
    0.97  # below, something else ran on the core: such a measurement can be off by a factor of two
)

COMMAND = "bench training"


@dataclass(frozen=True)
class TrainingBenchConfig:
    """Speed and memory of training and scoring, beside a bare matrix product and PyTorch."""

    out: Path = Path("runs/bench-training")
    """Folder for the results."""
    rounds: int = 25
    """Times that everything is measured, in turn, a bare product before and after each; the summary takes
    medians."""
    batches: int = 30
    """Gradient steps of one measurement at horizon 10 (ten times as many at horizon 1)."""
    score_episodes: int = 4
    """Episodes of 1000 steps to score up to horizon 100."""
    transitions: int = 1_000_000
    """Transitions in the memory measurement."""


def run_training_bench(config: TrainingBenchConfig) -> dict[str, Any]:
    """Measure, leave rows and summary in `config.out`, and return the summary."""
    check_run(config.out, COMMAND)
    core = available_cores()[0]
    speed_rows = in_new_process(_measure_speed, core, config)
    side_by_side = _measure_side_by_side(config)
    memory = {h: in_new_process(_measure_memory, core, h, config.transitions) for h in (1, 50)}
    compilation = _measure_compilation(core)
    summary = _speed_summary(speed_rows) | {
        "two_workers_ratio": side_by_side,
        "memory": {"h1_mb": memory[1], "h50_mb": memory[50], "ratio": memory[50] / memory[1]},
        "compilation": compilation,
    }
    write_run(config.out, COMMAND, config, speed_rows, summary)
    return summary


def _measure_speed(config: TrainingBenchConfig) -> list[Row]:
    """One row per round and item, measured one after the other on this core."""
    try:
        from multistep.bench.torch_rival import torch_work
    except ImportError as error:
        raise InputError(
            "The benchmark compares with PyTorch: install multistep with the extra 'dev' (multistep[dev])."
        ) from error
    episodes = _enough_episodes(10 * config.batches)
    items: dict[str, tuple[Work, float]] = {
        "default": training_work("default", episodes, 10, config.batches),
        "torch_eager": torch_work("default", episodes, 10, config.batches),
        "paper": training_work("paper", episodes, 10, config.batches),
        "torch_eager_paper": torch_work("paper", episodes, 10, config.batches),
        "default_h1": training_work("default", episodes, 1, 10 * config.batches),
        "torch_eager_h1": torch_work("default", episodes, 1, 10 * config.batches),
        "scoring": scoring_work(random_episodes(1000, config.score_episodes)),
        "gemm_eight_weights": gemm_work(160 * config.batches, num_weights=8),
    }
    gemm = gemm_work(80 * config.batches)
    for work, _ in (gemm, *items.values()):
        work()
    return [
        {"round": n, "item": name, **_time_in_turns(gemm, item)}
        for n in range(config.rounds)
        for name, item in items.items()
    ]


def _time_in_turns(gemm: tuple[Work, float], item: tuple[Work, float]) -> dict[str, float]:
    """Rate of the item, and of the bare product right before and after it: the speed of a shared machine
    drifts."""
    before, during, after = (timed(work) for work, _ in (gemm, item, gemm))
    rate = item[1] / during["seconds"] / 1e9
    gemm_rate = 2 * gemm[1] / (before["seconds"] + after["seconds"]) / 1e9
    share = min(before["cpu_share"], during["cpu_share"], after["cpu_share"])
    return {
        "seconds": during["seconds"],
        "gflops": rate,
        "gemm_gflops": gemm_rate,
        "of_gemm": rate / gemm_rate,
        "cpu_share": share,
    }


def _speed_summary(rows: list[Row]) -> dict[str, Any]:
    """Medians over the undisturbed measurements; how much faster is the ratio of the shares of the bare
    product's rate.

    An item that was disturbed every time is taken as it is: the number of undisturbed measurements tells.
    """
    trusted = [row for row in rows if row["cpu_share"] >= TRUSTED_CPU_SHARE]
    names = {row["item"] for row in rows}

    def median(item: str, column: str) -> float:
        mine = [row for row in trusted if row["item"] == item] or [row for row in rows if row["item"] == item]
        return statistics.median(row[column] for row in mine)

    def rates(item: str) -> dict[str, float]:
        return {"gflops": median(item, "gflops"), "of_gemm": median(item, "of_gemm")}

    def faster(item: str, than: str) -> float:
        return median(item, "of_gemm") / median(than, "of_gemm")

    return {
        "gemm_gflops": statistics.median(row["gemm_gflops"] for row in trusted or rows),
        **{name: rates(name) for name in sorted(names)},
        "faster_than_torch_eager": {
            "default": faster("default", "torch_eager"),
            "default_h1": faster("default_h1", "torch_eager_h1"),
            "paper": faster("paper", "torch_eager_paper"),
        },
        "measurements": {"all": len(rows), "undisturbed": len(trusted)},
    }


def _measure_side_by_side(config: TrainingBenchConfig) -> float | None:
    """Throughput of two fits on two cores over that of one; none on a machine with one core."""
    cores = available_cores()[:2]
    if len(cores) < 2:
        return None
    with _pinned_process(cores[0]) as first, _pinned_process(cores[1]) as second:
        both = (first, second)
        for pool in both:
            pool.submit(_train_for, 1).result()
        ratios = []
        for _ in range(max(3, config.rounds // 3)):
            alone = [pool.submit(_train_for, config.batches).result() for pool in both]
            together = [job.result() for job in [pool.submit(_train_for, config.batches) for pool in both]]
            ratios.append(sum(together) / statistics.mean(alone))
    return statistics.median(ratios)


_PREPARED: dict[int, tuple[Work, float]] = {}  # of a worker process: compiled once, used by every call


def _train_for(num_batches: int) -> float:
    """Operations per second of a default fit in this process."""
    if num_batches not in _PREPARED:
        _PREPARED[num_batches] = training_work("default", _enough_episodes(num_batches), 10, num_batches)
        _PREPARED[num_batches][0]()
    work, operations = _PREPARED[num_batches]
    return operations / timed(work)["seconds"]


def _enough_episodes(num_batches: int) -> Episodes:
    """Episodes with windows for so many batches, at any horizon up to 100."""
    return random_episodes(1000, 1 + num_batches * BATCH_SIZE // 900)


def _measure_memory(horizon: int, transitions: int) -> float:
    """Peak memory, in MB, of a process that trains at this horizon."""
    episodes = random_episodes(1000, max(1, transitions // 1000))
    training_work("default", episodes, horizon, 20)[0]()
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def _measure_compilation(core: int) -> dict[str, float]:
    """Seconds until the first epoch has run in a process that must compile, and in the next one that finds it
    compiled."""
    with tempfile.TemporaryDirectory() as folder:
        cold, warm = (in_new_process(_first_epoch, core, Path(folder)) for _ in range(2))
    return {"cold_seconds": cold, "warm_seconds": warm}


def _first_epoch(cache: Path) -> float:
    keep_compiled_programs(cache)
    work, _ = training_work("default", random_episodes(1000), 10, 1)
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def in_new_process(function: Callable[..., Any], core: int, *arguments: Any) -> Any:
    """What the function returns in a fresh process on this core alone."""
    with _pinned_process(core) as pool:
        return pool.submit(function, *arguments).result()


def _pinned_process(core: int) -> ProcessPoolExecutor:
    return ProcessPoolExecutor(1, multiprocessing.get_context("spawn"), _pin, (core,))


def _pin(core: int) -> None:
    keep_compiled_programs()
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {core})
