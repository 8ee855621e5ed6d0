"""`multistep bench identification`: peers beside ours on published benchmarks of system identification, in
one run."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import mean
from typing import Annotated, Any

import jax
import tyro

from multistep.agents.collecting import collect
from multistep.bench.contests import LINEAR, OURS, EpisodesJob, Offered, PlantJob
from multistep.bench.peer_environments import PEERS, PeerMissing, environments_folder, make_environment
from multistep.data import Episodes, episodes_digest, first_pieces
from multistep.errors import InputError
from multistep.runs.progress import announce
from multistep.runs.row_log import Row, RowLog
from multistep.runs.run_folder import open_run, write_run
from multistep.runs.sweep import FAILED, sweep
from multistep.runs.workers import Workers
from multistep.selection.folds import deal_sized_folds
from multistep.studies.benchmark_records import BENCHMARKS, find_benchmark, read_benchmark
from multistep.tasks.cache import cached, load_dataset
from multistep.tasks.catalogue import find_dataset

COMMAND = "bench identification"
ROWS = "fits.jsonl"
OF_PLANTS, OF_EPISODES = ("jax-sysid", "deepSI"), ("tsfast",)


@dataclass(frozen=True)
class IdentificationBenchConfig:
    """Peers beside ours: free runs over measured plants, and rollouts of noisy episodes from their past."""

    data: Path | None = None
    """Folder with the files of the benchmarks, as cascaded_tanks.csv (default: none, and no plant)."""
    benchmark: tuple[str, ...] = ("cascaded_tanks",)
    """Plants: cascaded_tanks, silverbox, wiener_hammerstein, emps."""
    dataset: tuple[str, ...] = ("cartpole/random",)
    """Datasets of the paper."""
    noise: float = 0.02
    """Noise on their states, as a share of each one's range."""
    method: tuple[str, ...] = (OURS, LINEAR, *PEERS)
    """Who takes part, by name."""
    seeds: int = 3
    """Seeds of each on the plants, and splits of the episodes."""
    plant_seconds: float = 120.0
    """Seconds of the processor that a peer may train on a plant, if it asks how many."""
    episode_seconds: float = 600.0
    """The same on episodes."""
    budget: str | None = None
    """Budget of the automatic recipe, as in multistep fit."""
    steps: int | None = None
    """Steps that episodes are cut to (default: all)."""
    score_horizon: int = 100
    """Steps ahead to score on episodes."""
    peers: Path | None = None
    """Folder of the peers' environments (default: in the platform's cache folder)."""
    cache: Path | None = None
    """Folder of the datasets (default: MULTISTEP_DATASETS, or the platform's cache folder)."""
    where: Annotated[Workers, tyro.conf.arg(name="")] = field(default_factory=Workers)
    """Where the jobs run."""
    out: Path = Path("runs/bench-identification")
    """Folder for the results; the same command goes on where it was stopped."""


def run_identification_bench(config: IdentificationBenchConfig) -> dict[str, Any]:
    """Run what is missing, leave a row for each run in `config.out` and return what each method reaches."""
    if unknown := sorted(set(config.method) - {OURS, LINEAR, *PEERS}):
        raise InputError(
            f"There is no method {unknown[0]}: name some of {', '.join((OURS, LINEAR, *PEERS))}."
        )
    jobs, records = prepare(config)
    if not jobs:
        raise InputError("There is nothing to run: name --data or --dataset, and methods that go with it.")
    log = RowLog(config.out / ROWS)
    with log.writing():
        log.forget(FAILED)  # what failed is tried again
        open_run(config.out, COMMAND, config)
        pythons = _pythons(sorted({job.method for job in jobs} & set(PEERS)), config)
        data = {name: Offered(own, pythons) for name, own in records.items()}
        with config.where.connect() as client:
            rows = sweep(jobs, data, log, client)
    summary = summary_of(rows)
    write_run(config.out, COMMAND, config, [_flat(row) for row in rows], summary)
    return summary


def prepare(config: IdentificationBenchConfig) -> tuple[list[PlantJob | EpisodesJob], dict[str, Any]]:
    """All jobs, seed by seed with the methods side by side, and the records that they need, by name."""
    jobs: list[PlantJob | EpisodesJob] = []
    records: dict[str, Any] = {}
    for name in config.benchmark if config.data is not None else ():
        assert config.data is not None
        own = read_benchmark(find_benchmark(name), config.data)
        records[digest := f"{name} {episodes_digest(own.train)}"] = own
        jobs += [
            PlantJob(digest, name, method, seed, config.plant_seconds, config.budget)
            for seed in range(config.seeds)
            for method in config.method
            if method not in OF_EPISODES and (method != LINEAR or seed == 0)  # it draws nothing
        ]
    for name in config.dataset:
        dataset = find_dataset(name)
        if cached(dataset, config.cache) is None:
            collect(dataset, config.cache)
        episodes: Episodes = load_dataset(name, config.cache)
        if config.steps is not None:
            episodes = first_pieces(episodes, config.steps)
        records[digest := episodes_digest(episodes)] = episodes
        folds = deal_sized_folds(dataset.split, config.seeds, key=jax.random.key(0))
        jobs += [
            EpisodesJob(
                digest,
                name,
                config.noise,
                method,
                fold,
                0,
                config.score_horizon,
                config.episode_seconds,
                config.budget,
            )
            for fold in folds
            for method in config.method
            if method not in OF_PLANTS
        ]
    return jobs, records


def summary_of(rows: Sequence[Row]) -> dict[str, Any]:
    """For each benchmark and method the mean, the lowest and the highest of its runs and the mean of their
    seconds; what others report; and who is absent, and why."""
    summary: dict[str, Any] = {}
    for name in dict.fromkeys(row["benchmark"] for row in rows):
        own = [row for row in rows if row["benchmark"] == name and row["outcome"] != FAILED]
        found: dict[str, Any] = {}
        for method in dict.fromkeys(row["method"] for row in own):
            runs = [row for row in own if row["method"] == method]
            found[method] = {"runs": len(runs)}
            for what in runs[0]["found"]:
                values = [float(row["found"][what]) for row in runs]  # inf is a word in a row
                found[method][f"{what} {runs[0]['unit']}".strip()] = {
                    "mean": mean(values),
                    "lowest": min(values),
                    "highest": max(values),
                }
            found[method]["cpu_seconds"] = mean(row["cpu_seconds"] for row in runs)
        if name in BENCHMARKS:
            tests = (test for test, _ in BENCHMARKS[name].tests)
            found["reported by others"] = {test: BENCHMARKS[name].paper_rmse(test) for test in tests}
        summary[name] = found
    absent = {
        f"{row['method']} on {row['benchmark']}": row["reason"] for row in rows if row["outcome"] == FAILED
    }
    return summary | ({"absent": absent} if absent else {})


def _pythons(methods: Sequence[str], config: IdentificationBenchConfig) -> dict[str, Path | str]:
    """The Python of each peer's environment, made now if need be; a sentence where that fails."""
    found: dict[str, Path | str] = {}
    for method in methods:
        announce(f"The environment of {method} is looked for, and made if it is not there.")
        try:
            found[method] = make_environment(PEERS[method], environments_folder(config.peers))
        except PeerMissing as error:
            found[method] = str(error)
            announce(f"{method} is absent: {error}.")
    return found


def _flat(row: Row) -> Row:
    """One line of the table: what was found beside the names."""
    names = ("benchmark", "method", "seed", "fold", "outcome", "reason", "unit", "cpu_seconds", "about")
    return {name: row.get(name) for name in names} | dict(row.get("found") or {})
