"""`multistep bench judge`: how often a judge that sees noisy validation episodes finds the better model."""

from dataclasses import dataclass, field
from itertools import combinations
from pathlib import Path
from typing import Annotated, Any

import jax
import numpy as np
import tyro

from multistep.data import Episodes, add_noise, episodes_digest
from multistep.dynamics import CorrectedConfig
from multistep.evaluation import R2Bar
from multistep.runs.row_log import Row, RowLog
from multistep.runs.run_folder import open_run, write_run
from multistep.runs.sweep import FAILED, AbstractJob, sweep
from multistep.runs.workers import Workers
from multistep.selection.folds import Fold, deal_sized_folds
from multistep.tasks.cache import load_dataset
from multistep.tasks.catalogue import find_dataset
from multistep.training import (
    AbstractRecipe,
    Filtered,
    Growing,
    LeastSquares,
    Once,
    fit_observer,
    innovations,
    observed,
    smooth,
)

COMMAND = "bench judge"
LINEAR = "linear"
JUDGES = ("raw", "filtered", "shared_noise", "likelihood", "better")
"""R2bar from measured starts; from the belief of each model's own observer; with the measurement noise of one
observer for all; the likelihood of the innovations; and the better of the first and the third, as the
automatic recipe judges."""
MARGIN = 0.01
"""Pairs whose scores without noise differ by less are as good."""


@dataclass(frozen=True)
class JudgeBenchConfig:
    """Judges of models on noisy validation episodes, by the models' scores on test episodes without noise."""

    dataset: tuple[str, ...] = ("cartpole/random", "swimmer/random", LINEAR)
    """Datasets of the paper, or linear: a damped oscillator that is pushed."""
    noise: tuple[float, ...] = (0.0, 0.01, 0.02, 0.05)
    """Noise scales, as shares of each state's range; each also on the first half of the states alone."""
    splits: int = 2
    """Ways to deal the episodes into training, validation and test."""
    model_steps: int = 800_000
    """Of each training."""
    horizon: int = 50
    """Steps ahead that are scored."""
    seed: int = 0
    """Seed of noise, splits and training."""
    where: Annotated[Workers, tyro.conf.arg(name="")] = field(default_factory=Workers)
    """Where the jobs run."""
    cache: Path | None = None
    """Folder of the datasets (default: MULTISTEP_DATASETS, or the platform's cache folder)."""
    out: Path = Path("runs/bench-judge")
    """Folder for the results; the same command goes on where it was stopped."""


