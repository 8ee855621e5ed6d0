"""`multistep bench sweep`: throughput of a sweep on all cores beside one worker, and what the sweep itself
costs."""

import statistics
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import jax

from multistep.data import Episodes, episodes_digest
from multistep.errors import InputError
from multistep.losses import Uniform
from multistep.runs.process import available_cores
from multistep.runs.row_log import Row, RowLog
from multistep.runs.run_folder import check_run, write_run
from multistep.runs.sweep import sweep
from multistep.runs.workers import connect
from multistep.selection.fit_job import FitJob
from multistep.selection.folds import deal_sized_folds
from multistep.tasks import CARTPOLE
from multistep.training import PAPER

COMMAND = "bench sweep"


@dataclass(frozen=True)
class SweepBenchConfig:
    """Throughput of a sweep on all cores beside one worker, and what the sweep itself costs."""

    out: Path = Path("runs/bench-sweep")
    """Folder for the results."""
    rounds: int = 2
    """Rounds of one sweep on one worker and one on all cores."""
    fits: int = 3
    """Fits per worker in each sweep."""
    epochs: int = 32
    """Epochs of each fit of the paper's one-step model to 36 Cartpole episodes; 32 take about half a
    minute."""


def run_sweep_bench(config: SweepBenchConfig) -> dict[str, Any]:
    """Measure, leave rows and summary in `config.out` and return the summary."""
    check_run(config.out, COMMAND)
    if config.rounds < 1 or config.fits < 1:
        raise InputError("The benchmark needs at least one round and one fit per worker.")
    episodes, cores = CARTPOLE.collect_random(50, key=jax.random.key(0)), len(available_cores())
    _measure(config, episodes, num_workers=cores, turn=-1, epochs=1)  # compiles what is not compiled yet
    rows = [
        _measure(config, episodes, num_workers=num_workers, turn=turn, epochs=config.epochs)
        for turn in range(config.rounds)
        for num_workers in ((1, cores) if turn % 2 == 0 else (cores, 1))
    ]
    summary = _summary(rows, cores)
    write_run(config.out, COMMAND, config, rows, summary)
    return summary


def _measure(
    config: SweepBenchConfig, episodes: Episodes, *, num_workers: int, turn: int, epochs: int
) -> Row:
    """One sweep of fits that differ by their seed, from starting the workers to the last row."""
    fold, data = deal_sized_folds((36, 4, 10), 1, key=jax.random.key(0))[0], episodes_digest(episodes)
    settings = replace(PAPER, horizon=1, weights=Uniform(), epochs=epochs)
    jobs = [FitJob(data, settings, fold, seed, 100) for seed in range(config.fits * num_workers)]
    log = RowLog(config.out / f"sweep_{turn}_{num_workers}.jsonl")
    log.path.unlink(missing_ok=True)
    started = time.perf_counter()
    with log.writing(), connect(num_workers=num_workers) as client:
        found = sweep(jobs, {data: episodes}, log, client, description=f"{num_workers} workers")
    seconds = time.perf_counter() - started
    log.path.unlink()
    log.path.with_name(f".{log.path.name}.lock").unlink(missing_ok=True)
    of_fits = [row["seconds"] for row in found]
    return {
        "round": turn,
        "workers": num_workers,
        "fits": len(jobs),
        "seconds": seconds,
        "fit_seconds": statistics.mean(of_fits),
        "overhead": num_workers * seconds / sum(of_fits) - 1,
    }


def _summary(rows: list[Row], cores: int) -> dict[str, Any]:
    def rate(workers: int) -> float:
        own = [row for row in rows if row["workers"] == workers]
        return sum(row["fits"] for row in own) / sum(row["seconds"] for row in own)

    return {
        "workers": cores,
        "throughput_over_one_worker": rate(cores) / rate(1),
        "overhead_of_fit_time": statistics.mean(row["overhead"] for row in rows if row["workers"] == cores),
        "fit_seconds": statistics.mean(row["fit_seconds"] for row in rows),
    }
