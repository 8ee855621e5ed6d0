"""`multistep reproduce likelihood`: weights learned by maximum likelihood, and R2(h) of stochastic and
deterministic models, as in the appendix "Probabilistic interpretation"."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any

import jax
import tyro

from multistep.data import Episodes, add_noise, episodes_digest
from multistep.dynamics import Drawn, GaussianConfig, Model, NetworkConfig
from multistep.errors import InputError
from multistep.evaluation import score
from multistep.losses import Likelihood, Uniform
from multistep.runs.row_log import Row, RowLog
from multistep.runs.run_folder import check_study, open_run, write_rows, write_run
from multistep.runs.sweep import FAILED, AbstractJob, sweep
from multistep.runs.workers import Workers
from multistep.selection.fit_job import FitJob, score_fields
from multistep.selection.folds import deal_sized_folds
from multistep.studies.likelihood_measures import coverage, free_weights, learned_weights
from multistep.studies.likelihood_tables import best_betas, cell_rows, curve_rows
from multistep.studies.scales import Scale
from multistep.studies.static import sized_episodes
from multistep.tasks.catalogue import find_dataset
from multistep.training import PAPER, AbstractRecipe, Once

ROWS = "fits.jsonl"
COMMAND = "reproduce likelihood"
DATASET = "cartpole/random"
NOISES = (0.0, 0.01)
HORIZON = 2


@dataclass(frozen=True)
class LikelihoodConfig:
    """Two steps ahead on Cartpole random: what a likelihood learns to weigh, and how well it predicts."""

    scale: Scale = "smoke"
    """smoke: a minute; quick: one split and a quarter of the training, ten minutes; paper: three splits and
    all of it."""
    noise: tuple[float, ...] = ()
    """Noise scales, as shares of each state's range (default: 0 and 0.01)."""
    method: tuple[str, ...] = ()
    """What to run: deterministic, stochastic (both with the paper's network), and without batch norm and
    dropout plain_stochastic, plain_propagated, plain_deterministic, plain_mean, plain_beta_nll (default:
    all)."""
    grid: Path | None = None
    """Folder of `reproduce static`, whose best beta is shown beside the learned weights."""
    where: Annotated[Workers, tyro.conf.arg(name="")] = field(default_factory=Workers)
    """Where the jobs run."""
    seed: int = 0
    """Seed of noise, splits and training."""
    cache: Path | None = None
    """Folder of the datasets (default: MULTISTEP_DATASETS, or the platform's cache folder)."""
    out: Path = Path("runs/likelihood")
    """Folder for rows, tables and the figure; a second run, with other methods too, adds to what is there."""


@dataclass(frozen=True)
class Size:
    """How much of the study a scale is."""

    num_folds: int
    epochs: int
    hidden_size: int
    """Units of each layer of every network."""
    score_horizon: int
    split: tuple[int, int, int] | None = None
    """Train, validation and test episodes, if not those of the paper."""
    steps: int | None = None
    """Steps that episodes are cut to."""


SIZES: dict[Scale, Size] = {
    "smoke": Size(1, 1, 16, 20, (6, 2, 3), 60),
    "quick": Size(1, 8, 256, 100, (36, 2, 4)),
    "paper": Size(3, PAPER.epochs, 256, 100),
}


@dataclass(frozen=True)
class LikelihoodJob(AbstractJob):
    """One fit, and the weights of a likelihood; of a Gaussian also R2 of its draws and how often its
    intervals hold."""

    data: str
    """Name of the episodes: a digest of their content."""
    fit: FitJob

    @property
    def work(self) -> float:
        return self.fit.work

    def labels(self) -> Row:
        return self.fit.labels()

    def run(self, data: Episodes) -> Row:
        fitted = self.fit.fit(data)
        row, (train, _, test) = self.fit.row_of(fitted, data), self.fit.fold.deal(data)
        if not is_gaussian(self.fit.config):
            return {**row, "alphas": free_weights(fitted.model, train, HORIZON)}
        return {**row, **self._measured(fitted.model, train, test)}

    def _measured(self, model: Model, train: Episodes, test: Episodes) -> Row:
        weights_key, drawn_key = jax.random.split(jax.random.key(self.fit.seed))
        horizon = self.fit.score_horizon
        drawn = score_fields(score(Drawn(model, drawn_key), test, horizon=horizon))
        return {
            "alphas": learned_weights(model, train, HORIZON, key=weights_key),
            "drawn_r2bar": drawn["r2bar"],
            "drawn_r2": drawn["r2"],
            "coverage": coverage(model, test, horizon, key=drawn_key),
        }


