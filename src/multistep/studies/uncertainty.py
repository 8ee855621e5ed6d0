"""`multistep reproduce uncertainty`: do intervals hold what they promise? Several ways to make them, on the
same splits of noisy episodes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import tyro

from multistep.agents.collecting import collect
from multistep.data import Episodes, add_noise, cut, episodes_digest, first_pieces, load, unit_of
from multistep.dynamics import GaussianConfig, MemoryModel, Model, Uncertainty
from multistep.dynamics.particles import Members
from multistep.dynamics.uncertainty import normal_scales
from multistep.errors import InputError
from multistep.evaluation import R2Bar, score
from multistep.evaluation.calibration import calibration
from multistep.losses import Likelihood, Uniform
from multistep.runs.provenance import plain
from multistep.runs.row_log import Row, RowLog
from multistep.runs.run_folder import check_study, open_run, write_run
from multistep.runs.sweep import FAILED, AbstractJob, sweep
from multistep.runs.workers import Workers
from multistep.selection.automatic import Automatic
from multistep.selection.calibrated import calibrate
from multistep.selection.fit import VALIDATION_HORIZON
from multistep.selection.folds import Fold, deal_sized_folds
from multistep.studies.scales import Scale
from multistep.tasks.cache import cached, load_dataset
from multistep.tasks.catalogue import CATALOGUE
from multistep.training import AbstractRecipe, Once
from multistep.types import Key

ROWS = "fits.jsonl"
COMMAND = "reproduce uncertainty"
DATASETS = ("cartpole/random", "swimmer/random", "halfcheetah/random")
NOISES = (0.0, 0.01, 0.02)
RECORDINGS = ("ddp", "energy_shaping", "pd_failure", "sac")
"""Of a pendulum on a test bench, by others: `simple_pendulum` in the folder of `--data`."""
PIECES = 200
"""Steps that they are cut into: 0.4 to 1 second."""
SHARES = (0.7, 0.1, 0.2)
SHOWN = (1, 10, 50, 100)
"""Steps ahead that rows have coverage of."""
ENDS = {"coverage_90": (0.87, 0.93), "coverage_50": (0.45, 0.55)}
ENDS_RECORDED = {"coverage_90": (0.8, 0.95)}
"""What intervals may hold to count as honest, on simulated episodes and on recordings."""
WAYS = ("gaussian", "fixed", "ensemble", "particles", "scaled")
"""How intervals are made: by one model that learned the deviation of its step, by one deviation for each
horizon, by members alone, by particles, by particles and scales."""
GAUSSIAN = Once(
    horizon=2, weights=Uniform(), loss=Likelihood(), network=GaussianConfig(rollouts="sampled"), epochs=5
)
"""One model that learns the deviation of its step by the likelihood of drawn rollouts, as in the appendix."""
RECIPES: dict[Scale, dict[str, AbstractRecipe]] = {
    "smoke": {
        "gaussian": replace(GAUSSIAN, epochs=1, least_steps=1),
        "automatic": Automatic(4, budget="40k", without=("small", "calibration")),
    },
    "quick": {"gaussian": GAUSSIAN, "automatic": Automatic(budget="3M", without=("calibration",))},
    "paper": {"gaussian": GAUSSIAN, "automatic": Automatic(without=("calibration",))},
}
"""What intervals are made of; each way calibrates by itself, or not."""


@dataclass(frozen=True)
class UncertaintyConfig:
    """Coverage of 50 and 90 % intervals and proper scores, by the way they are made."""

    scale: Scale = "smoke"
    """smoke: a minute; quick: one split, small budgets; paper: three splits and the default's training."""
    dataset: tuple[str, ...] = ()
    """Datasets of the catalogue (default: the three of a random policy; smoke: cartpole/random)."""
    noise: tuple[float, ...] = ()
    """Noise scales, as shares of each state's range (default: 0, 0.01 and 0.02)."""
    data: Path | None = None
    """A folder with recordings of a real pendulum, simple_pendulum/*.csv, to go through too."""
    where: Annotated[Workers, tyro.conf.arg(name="")] = field(default_factory=Workers)
    """Where the jobs run."""
    seed: int = 0
    """Seed of noise, splits and training."""
    cache: Path | None = None
    """Folder of the datasets (default: MULTISTEP_DATASETS, or the platform's cache folder)."""
    out: Path = Path("runs/uncertainty")
    """Folder for rows, table and figure; a second run, with other datasets too, adds to what is there."""


