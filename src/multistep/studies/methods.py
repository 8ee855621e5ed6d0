"""Methods beside each other: every recipe on the same splits of the same noisy episodes, a row each."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import jax
import numpy as np
import tyro

from multistep.agents.collecting import collect
from multistep.data import Episodes, add_noise, episodes_digest, first_pieces
from multistep.errors import InputError
from multistep.evaluation import R2Bar, score
from multistep.runs.provenance import plain
from multistep.runs.row_log import Row, RowLog
from multistep.runs.run_folder import open_run
from multistep.runs.sweep import FAILED, AbstractJob, sweep
from multistep.runs.workers import Workers
from multistep.selection.fit import VALIDATION_HORIZON
from multistep.selection.fit_job import score_fields
from multistep.selection.folds import Fold, deal_sized_folds
from multistep.studies.scales import Scale
from multistep.tasks.cache import cached, load_dataset
from multistep.tasks.catalogue import CATALOGUE, Dataset
from multistep.training import AbstractRecipe, Fit

ROWS = "fits.jsonl"
Methods = Mapping[str, AbstractRecipe | None]
"""Recipes by name; the true simulator has none."""


@dataclass(frozen=True)
class MethodsConfig:
    """What studies of methods have in common."""

    scale: Scale = "smoke"
    """How much of it is run."""
    dataset: tuple[str, ...] = ()
    """Datasets of the catalogue (default: all that are present; smoke: cartpole/random)."""
    noise: tuple[float, ...] = ()
    """Noise scales, as shares of each state's range (default: 0, 0.01 and 0.02)."""
    method: tuple[str, ...] = ()
    """What to run (default: all methods)."""
    where: Annotated[Workers, tyro.conf.arg(name="")] = field(default_factory=Workers)
    """Where the jobs run."""
    seed: int = 0
    """Seed of noise, splits and training."""
    cache: Path | None = None
    """Folder of the datasets (default: MULTISTEP_DATASETS, or the platform's cache folder)."""
    out: Path = Path("runs/methods")
    """Folder for rows and tables; a second run, with other datasets too, adds to what is there."""


@dataclass(frozen=True)
class MethodJob(AbstractJob):
    """Fit in one way on one split, score on its test episodes with and without the noise."""

    data: str
    """Name of the episodes without noise: a digest of their content."""
    dataset: str
    noise: float
    method: str
    recipe: AbstractRecipe | None
    """None: the true simulator."""
    fold: Fold
    seed: int
    score_horizon: int

    @property
    def work(self) -> float:
        return 10.0 if self.method == "automatic" else 3.0 if self.method == "smoothed" else 1.0

    def labels(self) -> Row:
        names = {"kind": "method", "dataset": self.dataset, "noise": self.noise, "method": self.method}
        return {**names, "data": self.data, "fold": self.fold.number, "recipe": plain(self.recipe)}

    def run(self, data: Episodes) -> Row:
        noisy = add_noise(data, self.noise, key=jax.random.key(self.seed)) if self.noise else data
        (train, valid, test), clean = self.fold.deal(noisy), data.take(self.fold.test)
        if self.recipe is None:
            scores = CATALOGUE[self.dataset].task.ceiling(test, horizon=self.score_horizon)
            return {"outcome": "finished", "reason": None, **score_fields(scores)}
        key = jax.random.fold_in(jax.random.key(self.seed), self.fold.number)
        fitted = self.recipe.fit(train, valid, key=key, score=R2Bar(VALIDATION_HORIZON))
        scores = score(fitted.model, test, horizon=self.score_horizon)
        without_noise = score(fitted.model, clean, horizon=self.score_horizon)
        parts = fitted.parts or {self.method: fitted}

        def row_of(part: Fit) -> Row:
            seconds = sum(epoch.seconds for epoch in part.history)
            r2bar, clean_r2bar = (
                score(part.model, each, horizon=self.score_horizon).r2bar() for each in (test, clean)
            )
            members = [
                score(member.model, test, horizon=self.score_horizon).r2bar()
                for member in part.parts.values()
            ]
            return {"r2bar": r2bar, "clean_r2bar": clean_r2bar, "fit_seconds": seconds, "members": members}

        return {
            "outcome": str(fitted.outcome),
            "reason": None,
            **score_fields(scores),
            "clean_r2bar": without_noise.r2bar(),
            "chosen": fitted.chosen,
            "judged": dict(fitted.judged),
            "notes": list(fitted.notes),
            "most_model_steps": self.recipe.most_steps(train),
            "fit_seconds": sum(epoch.seconds for part in parts.values() for epoch in part.history),
            "parts": {name: row_of(part) for name, part in fitted.parts.items()},
        }


