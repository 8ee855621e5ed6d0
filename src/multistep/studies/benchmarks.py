"""`multistep reproduce benchmarks`: the automatic recipe on published records of plants, beside a line and
one network trained one step ahead and through its rollout."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import mean
from typing import Annotated, Any

import jax
import tyro

from multistep.data import episodes_digest, split_in_time
from multistep.dynamics import CorrectedConfig, HiddenState, Lags, LineConfig
from multistep.errors import InputError
from multistep.evaluation import FreeRunR2
from multistep.runs.provenance import plain
from multistep.runs.row_log import Row, RowLog
from multistep.runs.run_folder import check_study, open_run, write_run
from multistep.runs.sweep import FAILED, AbstractJob, sweep
from multistep.runs.workers import Workers
from multistep.selection.automatic import Automatic
from multistep.selection.lags import ChosenMemory
from multistep.studies.benchmark_records import (
    BENCHMARKS,
    TRAINING,
    Benchmark,
    BenchmarkData,
    find_benchmark,
    free_run_rmse,
    read_benchmark,
)
from multistep.studies.scales import Scale
from multistep.training import AbstractRecipe, Growing, LeastSquares, Once

COMMAND = "reproduce benchmarks"
ROWS = "fits.jsonl"
NARX_LAGS, NARX_STEPS = 5, 4_000_000
"""Lags of the network that is trained in both ways, and model steps of each training."""
AUTOMATIC = "automatic"


@dataclass(frozen=True)
class BenchmarksConfig:
    """Free runs over published test records, from a model that the training record alone has chosen."""

    data: Annotated[Path, tyro.conf.Positional]
    """Folder with the files: cascaded_tanks.csv, silverbox.parquet, ..."""
    scale: Scale = "smoke"
    """smoke: the tanks with quick fits; quick: one seed; paper: three seeds of the automatic recipe."""
    benchmark: tuple[str, ...] = ()
    """cascaded_tanks, silverbox, wiener_hammerstein, emps (default: all; smoke: cascaded_tanks)."""
    method: tuple[str, ...] = ()
    """automatic, line, state_space, narx_one_step, narx_rollout (default: all)."""
    where: Annotated[Workers, tyro.conf.arg(name="")] = field(default_factory=Workers)
    """Where the jobs run."""
    out: Path = Path("runs/benchmarks")
    """Folder for rows and tables; a second run, with other benchmarks too, adds to what is there."""


@dataclass(frozen=True)
class BenchmarkJob(AbstractJob):
    """Fit in one way to the training record, then look at each test record once."""

    data: str
    """Name of the records: the benchmark's and a digest of the training record."""
    benchmark: str
    method: str
    recipe: AbstractRecipe
    seed: int

    @property
    def work(self) -> float:
        return 10.0 if self.method == AUTOMATIC else 1.0

    def labels(self) -> Row:
        names = {"benchmark": self.benchmark, "method": self.method, "seed": self.seed}
        return {**names, "data": self.data, "recipe": plain(self.recipe)}

    def run(self, data: BenchmarkData) -> Row:
        benchmark = BENCHMARKS[self.benchmark]
        started = time.process_time()
        train, valid = split_in_time(data.train, TRAINING)
        fitted = self.recipe.fit(train, valid, key=jax.random.key(self.seed), score=FreeRunR2())
        seconds = time.process_time() - started
        errors = {test: free_run_rmse(fitted.model, own, benchmark) for test, own in data.tests.items()}
        about = {"judged": dict(fitted.judged), "notes": list(fitted.notes)}
        return {
            "outcome": str(fitted.outcome),
            "reason": None,
            "rmse": errors,
            "cpu_seconds": seconds,
            **about,
        }


def run_benchmarks(config: BenchmarksConfig) -> dict[str, Any]:
    """Run what is missing, leave rows and the table in `config.out` and return the summary."""
    names = config.benchmark or (("cascaded_tanks",) if config.scale == "smoke" else tuple(BENCHMARKS))
    records = {name: read_benchmark(find_benchmark(name), config.data) for name in names}
    check_study(config.out, COMMAND, scale=config.scale)
    jobs: list[AbstractJob] = []
    data: dict[str, BenchmarkData] = {}
    for name, own in records.items():
        data[digest := f"{name} {episodes_digest(own.train)}"] = own
        for method, recipe in methods_for(BENCHMARKS[name], config).items():
            seeds = 3 if config.scale == "paper" and method == AUTOMATIC else 1
            jobs += [BenchmarkJob(digest, name, method, recipe, seed) for seed in range(seeds)]
    log = RowLog(config.out / ROWS)
    with log.writing():
        log.forget(FAILED)  # what failed is tried again
        open_run(config.out, COMMAND, config)
        with config.where.connect() as client:
            sweep(jobs, data, log, client)
        return write_table(config, log.read())


def methods_for(benchmark: Benchmark, config: BenchmarksConfig) -> dict[str, AbstractRecipe]:
    """The ways to fit; each starts from no more outputs than the rules allow."""
    seen, smoke = benchmark.num_seen, config.scale == "smoke"
    narx = Lags(min(seen, NARX_LAGS)).around(CorrectedConfig(32 if smoke else 128, 1, "tanh"))

    def trained(horizon: int) -> Once:
        steps = Growing(50_000 if smoke else NARX_STEPS, stages=1)
        return Once(horizon=horizon, network=narx, curriculum=steps)

    methods = {
        "line": LeastSquares(Lags(min(seen, 10)).around(LineConfig())),
        "state_space": LeastSquares(HiddenState(4, min(seen, 10)).around(LineConfig())),
        "narx_one_step": trained(1),
        "narx_rollout": trained(5 if smoke else 80),
        AUTOMATIC: Automatic(memory=ChosenMemory(seen), budget="2M" if smoke else None),
    }
    if unknown := sorted(set(config.method) - set(methods)):
        raise InputError(f"There is no method {unknown[0]}: name some of {', '.join(methods)}.")
    return {name: recipe for name, recipe in methods.items() if not config.method or name in config.method}


def write_table(config: BenchmarksConfig, rows: Sequence[Row]) -> dict[str, Any]:
    """The table of all rows in the folder, one line per test record and method, beside what others report."""
    table: list[Row] = []
    sound = [row for row in rows if row["outcome"] != FAILED]
    for name in dict.fromkeys(row["benchmark"] for row in sound):
        benchmark = BENCHMARKS[name]
        for test, _ in benchmark.tests:
            for method in dict.fromkeys(row["method"] for row in sound if row["benchmark"] == name):
                own = [row for row in sound if (row["benchmark"], row["method"]) == (name, method)]
                errors = [float(row["rmse"][test]) for row in own]  # inf is a word in a row
                line = {"benchmark": name, "test": test, "unit": benchmark.unit, "model": method}
                spread = {"rmse": mean(errors), "lowest": min(errors), "highest": max(errors)}
                table.append(line | spread | {"cpu_seconds": mean(row["cpu_seconds"] for row in own)})
            for model, rmse in benchmark.paper_rmse(test).items():
                line = {
                    "benchmark": name,
                    "test": test,
                    "unit": benchmark.unit,
                    "model": f"reported: {model}",
                }
                table.append(line | {"rmse": rmse, "lowest": None, "highest": None, "cpu_seconds": None})
    ours = {
        f"{row['benchmark']} {row['test']}, {row['unit']}": row["rmse"]
        for row in table
        if row["model"] == AUTOMATIC
    }
    summary = {"scale": config.scale, "automatic": ours}
    write_run(config.out, COMMAND, config, table, summary)
    return summary