@dataclass(frozen=True)
class IntervalsJob(AbstractJob):
    """Fit on one split, make intervals in every way, see how many of the test's measurements they hold."""

    data: str
    dataset: str
    noise: float
    recipe: Mapping[str, AbstractRecipe]
    fold: Fold
    seed: int
    horizon: int

    @property
    def work(self) -> float:
        return 1.0

    def labels(self) -> Row:
        names = {"kind": "intervals", "dataset": self.dataset, "noise": self.noise, "data": self.data}
        return {
            **names,
            "fold": self.fold.number,
            "recipe": {name: plain(recipe) for name, recipe in self.recipe.items()},
        }

    def run(self, data: Episodes) -> Row:
        noisy = add_noise(data, self.noise, key=jax.random.key(self.seed)) if self.noise else data
        train, valid, test = self.fold.deal(noisy)
        key = jax.random.fold_in(jax.random.key(self.seed), self.fold.number)
        horizon = min(self.horizon, int(test.lengths.max()) // 2)
        fits = {
            name: recipe.fit(train, valid, key=key, score=R2Bar(VALIDATION_HORIZON))
            for name, recipe in self.recipe.items()
        }
        views = views_of(fits["automatic"].model, train, valid, key=key)
        gaussian = fits["gaussian"].model
        views["gaussian"] = View(gaussian, _silent(train.state_size, horizon, 1))
        return {
            "outcome": str(fits["automatic"].outcome),
            "reason": None,
            "chosen": fits["automatic"].chosen,
            "fit_seconds": {name: sum(epoch.seconds for epoch in fit.history) for name, fit in fits.items()},
            "ways": {name: intervals_of(view, test, horizon) for name, view in views.items()},
        }


class View(NamedTuple):
    """A model, and one way of telling how far it may be off."""

    model: Model | MemoryModel
    known: Uncertainty
    members: Members = "kept"


def views_of(model: Model | MemoryModel, train: Episodes, valid: Episodes, *, key: Key) -> dict[str, View]:
    """Every way for this model: one deviation for each horizon, that of its errors on the validation
    episodes; its members alone; with the noise on the start and on the steps; that times the scales."""
    scaled = calibrate(model, train, valid, key=key).uncertainty
    first = calibrate(model, train, None, key=key).uncertainty
    assert scaled is not None
    assert first is not None
    steps = min(len(scaled.rest), int(valid.lengths.max()) - model.num_past + 1)
    errors = score(model, valid, horizon=steps).rmse
    assert errors is not None
    silent = _silent(train.state_size, steps, model.num_past)
    fixed = jnp.asarray(np.where(np.isfinite(errors), errors, 0), float)
    return {
        "fixed": View(model, replace(silent, rest=fixed), "mean"),
        "ensemble": View(model, silent),
        "particles": View(model, first),
        "scaled": View(model, scaled),
    }


def _silent(state_size: int, steps: int, num_past: int) -> Uncertainty:
    """Of a model that takes its start for exact, and its steps too unless it has learned otherwise."""
    nothing = jnp.zeros(state_size)
    rest, scales = jnp.zeros((steps, state_size)), normal_scales(steps, state_size)
    return Uncertainty(nothing, nothing, rest, scales, jnp.zeros(()), 0, num_past)


def intervals_of(view: View, test: Episodes, horizon: int) -> Row:
    """What a row says of one way."""
    model, known, members = view
    found = calibration(model, known, test, horizon=horizon, key=jax.random.key(1), members=members)
    shown = [steps for steps in SHOWN if steps <= horizon]
    coverage = {
        f"coverage_{round(100 * share)}": {str(steps): float(values[steps - 1].mean()) for steps in shown}
        for share, values in found.coverage.items()
    }
    return {
        **coverage,
        "crps": float((found.crps / unit_of(test.states)[None]).mean()),
        "r2bar": float(found.r2.mean()),
        "log_likelihood": float(found.log_likelihood.mean()),
    }


def run_uncertainty(config: UncertaintyConfig) -> dict[str, Any]:
    """Run what is missing, leave rows and table in `config.out` and return the summary."""
    _chosen(config)  # what cannot be is said before anything is written
    check_study(config.out, COMMAND, scale=config.scale, seed=config.seed)
    log = RowLog(config.out / ROWS)
    with log.writing():
        jobs, data = prepare(config)
        open_run(config.out, COMMAND, config)
        with config.where.connect() as client:
            sweep(jobs, data, log, client)
        table = table_of([row for row in log.read() if row["outcome"] != FAILED])
        summary = {"scale": config.scale, **_summary(table)}
        write_run(config.out, COMMAND, config, table, summary)
        return summary


def table_of(rows: Sequence[Row]) -> list[Row]:
    """A row for each dataset, noise and way: the mean over the splits."""
    cells = sorted({(row["dataset"], row["noise"]) for row in rows}, key=str)
    table: list[Row] = []
    for dataset, noise in cells:
        own = [row["ways"] for row in rows if (row["dataset"], row["noise"]) == (dataset, noise)]
        for way in WAYS:
            found = [ways[way] for ways in own if way in ways]
            if found:
                names = {"dataset": dataset, "noise": noise, "way": way, "splits": len(found)}
                table.append({**names, **_means(found)})
    return table


def _means(found: Sequence[Row]) -> Row:
    scores = ("crps", "r2bar", "log_likelihood")
    plain_ones = {name: float(np.mean([float(row[name]) for row in found])) for name in scores}
    steps = [str(h) for h in SHOWN if all(str(h) in row["coverage_90"] for row in found)]
    covered = {
        f"{share}_at_{h}": float(np.mean([row[share][h] for row in found]))
        for share in ("coverage_90", "coverage_50")
        for h in steps
    }
    return {**plain_ones, **covered}


def _summary(table: Sequence[Row]) -> dict[str, Any]:
    """Of each way, in how many cells its intervals hold what they promise at all horizons that are shown."""

    def is_honest(row: Row) -> bool:
        named = {name: value for name, value in row.items() if name.startswith("coverage")}
        ends = ENDS_RECORDED if row["dataset"].startswith("pendulum/") else ENDS
        return all(
            low <= named[name] <= high
            for share, (low, high) in ends.items()
            for name in named
            if name.startswith(share)
        )

    ways = {way: [row for row in table if row["way"] == way] for way in WAYS}
    return {
        "cells": len({(row["dataset"], row["noise"]) for row in table}),
        "cells_covered": {way: sum(map(is_honest, rows)) for way, rows in ways.items() if rows},
        "crps": {way: float(np.mean([row["crps"] for row in rows])) for way, rows in ways.items() if rows},
    }


def prepare(config: UncertaintyConfig) -> tuple[list[IntervalsJob], dict[str, Episodes]]:
    """All jobs of the study, and the episodes that they need by their digest."""
    found = [(name, *_episodes_of(name, config)) for name in _chosen(config)]
    if config.data is not None:
        found += [(f"pendulum/{name}", *_recording(config.data, name)) for name in RECORDINGS]
    jobs: list[IntervalsJob] = []
    data: dict[str, Episodes] = {}
    for name, episodes, sizes in found:
        digest = episodes_digest(episodes)
        data[digest] = episodes
        splits = 3 if config.scale == "paper" else 1
        horizon = 10 if config.scale == "smoke" else SHOWN[-1]
        is_recorded = name.startswith("pendulum/")
        for fold in deal_sized_folds(sizes, splits, key=jax.random.key(config.seed)):
            for noise in (0.0,) if is_recorded else config.noise or NOISES:
                recipe = RECIPES[config.scale]
                jobs.append(IntervalsJob(digest, name, noise, recipe, fold, config.seed, horizon))
    return sorted(jobs, key=lambda job: job.fold.number), data


def _chosen(config: UncertaintyConfig) -> tuple[str, ...]:
    usual = ("cartpole/random",) if config.scale == "smoke" else DATASETS
    if unknown := [name for name in config.dataset if name not in CATALOGUE]:
        raise InputError(f"There is no dataset {unknown[0]}: name one of {', '.join(CATALOGUE)}.")
    return config.dataset or usual


def _episodes_of(name: str, config: UncertaintyConfig) -> tuple[Episodes, tuple[int, int, int]]:
    dataset = CATALOGUE[name]
    if cached(dataset, config.cache) is None:
        collect(dataset, config.cache)
    episodes = load_dataset(name, config.cache)
    if config.scale == "smoke":
        return first_pieces(episodes.take(range(16)), 60), (6, 4, 6)
    return episodes, dataset.split


def _recording(folder: Path, name: str) -> tuple[Episodes, tuple[int, int, int]]:
    file = folder / "simple_pendulum" / f"{name}.csv"
    record = load(str(file), states=["position", "velocity"], actions=["torque"], time="time")
    pieces = cut(record, PIECES)
    num_valid, num_test = (max(4, round(share * len(pieces))) for share in SHARES[1:])
    return pieces, (len(pieces) - num_valid - num_test, num_valid, num_test)
