"""`multistep reproduce static`: R2bar by dataset, noise, horizon and beta, as in the section "Static
evaluation"."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any

import jax
import tyro

from multistep.agents.collecting import collect
from multistep.data import Episodes, add_noise, episodes_digest, first_pieces
from multistep.errors import InputError
from multistep.runs.provenance import digest
from multistep.runs.row_log import Row, RowLog
from multistep.runs.run_folder import check_study, open_run, write_rows, write_run
from multistep.runs.sweep import FAILED, AbstractJob, sweep
from multistep.runs.workers import Workers
from multistep.selection.candidates import PAPER_BETAS, PAPER_HORIZONS, grid
from multistep.selection.fit_job import FitJob, score_fields
from multistep.selection.folds import Fold, deal_sized_folds
from multistep.studies.scales import Scale
from multistep.studies.static_tables import (
    beta_table,
    candidate_table,
    cell_table,
    curve_table,
    fit_table,
    verdicts,
)
from multistep.tasks.cache import cached, load_dataset
from multistep.tasks.catalogue import CATALOGUE, Dataset, RandomPolicy, find_dataset
from multistep.training import DEFAULT, PAPER

ROWS = "fits.jsonl"
COMMAND = "reproduce static"


@dataclass(frozen=True)
class StaticConfig:
    """R2bar(100) of the paper's models by dataset, noise, horizon and beta."""

    scale: Scale = "smoke"
    """smoke: seconds; quick: an hour or two; paper: the whole grid, days on two cores."""
    dataset: tuple[str, ...] = ()
    """Datasets of the catalogue (default: all that are present; smoke: cartpole/random)."""
    noise: tuple[float, ...] = ()
    """Noise scales, as shares of each state's range (default: 0, 0.01 and 0.02)."""
    horizons: tuple[int, ...] = ()
    """Horizons of the loss (default: those of the scale); 1 is the baseline."""
    betas: tuple[float, ...] = ()
    """Betas of the weights (default: those of the scale)."""
    where: Annotated[Workers, tyro.conf.arg(name="")] = field(default_factory=Workers)
    """Where the jobs run."""
    retry_failed: bool = False
    """Run fits again that failed in an earlier run of the command."""
    seed: int = 0
    """Seed of noise, folds and training."""
    cache: Path | None = None
    """Folder of the datasets (default: MULTISTEP_DATASETS, or the platform's cache folder)."""
    out: Path = Path("runs/static")
    """Folder for rows, tables and figures; a second run, with other datasets too, adds to what is there."""


@dataclass(frozen=True)
class Size:
    """How much of the study a scale is."""

    noises: tuple[float, ...]
    horizons: tuple[int, ...]
    betas: tuple[float, ...]
    num_folds: int
    epochs: int
    score_horizon: int
    most_episodes: tuple[int, int, int] | None = None
    """Train, validation and test episodes of datasets that have more."""
    steps: int | None = None
    """Steps that episodes are cut to."""
    with_default: bool = False
    """Whether the package's own preset is trained beside the paper's."""
    ceiling_episodes: int | None = None
    """Test episodes of each fold that the true simulator is scored on, if not all."""


SIZES: dict[Scale, Size] = {
    "smoke": Size(
        (0.0, 0.02), (1, 2), (0.5, 1.5), 2, 2, 20, most_episodes=(12, 2, 4), steps=100, ceiling_episodes=1
    ),
    "quick": Size(
        (0.0, 0.01, 0.02),
        (1, 2, 4, 10),
        (0.1, 0.5, 1.5),
        3,
        3,
        100,
        most_episodes=(36, 4, 10),
        ceiling_episodes=3,
    ),
    "paper": Size((0.0, 0.01, 0.02), PAPER_HORIZONS, PAPER_BETAS, 3, PAPER.epochs, 100, with_default=True),
}


@dataclass(frozen=True)
class CeilingJob(AbstractJob):
    """Score the true simulator on the test episodes of a fold."""

    data: str
    dataset: str
    noise: float
    fold: Fold
    score_horizon: int

    @property
    def work(self) -> float:
        return 300.0 * len(self.fold.test)

    def labels(self) -> Row:
        names = {"kind": "ceiling", "dataset": self.dataset, "noise": self.noise}
        return {**names, "data": self.data, "fold": self.fold.number, "horizon": None, "weights": None}

    def run(self, data: Episodes) -> Row:
        scores = CATALOGUE[self.dataset].task.ceiling(data.take(self.fold.test), horizon=self.score_horizon)
        return {"outcome": "finished", "reason": None, **score_fields(scores)}


def run_static(config: StaticConfig) -> dict[str, Any]:
    """Run what is missing, leave rows and tables in `config.out` and return the summary."""
    datasets = chosen_datasets(config)
    check_study(config.out, COMMAND, scale=config.scale, seed=config.seed)
    log = RowLog(config.out / ROWS)
    with log.writing():
        jobs, data = prepare(config, datasets)
        _check_rows(log, jobs, config.out)
        if config.retry_failed:
            log.forget(FAILED, {digest(job) for job in jobs})
        open_run(config.out, COMMAND, config)
        with config.where.connect() as client:
            sweep(jobs, data, log, client)
        return write_tables(config)


