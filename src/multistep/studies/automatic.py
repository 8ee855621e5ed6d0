"""`multistep reproduce automatic`: what `fit` does by itself beside its parts, a line, the paper's best and
the true simulator."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import polars as pl

from multistep.losses import Uniform
from multistep.runs.row_log import Row
from multistep.runs.run_folder import check_study, write_run
from multistep.selection.automatic import Automatic
from multistep.studies.methods import (
    MethodsConfig,
    chosen_methods,
    in_shared_folds,
    mean_of,
    place_in_catalogue,
    run_methods,
)
from multistep.studies.scales import Scale
from multistep.studies.static import chosen_datasets
from multistep.studies.static_tables import paper_cells
from multistep.tasks.catalogue import Dataset
from multistep.training import DEFAULT, PAPER, SMOOTHED, AbstractRecipe, LeastSquares, Smoothed

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
        "automatic": Automatic(horizon=5, budget="50k", without=("small", "calibration")),
    },
}
METHODS["quick"] = METHODS["paper"]


@dataclass(frozen=True)
class AutomaticConfig(MethodsConfig):
    """R2bar(100) of the automatic recipe and of what it has to beat, by dataset and noise."""

    scale: Scale = "smoke"
    """smoke: a minute; quick: one split of each dataset; paper: three, hours on two cores."""
    noise: tuple[float, ...] = ()
    """Noise scales, as shares of each state's range (default: 0, 0.01 and 0.02, for the random ones of
    Cartpole and Swimmer 0.05 too)."""
    method: tuple[str, ...] = ()
    """What to run: linear, one_step, smoothed, automatic, ceiling (default: all of them)."""
    out: Path = Path("runs/automatic")
    """Folder for rows and tables; a second run, with other datasets too, adds to what is there."""


def run_automatic(config: AutomaticConfig) -> dict[str, Any]:
    """Run what is missing, leave rows and tables in `config.out` and return the summary."""
    datasets = chosen_datasets(config)
    check_study(config.out, COMMAND, scale=config.scale, seed=config.seed)
    methods = chosen_methods(config, METHODS[config.scale])
    return write_table(config, run_methods(config, COMMAND, methods, datasets, noises_of))


def noises_of(dataset: Dataset) -> tuple[float, ...]:
    """Scales of noise of the study."""
    return (*NOISES, *MORE_NOISE.get(dataset.name, ()))


def write_table(config: AutomaticConfig, rows: Sequence[Row]) -> dict[str, Any]:
    """The table of these rows, and what it says."""
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
        own = in_shared_folds(own)
        theirs = paper.filter((pl.col("dataset") == dataset) & (pl.col("noise") == noise))
        cell: Row = {"dataset": dataset, "noise": noise, "splits": len({row["fold"] for row in own})}
        for method in ("linear", "one_step", "once", "smoothed", "automatic", "ceiling"):
            mine = [row for row in own if row["method"] == method]
            if method == "once":  # the first half of the other: nothing of it is run twice
                mine = [row["parts"]["measured"] for row in own if row["method"] == "smoothed"]
            cell[method] = mean_of(mine, "r2bar")
            cell[f"{method}_clean"] = mean_of(mine, "clean_r2bar")
            cell[f"{method}_seconds"] = mean_of(mine, "fit_seconds")
            cell[f"{method}_most_model_steps"] = mean_of(mine, "most_model_steps")
        best: Any = theirs["paper"].max() if len(theirs) else None
        cell["paper_best"] = best
        beaten = [cell[name] for name in ("one_step", "once", "smoothed", "linear") if cell[name] is not None]
        known = cell["automatic"] is not None and beaten
        cell["below_best_part"] = max(beaten) - cell["automatic"] if known else None
        table.append(cell)
    return sorted(table, key=place_in_catalogue)
