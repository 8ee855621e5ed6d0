"""`multistep bench smoothing`: what a second fit to smoothed episodes gains, and what noise it finds."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import jax
import numpy as np
import tyro
from jaxtyping import Float
from numpy import ndarray

from multistep.data import Episodes, add_noise, episodes_digest
from multistep.errors import InputError
from multistep.evaluation import score
from multistep.runs.row_log import Row, RowLog
from multistep.runs.run_folder import open_run, write_run
from multistep.runs.sweep import FAILED, AbstractJob, sweep
from multistep.runs.workers import Workers
from multistep.selection.fit import fit
from multistep.selection.folds import Fold, deal_sized_folds
from multistep.tasks.cache import load_dataset
from multistep.tasks.catalogue import find_dataset
from multistep.training import DEFAULT, Smoothed, smooth

COMMAND = "bench smoothing"
SCORE_HORIZON = 100


@dataclass(frozen=True)
class SmoothingBenchConfig:
    """A fit to noisy episodes beside one to the same episodes smoothed, both scored with and without the
    noise."""

    dataset: tuple[str, ...] = ("cartpole/random", "cartpole/mixed_replay", "swimmer/random")
    """Datasets of the paper."""
    noise: tuple[float, ...] = (0.01, 0.02)
    """Noise scales, as shares of each state's range."""
    horizon: int = DEFAULT.horizon
    """Horizon of the first fit; the second has half of it, but not below 20."""
    least_steps: int = DEFAULT.least_steps
    """Gradient steps of each fit at least."""
    epochs: int = DEFAULT.epochs
    """Passes over all windows."""
    seed: int = 0
    """Seed of noise, split and training."""
    where: Annotated[Workers, tyro.conf.arg(name="")] = field(default_factory=Workers)
    """Where the jobs run."""
    cache: Path | None = None
    """Folder of the datasets (default: MULTISTEP_DATASETS, or the platform's cache folder)."""
    out: Path = Path("runs/bench-smoothing")
    """Folder for the results; the same command goes on where it was stopped."""


class Pair(NamedTuple):
    """Episodes with noise and without."""

    noisy: Episodes
    noiseless: Episodes


@dataclass(frozen=True)
class SmoothingJob(AbstractJob):
    """Both fits to one dataset with one scale of noise. Its data are a `Pair`."""

    data: str
    dataset: str
    noise: float
    config: Smoothed
    fold: Fold
    seed: int

    @property
    def work(self) -> float:
        return 1.0

    def labels(self) -> Row:
        return {"dataset": self.dataset, "noise": self.noise, "seed": self.seed}

    def run(self, data: Pair) -> Row:
        train, valid, test = self.fold.deal(data.noisy)
        clean_train, _, clean_test = self.fold.deal(data.noiseless)
        fitted = fit(train, valid, self.config, key=jax.random.key(self.seed))
        if fitted.observer is None or "smoothed" not in fitted.parts:
            return {"outcome": "not fitted again", "reason": " ".join(fitted.notes)}
        models = {"measured": fitted.observer.model, "smoothed": fitted.parts["smoothed"].model}
        tests = {"noisy": test, "noiseless": clean_test}
        scores = {
            f"{name}_r2bar_{what}": score(model, episodes, horizon=SCORE_HORIZON).r2bar()
            for what, episodes in tests.items()
            for name, model in models.items()
        }
        added = self.noise * np.ptp(data.noiseless.states, axis=0).astype(np.float64)
        found = np.asarray(fitted.observer.measurement_noise, np.float64) / added
        error = smooth(fitted.observer, train).states.astype(np.float64) - clean_train.states
        noise = {
            "noise_found_low": found.min(),
            "noise_found_high": found.max(),
            "noise_left": _rms(error / added),
        }
        return (
            {"outcome": str(fitted.outcome), "reason": None}
            | scores
            | {name: float(value) for name, value in noise.items()}
        )


def run_smoothing_bench(config: SmoothingBenchConfig) -> dict[str, Any]:
    """Fit both ways at every scale of noise, leave rows and summary in `config.out` and return the
    summary."""
    if not all(0 < noise < 1 for noise in config.noise):
        raise InputError(
            "The noise scales must be above 0 and below 1: without noise there is nothing to smooth."
        )
    jobs, data = [], {}
    sizes = {"horizon": config.horizon, "epochs": config.epochs, "least_steps": config.least_steps}
    training = DEFAULT.vary(**sizes)
    for name in config.dataset:
        noiseless = load_dataset(name, config.cache)
        (fold,) = deal_sized_folds(find_dataset(name).split, 1, key=jax.random.key(config.seed))
        for noise in config.noise:
            noisy = add_noise(noiseless, noise, key=jax.random.key(config.seed))
            data[digest := episodes_digest(noisy)] = Pair(noisy, noiseless)
            jobs.append(SmoothingJob(digest, name, noise, Smoothed.of(training), fold, config.seed))
    log = RowLog(config.out / "fits.jsonl")
    with log.writing():
        log.forget(FAILED)  # what failed is tried again
        open_run(config.out, COMMAND, config)
        with config.where.connect() as client:
            rows = sweep(jobs, data, log, client)
    summary: dict[str, Any] = {
        f"{row['dataset']} {row['noise']:g}": {
            name: row[name] for name in row if "_r2bar_" in name or name.startswith("noise_")
        }
        for row in rows
        if row["outcome"] == "finished"
    }
    summary["failures"] = [
        f"{row['dataset']} {row['noise']:g}: {row['reason']}" for row in rows if row["reason"]
    ]
    write_run(
        config.out,
        COMMAND,
        config,
        [{name: row[name] for name in row if name != "versions"} for row in rows],
        summary,
    )
    return summary


def _rms(values: Float[ndarray, "all_states state"]) -> float:
    return float(np.sqrt(np.mean(values**2)))