def run_methods(
    config: MethodsConfig,
    command: str,
    methods: Methods,
    datasets: Sequence[Dataset],
    noises_of: Callable[[Dataset], Sequence[float]],
) -> list[Row]:
    """Run what is missing of these methods on these datasets, and return all rows in `config.out` that have a
    result, those of earlier commands too."""
    log = RowLog(config.out / ROWS)
    with log.writing():
        jobs, data = prepare(config, methods, datasets, noises_of)
        open_run(config.out, command, config)
        with config.where.connect() as client:
            sweep(jobs, data, log, client)
        return [row for row in log.read() if row["outcome"] != FAILED]


def prepare(
    config: MethodsConfig,
    methods: Methods,
    datasets: Sequence[Dataset],
    noises_of: Callable[[Dataset], Sequence[float]],
) -> tuple[list[MethodJob], dict[str, Episodes]]:
    """All jobs of the study, dataset by dataset, and the episodes that they need by their digest."""
    jobs: list[MethodJob] = []
    data: dict[str, Episodes] = {}
    for dataset in datasets:
        if cached(dataset, config.cache) is None:
            collect(dataset, config.cache)
        episodes, split = load_dataset(dataset.name, config.cache), dataset.split
        if config.scale == "smoke":
            split = (6, 2, 3)
            episodes = first_pieces(episodes.take(range(sum(split))), 60)
        num_folds = 3 if config.scale == "paper" else 1
        folds = deal_sized_folds(split, num_folds, key=jax.random.key(config.seed))
        name = episodes_digest(episodes)
        data[name] = episodes
        horizon = 20 if config.scale == "smoke" else 100
        for noise in config.noise or noises_of(dataset):
            jobs += [
                MethodJob(name, dataset.name, noise, method, recipe, fold, config.seed, horizon)
                for method, recipe in methods.items()
                for fold in folds
            ]
    # One split of everything first: a table is there long before the last row.
    return sorted(jobs, key=lambda job: job.fold.number), data


def chosen_methods(config: MethodsConfig, recipes: Mapping[str, AbstractRecipe]) -> Methods:
    """Those of the recipes and of the true simulator that the configuration names."""
    methods = {**recipes, "ceiling": None}
    if unknown := [name for name in config.method if name not in methods]:
        raise InputError(f"There is no method {unknown[0]}: name one of {', '.join(methods)}.")
    return {name: recipe for name, recipe in methods.items() if not config.method or name in config.method}


def in_shared_folds(rows: Sequence[Row]) -> list[Row]:
    """Of the rows of one dataset and noise those of the splits that every method has."""
    folds = [
        {row["fold"] for row in rows if row["method"] == method} for method in {r["method"] for r in rows}
    ]
    return [row for row in rows if all(row["fold"] in there for there in folds)]


def mean_of(rows: Sequence[Row], name: str) -> float | None:
    """The mean of what the rows have under this name; none if they have nothing."""
    values = [float(row[name]) for row in rows if row.get(name) is not None]  # "-inf" is a word in JSON
    return float(np.mean(values)) if values else None


def place_in_catalogue(cell: Row) -> tuple[int, float]:
    """To sort cells by: datasets as the catalogue has them, then by noise."""
    return list(CATALOGUE).index(cell["dataset"]), cell["noise"]
