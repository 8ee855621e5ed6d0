"""`multistep bench quality`: model steps to a given score, of the automatic recipe and of one fit."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import jax
import numpy as np
import tyro

from multistep.data import Episodes, episodes_digest, first_pieces
from multistep.runs.row_log import Row, RowLog
from multistep.runs.run_folder import open_run, write_run
from multistep.runs.sweep import FAILED, AbstractJob, sweep
from multistep.runs.workers import Workers
from multistep.selection.automatic import Automatic
from multistep.selection.folds import deal_sized_folds
from multistep.studies.methods import MethodJob
from multistep.tasks.cache import load_dataset
from multistep.tasks.catalogue import find_dataset
from multistep.training import DEFAULT, AbstractRecipe

COMMAND = "bench quality"


@dataclass(frozen=True)
class QualityBenchConfig:
    """R2bar(100) of the automatic recipe by its budget, beside one fit with a fixed horizon of 40."""

    dataset: str = "cartpole/random"
    """A dataset of the paper."""
    noise: float = 0.02
    """Noise scale, as a share of each state's range."""
    budgets: tuple[str, ...] = ("1M", "2M", "4M", "8M", "16M")
    """Budgets of the automatic recipe: model steps, or times as 60s."""
    target: float = 0.93
    """The score to reach."""
    epochs: int = DEFAULT.epochs
    """Passes over all windows of the one fit."""
    least_steps: int = DEFAULT.least_steps
    """Gradient steps of the one fit at least."""
    splits: int = 3
    """Ways to deal the episodes into training, validation and test."""
    steps: int | None = None
    """Steps that episodes are cut to (default: all)."""
    score_horizon: int = 100
    """Steps ahead to score."""
    seed: int = 0
    """Seed of noise, splits and training."""
    where: Annotated[Workers, tyro.conf.arg(name="")] = field(default_factory=Workers)
    """Where the jobs run."""
    cache: Path | None = None
    """Folder of the datasets (default: MULTISTEP_DATASETS, or the platform's cache folder)."""
    out: Path = Path("runs/bench-quality")
    """Folder for the results; the same command goes on where it was stopped."""


def run_quality_bench(config: QualityBenchConfig) -> dict[str, Any]:
    """Fit with every budget, leave a row for each in `config.out` and return where the target is reached."""
    episodes: Episodes = load_dataset(config.dataset, config.cache)
    if config.steps is not None:
        episodes = first_pieces(episodes, config.steps)
    folds = deal_sized_folds(
        find_dataset(config.dataset).split, config.splits, key=jax.random.key(config.seed)
    )
    recipes: dict[str, AbstractRecipe] = {
        "once": DEFAULT.vary(epochs=config.epochs, least_steps=config.least_steps)
    }
    recipes |= {f"automatic {budget}": Automatic(budget=budget) for budget in config.budgets}
    name = episodes_digest(episodes)
    jobs: list[AbstractJob] = [
        MethodJob(name, config.dataset, config.noise, method, recipe, fold, config.seed, config.score_horizon)
        for method, recipe in recipes.items()
        for fold in folds
    ]
    log = RowLog(config.out / "fits.jsonl")
    with log.writing():
        log.forget(FAILED)  # what failed is tried again
        open_run(config.out, COMMAND, config)
        with config.where.connect() as client:
            rows = sweep(jobs, {name: episodes}, log, client)
    table = [_mean_row(method, [row for row in rows if row["method"] == method]) for method in recipes]
    reached = [row["most_model_steps"] for row in table[1:] if row["r2bar"] >= config.target]
    summary = {
        "target": config.target,
        "model_steps_of_once": table[0]["most_model_steps"],
        "model_steps_to_target": min(reached, default=None),
        "share_of_once": min(reached) / table[0]["most_model_steps"] if reached else None,
        **{row["method"]: row["r2bar"] for row in table},
    }
    write_run(config.out, COMMAND, config, table, summary)
    return summary


def _mean_row(method: str, rows: list[Row]) -> Row:
    names = ("r2bar", "clean_r2bar", "most_model_steps", "fit_seconds", "seconds")
    return {"method": method, "splits": len(rows)} | {
        name: float(np.mean([row[name] for row in rows])) for name in names
    }