@dataclass(frozen=True)
class JudgeJob(AbstractJob):
    """All models of one dataset with one kind of noise, and what each judge says of them."""

    data: str
    """Name of the episodes without noise."""
    dataset: str
    noise: float
    on_half: bool
    """Whether only the first half of the states is noisy."""
    fold: Fold
    model_steps: int
    horizon: int
    seed: int

    @property
    def work(self) -> float:
        return 1.0

    def labels(self) -> Row:
        noise = {"noise": self.noise, "on_half": self.on_half}
        return {"dataset": self.dataset, **noise, "fold": self.fold.number, "seed": self.seed}

    def run(self, data: Episodes) -> Row:
        scales = np.full(data.state_size, self.noise)
        if self.on_half:
            scales[(data.state_size + 1) // 2 :] = 0.0
        noisy = add_noise(data, tuple(scales.tolist()), key=jax.random.key(self.seed)) if self.noise else data
        (train, valid, _), (_, _, clean) = self.fold.deal(noisy), self.fold.deal(data)
        score, key = R2Bar(self.horizon), jax.random.fold_in(jax.random.key(self.seed), self.fold.number)
        models = {
            name: recipe.fit(train, valid, key=key, score=score).model
            for name, recipe in _recipes(self.model_steps).items()
        }
        observer = fit_observer(models["long"], train)
        again = _recipes(self.model_steps)["long"]
        models["again"] = again.fit(smooth(observer, train), valid, key=key, score=score).model
        shared = Filtered.by(observer, score)
        found: dict[str, dict[str, float]] = {}
        for name, model in models.items():
            view = observed(model, train, valid)
            found[name] = {
                "truth": score(model, clean),
                "raw": score(model, valid),
                "filtered": score(view, valid),
                "shared_noise": score(shared.view(model, valid), valid),
                "likelihood": innovations(getattr(view, "observer", observer), valid),
            }
        return {"outcome": "finished", "reason": None, "models": found}


def run_judge_bench(config: JudgeBenchConfig) -> dict[str, Any]:
    """Fit, judge, leave a row for each pair of models in `config.out` and return how often each judge is
    right."""
    jobs: list[AbstractJob] = []
    data: dict[str, Episodes] = {}
    for name in config.dataset:
        if name == LINEAR:
            episodes, split = linear_episodes(50, 200, seed=config.seed), (36, 4, 10)
        else:
            episodes, split = load_dataset(name, config.cache), find_dataset(name).split
        data[digest := episodes_digest(episodes)] = episodes
        folds = deal_sized_folds(split, config.splits, key=jax.random.key(config.seed))
        kinds = [(noise, half) for noise in config.noise for half in ((False, True) if noise else (False,))]
        jobs += [
            JudgeJob(digest, name, *kind, fold, config.model_steps, config.horizon, config.seed)
            for kind in kinds
            for fold in folds
        ]
    log = RowLog(config.out / "fits.jsonl")
    with log.writing():
        log.forget(FAILED)  # what failed is tried again
        open_run(config.out, COMMAND, config)
        with config.where.connect() as client:
            rows = sweep(jobs, data, log, client)
    pairs = [pair for row in rows if row["outcome"] != FAILED for pair in pair_rows(row)]
    told_apart = [pair for pair in pairs if abs(pair["difference"]) > MARGIN]
    summary: dict[str, Any] = {
        "pairs": len(pairs),
        f"pairs_that_differ_by_more_than_{MARGIN:g}": len(told_apart),
        "right": {judge: _share(told_apart, judge) for judge in JUDGES},
        "failures": [f"{row['dataset']} {row['noise']:g}: {row['reason']}" for row in rows if row["reason"]],
    }
    write_run(config.out, COMMAND, config, pairs, summary)
    return summary


def pair_rows(row: Row) -> list[Row]:
    """One row for each pair of models of a cell: how far apart they are without noise, and who found the
    better one."""
    names = ("dataset", "noise", "on_half", "fold")
    pairs = []
    for one, other in combinations(row["models"], 2):
        first, second = (
            own | {"better": max(own["raw"], own["shared_noise"])}
            for own in (row["models"][one], row["models"][other])
        )
        difference = first["truth"] - second["truth"]
        right = {judge: (first[judge] - second[judge]) * difference > 0 for judge in JUDGES}
        pairs.append(
            {name: row[name] for name in names}
            | {"one": one, "other": other, "difference": difference}
            | right
        )
    return pairs


def linear_episodes(num_episodes: int, num_steps: int, *, seed: int) -> Episodes:
    """A damped oscillator under random pushes that are held for a while."""
    rng = np.random.default_rng(seed)
    transition, control = np.array([[1.0, 0.1], [-0.1, 0.98]]), np.array([[0.005], [0.1]])
    parts = []
    for _ in range(num_episodes):
        states, pushes = (
            [rng.standard_normal(2)],
            np.repeat(rng.uniform(-1, 1, (num_steps // 10 + 1, 1)), 10, 0),
        )
        for push in pushes[:num_steps]:
            states.append(transition @ states[-1] + control @ push)
        parts.append((np.array(states), pushes[:num_steps]))
    return Episodes.of(parts, state_names=("position", "velocity"), action_names=("push",))


def _recipes(model_steps: int) -> dict[str, AbstractRecipe]:
    """Horizons, sizes, a line: what an automatic choice is between."""

    def once(horizon: int, share: float, hidden_size: int = 256) -> Once:
        steady = Growing(int(share * model_steps), stages=1, batch_size=16, epoch_steps=420)
        return Once(horizon=horizon, network=CorrectedConfig(hidden_size), curriculum=steady)

    return {
        "linear": LeastSquares(),
        "one_step": once(1, 0.125),
        "short": once(8, 0.25),
        "narrow": once(40, 1.0, hidden_size=64),
        "long": once(40, 1.0),
    }


def _share(pairs: list[Row], judge: str) -> float | None:
    return float(np.mean([pair[judge] for pair in pairs])) if pairs else None
