"""`multistep reproduce automatic`: what `fit` does by itself beside its parts, a line, the paper's best and
the true simulator."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any

import jax
import numpy as np
import polars as pl
import tyro

from multistep.agents.collecting import collect
from multistep.data import Episodes, add_noise, episodes_digest, first_pieces
from multistep.errors import InputError
from multistep.evaluation import R2Bar, score
from multistep.losses import Uniform
from multistep.runs.provenance import plain
from multistep.runs.row_log import Row, RowLog
from multistep.runs.run_folder import check_study, open_run, write_run
from multistep.runs.sweep import FAILED, AbstractJob, sweep
from multistep.runs.workers import Workers
from multistep.selection.automatic import Automatic
from multistep.selection.fit import VALIDATION_HORIZON
from multistep.selection.fit_job import score_fields
from multistep.selection.folds import Fold, deal_sized_folds
from multistep.studies.scales import Scale
from multistep.studies.static import chosen_datasets
from multistep.studies.static_tables import paper_cells
from multistep.tasks.cache import cached, load_dataset
from multistep.tasks.catalogue import CATALOGUE, Dataset
from multistep.training import DEFAULT, PAPER, SMOOTHED, AbstractRecipe, Fit, LeastSquares, Smoothed

ROWS = "fits.jsonl"
COMMAND = "reproduce automatic"
NOISES = (0.0, 0.01, 0.02)
MORE_NOISE = {"cartpole/random": (0.05,), "swimmer/random": (0.05,)}
ONE_STEP = replace(PAPER, horizon=1, weights=Uniform())
METHODS: dict[Scale, dict[str, AbstractRecipe]] = {
    "paper": {
        "linear": LeastSquares(),
        "one_step": ONE_STEP,
        "smoothed": SMOOTHED,
        "automatic": Automatic(),
    },
    "smoke": {
        "linear": LeastSquares(),
        "one_step": replace(ONE_STEP, epochs=1),
        "smoothed": Smoothed.of(DEFAULT.vary(horizon=5, epochs=1, least_steps=1)),
        "automatic": Automatic(horizon=5, budget="50k", without=("small",)),
    },
}
METHODS["quick"] = METHODS["paper"]


@dataclass(frozen=True)
class AutomaticConfig:
    """R2bar(100) of the automatic recipe and of what it has to beat, by dataset and noise."""

    scale: Scale = "smoke"
    """smoke: a minute; quick: one split of each dataset; paper: three, hours on two cores."""
    dataset: tuple[str, ...] = ()
    """Datasets of the catalogue (default: all that are present; smoke: cartpole/random)."""
    noise: tuple[float, ...] = ()
    """Noise scales, as shares of each state's range (default: 0, 0.01 and 0.02, for the random ones of
    Cartpole and Swimmer 0.05 too)."""
    method: tuple[str, ...] = ()
    """What to run: linear, one_step, smoothed, automatic, ceiling (default: all of them)."""
    where: Annotated[Workers, tyro.conf.arg(name="")] = field(default_factory=Workers)
    """Where the jobs run."""
    seed: int = 0
    """Seed of noise, splits and training."""
    cache: Path | None = None
    """Folder of the datasets (default: MULTISTEP_DATASETS, or the platform's cache folder)."""
    out: Path = Path("runs/automatic")
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


def run_automatic(config: AutomaticConfig) -> dict[str, Any]:
    """Run what is missing, leave rows and tables in `config.out` and return the summary."""
    datasets = chosen_datasets(config)
    check_study(config.out, COMMAND, scale=config.scale, seed=config.seed)
    log = RowLog(config.out / ROWS)
    with log.writing():
        jobs, data = prepare(config, datasets)
        open_run(config.out, COMMAND, config)
        with config.where.connect() as client:
            sweep(jobs, data, log, client)
        return write_table(config)


def write_table(config: AutomaticConfig) -> dict[str, Any]:
    """The table of all rows in the folder, and what it says."""
    rows = [row for row in RowLog(config.out / ROWS).read() if row["outcome"] != FAILED]
    table = cell_rows(rows)
    short = [row for row in table if row["below_best_part"] is not None and row["below_best_part"] > 0.005]
    summary = {
        "scale": config.scale,
        "cells": len(table),
        "cells_below_the_best_of_its_parts_by_more_than_0.005": len(short),
        "where": [f"{row['dataset']}, noise {row['noise']:g}: {row['below_best_part']:.3f}" for row in short],
    }
    write_run(config.out, COMMAND, config, table, summary)
    return summary


def cell_rows(rows: Sequence[Row]) -> list[Row]:
    """One row per dataset and noise: the mean of every method over the splits that all of them have, beside
    the paper's best."""
    paper = paper_cells()
    cells = dict.fromkeys((row["dataset"], row["noise"]) for row in rows)
    table: list[Row] = []
    for dataset, noise in cells:
        own = [row for row in rows if (row["dataset"], row["noise"]) == (dataset, noise)]
        folds = {method: {row["fold"] for row in own if row["method"] == method} for method in _methods(own)}
        own = [row for row in own if all(row["fold"] in there for there in folds.values())]
        theirs = paper.filter((pl.col("dataset") == dataset) & (pl.col("noise") == noise))
        cell: Row = {"dataset": dataset, "noise": noise, "splits": len({row["fold"] for row in own})}
        for method in ("linear", "one_step", "once", "smoothed", "automatic", "ceiling"):
            mine = [row for row in own if row["method"] == method]
            if method == "once":  # the first half of the other: nothing of it is run twice
                mine = [row["parts"]["measured"] for row in own if row["method"] == "smoothed"]
            cell[method] = _mean(mine, "r2bar")
            cell[f"{method}_clean"] = _mean(mine, "clean_r2bar")
            cell[f"{method}_seconds"] = _mean(mine, "fit_seconds")
            cell[f"{method}_most_model_steps"] = _mean(mine, "most_model_steps")
        best: Any = theirs["paper"].max() if len(theirs) else None
        cell["paper_best"] = best
        beaten = [cell[name] for name in ("one_step", "once", "smoothed", "linear") if cell[name] is not None]
        known = cell["automatic"] is not None and beaten
        cell["below_best_part"] = max(beaten) - cell["automatic"] if known else None
        table.append(cell)
    return sorted(table, key=lambda cell: (list(CATALOGUE).index(cell["dataset"]), cell["noise"]))


def prepare(
    config: AutomaticConfig, datasets: Sequence[Dataset]
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
        methods = chosen_methods(config)
        for noise in config.noise or (*NOISES, *MORE_NOISE.get(dataset.name, ())):
            jobs += [
                MethodJob(name, dataset.name, noise, method, recipe, fold, config.seed, horizon)
                for method, recipe in methods.items()
                for fold in folds
            ]
    # One split of everything first: a table is there long before the last row.
    return sorted(jobs, key=lambda job: job.fold.number), data


def chosen_methods(config: AutomaticConfig) -> dict[str, AbstractRecipe | None]:
    """The recipes to run by name; the true simulator has none."""
    methods = {**METHODS[config.scale], "ceiling": None}
    if unknown := [name for name in config.method if name not in methods]:
        raise InputError(f"There is no method {unknown[0]}: name one of {', '.join(methods)}.")
    return {name: recipe for name, recipe in methods.items() if not config.method or name in config.method}


def _methods(rows: Sequence[Row]) -> set[str]:
    return {row["method"] for row in rows}


def _mean(rows: Sequence[Row], name: str) -> float | None:
    values = [row[name] for row in rows if row.get(name) is not None]
    return float(np.mean(values)) if values else None
