"""`multistep reproduce rivals`: the other ways to train for many steps ahead, beside ours, at equal model
steps."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from multistep.dynamics import DirectConfig
from multistep.errors import InputError
from multistep.losses import Exponential, HallucinatedReplay, Noisy, ScheduledSampling, Uniform
from multistep.runs.row_log import Row
from multistep.runs.run_folder import check_study, write_run
from multistep.selection.validated import Validated
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
from multistep.tasks.catalogue import Dataset
from multistep.training import PAPER, AbstractRecipe, Aggregated, Counted, Once, Scheduled

COMMAND = "reproduce rivals"
DATASETS = ("cartpole/random", "swimmer/random", "halfcheetah/random")
NOISES = (0.0, 0.01, 0.02)
MODEL_STEPS: dict[Scale, int] = {"smoke": 10_000, "quick": 2_000_000, "paper": 8_000_000}
HORIZON = 10
"""Of the rivals' rollouts in training, and of the direct model."""
ROUNDS = 3
"""Of data as demonstrator."""
OURS = ("paper", "multistep")


def recipes(model_steps: int) -> dict[str, AbstractRecipe]:
    """All of them by name, each of about so many model steps.

    One network, batch size and learning rate serve all but the paper's, which has its own network.
    """
    length = Counted(model_steps)
    one_step = Once(horizon=1, weights=Uniform(), curriculum=length)
    uniform = replace(one_step, horizon=HORIZON)
    round_length = Counted(max(1, model_steps // (ROUNDS + 1)))
    return {
        "one_step": Validated(one_step, 1),
        "validated": Validated(one_step),
        "noisy": replace(one_step, loss=Noisy()),
        "aggregated": Aggregated(replace(one_step, curriculum=round_length), ROUNDS),
        "hallucinated": replace(uniform, loss=HallucinatedReplay()),
        "scheduled": replace(uniform, loss=ScheduledSampling(), curriculum=Scheduled(length)),
        "direct": replace(uniform, network=DirectConfig(HORIZON)),
        "uniform": uniform,
        "paper": replace(PAPER, horizon=HORIZON, weights=Exponential(0.75), curriculum=length),
        "multistep": Once(curriculum=length),
    }


@dataclass(frozen=True)
class RivalsConfig(MethodsConfig):
    """R2(1) and R2bar(100) of rival trainings and of ours at equal model steps, by dataset and noise."""

    scale: Scale = "smoke"
    """smoke: a minute; quick: one split of each dataset, 2 million model steps; paper: three splits, 8
    million."""
    dataset: tuple[str, ...] = ()
    """Datasets of the catalogue (default: those of the random policy; smoke: cartpole/random)."""
    method: tuple[str, ...] = ()
    """What to run: one_step, validated, noisy, aggregated, hallucinated, scheduled, direct, uniform, paper,
    multistep, ceiling (default: all of them)."""
    model_steps: int | None = None
    """Model steps of each training (default: those of the scale)."""
    out: Path = Path("runs/rivals")
    """Folder for rows, table and figure; a second run, with other datasets too, adds to what is there."""


def run_rivals(config: RivalsConfig) -> dict[str, Any]:
    """Run what is missing, leave rows and tables in `config.out` and return the summary."""
    if config.model_steps is not None and config.model_steps < 1:
        raise InputError(f"Trainings of {config.model_steps} model steps: they take 1 or more.")
    known = config.dataset or (() if config.scale == "smoke" else DATASETS)
    datasets = chosen_datasets(replace(config, dataset=known))
    same = {"scale": config.scale, "seed": config.seed, "model_steps": config.model_steps}
    check_study(config.out, COMMAND, **same)
    methods = chosen_methods(config, recipes(config.model_steps or MODEL_STEPS[config.scale]))
    return write_table(config, run_methods(config, COMMAND, methods, datasets, noises_of))


def noises_of(dataset: Dataset) -> tuple[float, ...]:
    """Scales of noise of the study."""
    return NOISES


def write_table(config: RivalsConfig, rows: Sequence[Row]) -> dict[str, Any]:
    """The table of these rows, and who is ahead where."""
    table = cell_rows(rows)
    steps = [cell["model_steps"] for cell in table if cell["model_steps"] is not None]
    summary = {
        "scale": config.scale,
        "fewest_model_steps": min(steps, default=None),
        "most_model_steps": max(steps, default=None),
        "cells": verdicts(rows),
    }
    write_run(config.out, COMMAND, config, table, summary)
    return summary


def cell_rows(rows: Sequence[Row]) -> list[Row]:
    """One row per dataset, noise and method: means over the splits that all methods of the cell have."""
    table: list[Row] = []
    for (dataset, noise), own in cells_of(rows).items():
        for method in dict.fromkeys(row["method"] for row in own):
            mine = [row for row in own if row["method"] == method]
            values = [float(row["r2bar"]) for row in mine]
            table.append(
                {
                    "dataset": dataset,
                    "noise": noise,
                    "method": method,
                    "splits": len(mine),
                    "r2_1": mean_of([{"first": row["r2"][0]} for row in mine], "first"),
                    "r2bar": mean_of(mine, "r2bar"),
                    "lowest": min(values),
                    "highest": max(values),
                    "clean_r2bar": mean_of(mine, "clean_r2bar"),
                    "seconds": mean_of(mine, "fit_seconds"),
                    "model_steps": mean_of(mine, "most_model_steps"),
                }
            )
    return sorted(table, key=place_in_catalogue)


def verdicts(rows: Sequence[Row]) -> list[Row]:
    """For each dataset and noise the best of the rivals, the better of ours by its mean, and in how many
    splits that is ahead of it."""
    found: list[Row] = []
    for (dataset, noise), own in cells_of(rows).items():
        scores = {
            method: {row["fold"]: float(row["r2bar"]) for row in own if row["method"] == method}
            for method in dict.fromkeys(row["method"] for row in own)
        }
        means = {method: sum(values.values()) / len(values) for method, values in scores.items() if values}
        ours = max((method for method in OURS if method in means), key=means.__getitem__, default=None)
        others = [method for method in means if method not in (*OURS, "ceiling")]
        rival = max(others, key=means.__getitem__, default=None)
        if ours is None or rival is None:
            continue
        found.append(
            {
                "dataset": dataset,
                "noise": noise,
                "ours": ours,
                "rival": rival,
                "ours_r2bar": means[ours],
                "rival_r2bar": means[rival],
                "splits": len(scores[ours]),
                "splits_ahead": sum(scores[ours][fold] > scores[rival][fold] for fold in scores[ours]),
            }
        )
    return sorted(found, key=place_in_catalogue)


def cells_of(rows: Sequence[Row]) -> dict[tuple[str, float], list[Row]]:
    """The rows of each dataset and noise, of the splits that all methods have there."""
    places = dict.fromkeys((row["dataset"], row["noise"]) for row in rows)
    return {
        place: in_shared_folds([row for row in rows if (row["dataset"], row["noise"]) == place])
        for place in places
    }
