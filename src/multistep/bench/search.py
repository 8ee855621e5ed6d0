"""`multistep bench search`: successive halving beside the whole grid, on Cartpole random data."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import tyro

from multistep.errors import InputError
from multistep.losses import describe_weights
from multistep.runs.provenance import digest
from multistep.runs.row_log import Row, RowLog
from multistep.runs.run_folder import check_run, write_run
from multistep.runs.sweep import sweep
from multistep.runs.workers import Workers
from multistep.selection.fit_job import FitJob
from multistep.selection.ranked import Ranked, ranked_of
from multistep.selection.search import Halving
from multistep.studies.scales import Scale
from multistep.studies.static import ROWS, StaticConfig, prepare
from multistep.tasks.catalogue import find_dataset
from multistep.training import DEFAULT, AbstractRecipe

DATASET = "cartpole/random"

COMMAND = "bench search"


@dataclass(frozen=True)
class SearchBenchConfig:
    """Successive halving beside the whole grid of the static study, on Cartpole random data."""

    scale: Scale = "paper"
    """Scale of that study."""
    grid: Path = Path("results/static")
    """Folder of a static study that has the whole grid of the noise scales."""
    noise: tuple[float, ...] = (0.0, 0.01, 0.02)
    """Noise scales."""
    search_seed: int = 0
    """Seed of the order in which halving sees the candidates."""
    where: Annotated[Workers, tyro.conf.arg(name="")] = field(default_factory=Workers)
    """Where the jobs run."""
    cache: Path | None = None
    """Folder of the datasets (default: MULTISTEP_DATASETS, or the platform's cache folder)."""
    out: Path = Path("runs/bench-search")
    """Folder for the results; the same command goes on where it was stopped."""


def run_search_bench(config: SearchBenchConfig) -> dict[str, Any]:
    """Search at every scale of noise, leave rows and summary in `config.out` and return the summary."""
    check_run(config.out, COMMAND)
    study = StaticConfig(scale=config.scale, dataset=(DATASET,), noise=config.noise, cache=config.cache)
    jobs, data = prepare(study, [find_dataset(DATASET)])
    fits = [job for job in jobs if isinstance(job, FitJob) and job.config != DEFAULT]
    known = {row["job"]: row for row in RowLog(config.grid / ROWS).read()}
    missing = sum(digest(job) not in known for job in fits)
    if missing:
        raise InputError(
            f"{config.grid} lacks {missing} of {len(fits)} fits of the grid: run 'multistep reproduce "
            f"static --scale {config.scale} --dataset {DATASET} --out {config.grid}' first."
        )
    log = RowLog(config.out / ROWS)
    with log.writing(), config.where.connect() as client:
        rows = [
            _compare(
                noise,
                [job for job in fits if job.names["noise"] == noise],
                data,
                known,
                log,
                client,
                config.search_seed,
            )
            for noise in config.noise
        ]
    summary = {
        f"noise {row['noise']:g}": {name: row[name] for name in ("cost_of_grid", "below_winner")}
        for row in rows
    }
    write_run(config.out, COMMAND, config, rows, summary)
    return summary


def _compare(
    noise: float,
    fits: list[FitJob],
    data: Mapping[str, Any],
    known: Mapping[str, Row],
    log: RowLog,
    client: Any,
    seed: int,
) -> Row:
    """Halving over the candidates of these fits, beside all of them. Full trainings are those of the grid."""
    spent: dict[str, FitJob] = {}

    def evaluate(configs: Sequence[AbstractRecipe]) -> list[Ranked]:
        wanted = [_jobs_like(fits, settings) for settings in configs]
        new = [job for jobs in wanted for job in jobs if digest(job) not in known]
        found = {row["job"]: row for row in sweep(new, data, log, client, description=f"noise {noise:g}")}
        rows = [[{**found, **known}[digest(job)] for job in jobs] for jobs in wanted]
        spent.update({digest(job): job for jobs in wanted for job in jobs})
        return [ranked_of(settings, own) for settings, own in zip(configs, rows, strict=True)]

    candidates = list(dict.fromkeys(job.config for job in fits))
    grid = [ranked_of(c, [known[digest(job)] for job in fits if job.config == c]) for c in candidates]
    searched = Halving(seed=seed)(candidates, evaluate)
    return _row(
        noise, grid, searched, sum(job.work for job in spent.values()) / sum(job.work for job in fits)
    )


def _jobs_like(jobs: list[FitJob], config: AbstractRecipe) -> list[FitJob]:
    """The jobs of a configuration on the folds of these jobs."""
    folds = list(dict.fromkeys(job.fold for job in jobs))
    first = jobs[0]
    return [FitJob(first.data, config, fold, first.seed, first.score_horizon, first.names) for fold in folds]


def _row(noise: float, grid: list[Ranked], searched: list[Ranked], cost_of_grid: float) -> Row:
    """What the grid found, what halving found, and the share of the grid's training that it took.

    Not of its time: the fits of a grid may be from different days and machines.
    """
    winner, found = (max(ranking, key=lambda ranked: ranked.mean) for ranking in (grid, searched))
    return {
        "noise": noise,
        **_named("grid", winner),
        **_named("halving", found),
        "below_winner": (winner.mean - found.mean) / winner.deviation,
        "candidates": len(grid),
        "trained_in_full": len(searched),
        "cost_of_grid": cost_of_grid,
    }


def _named(name: str, ranked: Ranked) -> Row:
    return {
        f"{name}_horizon": ranked.config.settings.horizon,
        f"{name}_weights": describe_weights(ranked.config.settings.weights),
        f"{name}_mean": ranked.mean,
        f"{name}_deviation": ranked.deviation,
    }
