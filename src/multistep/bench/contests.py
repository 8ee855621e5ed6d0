"""One method on one benchmark: ours or a peer's, on the same records with the same score."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import jax

from multistep.bench.peer_environments import PEERS, PeerMissing
from multistep.bench.peer_runs import (
    Rollouts,
    ask,
    episode_arrays,
    episode_scores,
    plant_arrays,
    plant_rmse,
)
from multistep.data import Episodes, add_noise, split_in_time
from multistep.dynamics import Lags, LineConfig
from multistep.evaluation import FreeRunR2, R2Bar, score
from multistep.runs.row_log import Row
from multistep.runs.sweep import AbstractJob
from multistep.selection.automatic import Automatic
from multistep.selection.fit import VALIDATION_HORIZON, fit
from multistep.selection.folds import Fold
from multistep.selection.lags import ChosenMemory
from multistep.studies.benchmark_records import (
    BENCHMARKS,
    TRAINING,
    Benchmark,
    BenchmarkData,
    free_run_rmse,
)
from multistep.training import AbstractRecipe, Fit, LeastSquares, observed
from multistep.training.judge import num_measurements

OURS, LINEAR = "multistep", "linear"
"""The automatic recipe, and its line alone: least squares on as many lags as are seen."""


class Offered(NamedTuple):
    """What the jobs of one benchmark need: its records, and where each peer's Python is or why it is not."""

    records: BenchmarkData | Episodes
    pythons: Mapping[str, Path | str]


@dataclass(frozen=True)
class PlantJob(AbstractJob):
    """A free run over the test records of a plant, from their first outputs."""

    data: str
    benchmark: str
    method: str
    seed: int
    seconds: float
    """Of the processor, for a peer that asks how long it may train."""
    budget: str | None
    """Of the automatic recipe."""

    @property
    def work(self) -> float:
        return 10.0 if self.method == OURS else 1.0

    def labels(self) -> Row:
        return {"benchmark": self.benchmark, "method": self.method, "seed": self.seed}

    def run(self, data: Offered) -> Row:
        assert isinstance(data.records, BenchmarkData)
        benchmark, records = BENCHMARKS[self.benchmark], data.records
        if self.method in PEERS:
            given = plant_arrays(records, benchmark)
            python = _python(self.method, data.pythons)
            answer = ask(python, PEERS[self.method], given, seed=self.seed, seconds=self.seconds)
            errors = plant_rmse(answer, records, benchmark)
            return _row(errors, benchmark.unit, answer.seconds, answer.about)
        fitted, seconds = _timed(lambda: self._fit(records.train, benchmark))
        errors = {name: free_run_rmse(fitted.model, test, benchmark) for name, test in records.tests.items()}
        return _row(errors, benchmark.unit, seconds, about_fit(fitted))

    def _fit(self, record: Episodes, benchmark: Benchmark) -> Fit:
        key = jax.random.key(self.seed)
        if self.method == LINEAR:
            recipe = LeastSquares(Lags(benchmark.num_seen).around(LineConfig()))
            return recipe.fit(record, record, key=key, score=FreeRunR2())
        train, valid = split_in_time(record, TRAINING)
        recipe = Automatic(memory=ChosenMemory(benchmark.num_seen), budget=self.budget)
        return fit(train, valid, recipe, key=key, score=FreeRunR2())


@dataclass(frozen=True)
class EpisodesJob(AbstractJob):
    """R2bar over the rollouts of noisy test episodes, from as many measurements for each method."""

    data: str
    """Name of the episodes without noise."""
    dataset: str
    noise: float
    method: str
    fold: Fold
    seed: int
    horizon: int
    seconds: float
    budget: str | None

    @property
    def work(self) -> float:
        return 10.0 if self.method == OURS else 1.0

    def labels(self) -> Row:
        name = f"{self.dataset} {self.noise:g}"
        return {"benchmark": name, "method": self.method, "seed": self.seed, "fold": self.fold.number}

    def run(self, data: Offered) -> Row:
        assert isinstance(data.records, Episodes)
        clean = data.records
        noisy = add_noise(clean, self.noise, key=jax.random.key(self.seed)) if self.noise else clean
        train, valid, test = self.fold.deal(noisy)
        name = f"r2bar_{self.horizon}"
        if self.method in PEERS:
            rollouts = Rollouts.of(test, num_measurements(test), self.horizon)
            given = episode_arrays(train, valid, rollouts)
            python = _python(self.method, data.pythons)
            answer = ask(python, PEERS[self.method], given, seed=self.seed, seconds=self.seconds)
            found = episode_scores(answer, test, rollouts).r2bar()
            return _row({name: found}, "", answer.seconds, answer.about)
        key = jax.random.fold_in(jax.random.key(self.seed), self.fold.number)
        recipe: AbstractRecipe = LeastSquares() if self.method == LINEAR else Automatic(budget=self.budget)
        validation = R2Bar(VALIDATION_HORIZON)
        fitted, seconds = _timed(lambda: recipe.fit(train, valid, key=key, score=validation))
        view = observed(fitted.model, train, test)
        return _row(
            {
                name: score(view, test, horizon=self.horizon).r2bar(),
                f"{name}_from_one": score(fitted.model, test, horizon=self.horizon).r2bar(),
            },
            "",
            seconds,
            about_fit(fitted),
        )


def about_fit(fitted: Fit) -> str:
    """What was chosen, in the recipe's own words."""
    return " ".join(fitted.notes)


def _timed(work: Callable[[], Fit]) -> tuple[Fit, float]:
    """The fit, and what it took of the processor."""
    started = time.process_time()
    fitted = work()
    return fitted, time.process_time() - started


def _python(method: str, pythons: Mapping[str, Path | str]) -> Path:
    python = pythons[method]
    if isinstance(python, str):
        raise PeerMissing(python)
    return python


def _row(found: Mapping[str, float], unit: str, seconds: float, about: str) -> Row:
    return {
        "outcome": "finished",
        "reason": None,
        "found": dict(found),
        "unit": unit,
        "cpu_seconds": seconds,
        "about": about,
    }