def is_gaussian(recipe: AbstractRecipe) -> bool:
    return isinstance(recipe, Once) and isinstance(recipe.network, GaussianConfig)


def run_likelihood(config: LikelihoodConfig) -> dict[str, Any]:
    """Run what is missing, leave rows and tables in `config.out` and return the summary."""
    betas = best_betas(config.grid, DATASET, HORIZON)
    check_study(config.out, COMMAND, scale=config.scale, seed=config.seed)
    log = RowLog(config.out / ROWS)
    with log.writing():
        jobs, data = prepare(config)
        open_run(config.out, COMMAND, config)
        with config.where.connect() as client:
            sweep(jobs, data, log, client)
        return write_tables(config, log.read(), betas)


def prepare(config: LikelihoodConfig) -> tuple[list[LikelihoodJob], dict[str, Episodes]]:
    """All jobs of the study, and the episodes that they need by their digest."""
    size, dataset = SIZES[config.scale], find_dataset(DATASET)
    episodes, split = sized_episodes(dataset, config.cache, size.split, size.steps)
    folds = deal_sized_folds(split, size.num_folds, key=jax.random.key(config.seed))
    jobs: list[LikelihoodJob] = []
    data: dict[str, Episodes] = {}
    for noise in config.noise or NOISES:
        noisy = add_noise(episodes, noise, key=jax.random.key(config.seed)) if noise else episodes
        data[name := episodes_digest(noisy)] = noisy
        for method, recipe in chosen_methods(config).items():
            names = {"dataset": DATASET, "noise": noise, "method": method}
            fits = [FitJob(name, recipe, fold, config.seed, size.score_horizon, names) for fold in folds]
            jobs += [LikelihoodJob(name, fit) for fit in fits]
    # One split of everything first, and of that the paper's models: the figure is there before the last row.
    methods = list(chosen_methods(config))

    def order(job: LikelihoodJob) -> tuple[int, int]:
        return job.fit.fold.number, methods.index(job.fit.names["method"])

    return sorted(jobs, key=order), data


def chosen_methods(config: LikelihoodConfig) -> dict[str, Once]:
    """The recipes to run, by name."""
    base = replace(PAPER, horizon=HORIZON, weights=Uniform(), epochs=SIZES[config.scale].epochs)
    plain = NetworkConfig(hidden_size=SIZES[config.scale].hidden_size)
    papers = replace(plain, batch_norm=True, dropout=0.1)

    def gaussian(network: NetworkConfig, rollouts: str, exponent: float = 0.0) -> Once:
        return replace(base, network=GaussianConfig(network, rollouts), loss=Likelihood(exponent))

    methods = {
        "deterministic": replace(base, network=papers),
        "stochastic": gaussian(papers, "sampled"),
        "plain_stochastic": gaussian(plain, "sampled"),
        "plain_propagated": gaussian(plain, "propagated"),
        "plain_deterministic": replace(base, network=plain),
        "plain_mean": gaussian(plain, "mean"),
        "plain_beta_nll": gaussian(plain, "sampled", 0.5),
    }
    if unknown := [name for name in config.method if name not in methods]:
        raise InputError(f"There is no method {unknown[0]}: name one of {', '.join(methods)}.")
    return {name: recipe for name, recipe in methods.items() if not config.method or name in config.method}


def write_tables(config: LikelihoodConfig, rows: Sequence[Row], betas: Sequence[Row]) -> dict[str, Any]:
    """Tables and summary of all rows in the folder, those of earlier commands too."""
    fits = [row for row in rows if row["outcome"] != FAILED]
    table = cell_rows(fits, list(chosen_methods(LikelihoodConfig())))
    noises = {row["noise"] for row in table}
    write_rows(config.out / "curves.csv", curve_rows(fits))
    write_rows(config.out / "betas.csv", [row for row in betas if row["noise"] in noises])
    summary = {
        "scale": config.scale,
        "score_horizon": SIZES[config.scale].score_horizon,
        "fits": len(fits),
        "failed": len(rows) - len(fits),
        "seconds_of_fits": sum(row["seconds"] for row in rows),
    }
    write_run(config.out, COMMAND, config, table, summary)
    return summary