def write_tables(config: StaticConfig) -> dict[str, Any]:
    """Tables and summary of all rows in the folder, those of earlier commands too."""
    rows = RowLog(config.out / ROWS).read()
    fits = fit_table(rows)
    cells = cell_table(fits, SIZES[config.scale].num_folds, len(SIZES[config.scale].betas))
    write_rows(config.out / "candidates.csv", candidate_table(fits))
    write_rows(config.out / "betas.csv", beta_table(cells))
    write_rows(config.out / "curves.csv", curve_table(fits, cells))
    outcomes = Counter(row["outcome"] for row in rows)
    summary = {
        "scale": config.scale,
        "score_horizon": SIZES[config.scale].score_horizon,
        "outcomes": dict(outcomes),
        "seconds_of_fits": sum(row["seconds"] for row in rows),
        **verdicts(cells),
        "datasets_without_rows": sorted(CATALOGUE.keys() - {row["dataset"] for row in rows}),
        "failures": [
            f"{row['dataset']}, noise {row['noise']:g}: {row['reason']}"
            for row in rows
            if row["outcome"] == FAILED
        ],
    }
    write_run(config.out, COMMAND, config, cells, summary)
    return summary


def _check_rows(log: RowLog, jobs: Sequence[AbstractJob], out: Path) -> None:
    """Refuse a folder with rows of the same cells from other episodes or settings: the tables would mix them
    up."""

    def place(row: Row) -> tuple[Any, ...]:
        return tuple(row.get(name) for name in ("kind", "dataset", "noise", "preset", "horizon", "weights"))

    ours = {place(job.labels()): job.labels() for job in jobs}
    for row in log.read():
        mine = ours.get(place(row), row)
        if any(row.get(name) != mine.get(name) for name in ("data", "config")):
            raise InputError(
                f"{out} holds fits to other episodes of {row['dataset']}, or of other settings: choose "
                "another --out."
            )


def prepare(
    config: StaticConfig, datasets: Sequence[Dataset]
) -> tuple[list[AbstractJob], dict[str, Episodes]]:
    """All jobs of the study in the order of its table, and the episodes that they need by their digest."""
    jobs: list[AbstractJob] = []
    data: dict[str, Episodes] = {}
    for dataset in datasets:
        noiseless, folds = _episodes(config, dataset)
        for noise in config.noise or SIZES[config.scale].noises:
            # The same draws at every scale of noise: cells differ by what is varied alone.
            episodes = add_noise(noiseless, noise, key=jax.random.key(config.seed)) if noise else noiseless
            name = episodes_digest(episodes)
            data[name] = episodes
            jobs += _cell_jobs(config, dataset, noise, name, folds)
    return jobs, data


def _cell_jobs(
    config: StaticConfig, dataset: Dataset, noise: float, data: str, folds: Sequence[Fold]
) -> list[AbstractJob]:
    """The ceilings and fits of one dataset with one scale of noise."""
    size = SIZES[config.scale]
    base = replace(PAPER, epochs=size.epochs)
    names = {"dataset": dataset.name, "noise": noise}
    ceilings = [
        CeilingJob(
            data,
            dataset.name,
            noise,
            replace(fold, test=fold.test[: size.ceiling_episodes]),
            size.score_horizon,
        )
        for fold in folds
    ]
    fits = [
        FitJob(data, candidate, fold, config.seed, size.score_horizon, names)
        for candidate in grid(base, config.horizons or size.horizons, config.betas or size.betas)
        for fold in folds
    ]
    ours = [
        FitJob(data, DEFAULT, fold, config.seed, size.score_horizon, {**names, "preset": "default"})
        for fold in folds
    ]
    return [*fits, *ceilings, *(ours if size.with_default and not config.horizons else [])]


def _episodes(config: StaticConfig, dataset: Dataset) -> tuple[Episodes, list[Fold]]:
    """The episodes of a dataset, as many and as long as the scale takes, and their folds."""
    size = SIZES[config.scale]
    episodes, split = sized_episodes(dataset, config.cache, size.most_episodes, size.steps)
    return episodes, deal_sized_folds(split, size.num_folds, key=jax.random.key(config.seed))


def sized_episodes(
    dataset: Dataset, cache: Path | None, most: tuple[int, int, int] | None, steps: int | None
) -> tuple[Episodes, tuple[int, int, int]]:
    """The episodes of a dataset and how many are for training, validation and test: no more than `most`, none
    longer than `steps`. What is not present is collected."""
    if cached(dataset, cache) is None:
        collect(dataset, cache)
    episodes = load_dataset(dataset.name, cache)
    split = dataset.split
    if most is not None and sum(most) < len(episodes):
        split = most
        episodes = episodes.take(range(sum(split)))
    return (episodes if steps is None else first_pieces(episodes, steps)), split


def chosen_datasets(config: Any) -> list[Dataset]:
    """The datasets asked for; by default all that are present or can be made in seconds."""
    if config.dataset:
        return [find_dataset(name) for name in config.dataset]
    if config.scale == "smoke":
        return [find_dataset("cartpole/random")]
    return [
        d
        for d in CATALOGUE.values()
        if isinstance(d.recipe, RandomPolicy) or cached(d, config.cache) is not None
    ]
