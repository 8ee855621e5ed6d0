"""`multistep select`: horizon and weights for the user's own files, and the model that they give."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Annotated, Any, Literal

import jax.numpy as jnp
import tyro

from multistep.commands.memory_options import MemoriesToTry
from multistep.commands.source import Changes, Source, note_on_pieces, read_episodes
from multistep.data import episodes_digest
from multistep.dynamics import HiddenState, save_model
from multistep.errors import InputError
from multistep.losses import (
    AbstractWeights,
    Balanced,
    Exponential,
    Uniform,
    describe_weights,
    effective_horizon,
)
from multistep.runs.provenance import digest, plain
from multistep.runs.row_log import Row
from multistep.runs.run_folder import open_run, write_rows, write_run
from multistep.runs.workers import Workers
from multistep.selection.lags import describe
from multistep.selection.ranked import Ranked
from multistep.selection.recipes import RECIPES, memory_in, with_memory
from multistep.selection.search import AbstractSearch, Grid, Halving
from multistep.selection.select import Selection, deal_to, refit, select
from multistep.selection.vary import vary_all
from multistep.training import PRESETS, AbstractRecipe, Outcome, Preset
from multistep.training.rows import fit_summary, history_rows

COMMAND = "select"
SEARCHES: dict[str, AbstractSearch] = {"grid": Grid(), "halving": Halving()}


@dataclass(frozen=True)
class SelectConfig:
    """Choose horizon and weights by cross-validation on files with episodes, then fit to all of them."""

    source: Annotated[Source, tyro.conf.arg(name="")]
    """Where the episodes are."""
    horizons: tuple[int, ...] = (1, 4, 10, 40)
    """Horizons of the loss to try; 1 is the usual one-step loss."""
    betas: tuple[float, ...] = (0.5, 1.0)
    """Betas of exponential weights to try with every horizon above 1."""
    weights: tuple[AbstractWeights, ...] = field(default_factory=lambda: (Balanced(),))
    """Other weights to try with every horizon above 1: balanced, uniform, exponential:BETA."""
    vary: tuple[str, ...] = ()
    """Any other training option, with one value or several to try: epochs=10, learning_rate=1e-3,3e-4,
    network.hidden_size=128,256."""
    memory: Annotated[MemoriesToTry, tyro.conf.arg(name="")] = field(default_factory=MemoriesToTry)
    """What the model knows besides the last sample."""
    preset: Preset = "default"
    """What the training options are otherwise: ours, or the paper's."""
    recipe: str = "once"
    """What is selected: once, one fit; smoothed, fitted again without the noise; automatic, what fit does;
    module:Name for your own."""
    search: Literal["grid", "halving"] = "grid"
    """grid: every candidate in full; halving: short trainings of all, full ones of the best, at a fraction of
    the cost."""
    folds: int = 3
    """Folds of whole episodes; each episode is held out once."""
    score_horizon: int = 100
    """Steps ahead that R2bar averages over (fewer if the held-out episodes are too short or too few)."""
    changes: Annotated[Changes, tyro.conf.arg(name="")] = field(default_factory=Changes)
    """What is done to the episodes first."""
    seed: int = 0
    """Seed of folds and training."""
    where: Annotated[Workers, tyro.conf.arg(name="")] = field(default_factory=Workers)
    """Where the jobs run."""
    retry_failed: bool = False
    """Run fits again that failed in an earlier run of the command."""
    out: Path = Path("runs/select")
    """Folder for the rows and the model; the same command goes on where it was stopped."""


def candidates_of(config: SelectConfig) -> list[AbstractRecipe]:
    """Every combination of horizons, weights and whatever else varies."""
    weights = [*(Exponential(beta) for beta in config.betas), *config.weights]
    pairs = [(h, w) for h in config.horizons for w in ([Uniform()] if h == 1 else weights)]
    varied = [RECIPES.find(config.recipe, once) for once in vary_all(PRESETS[config.preset], config.vary)]
    bases = [with_memory(base, memory) for base, memory in product(varied, config.memory.memories)]
    candidates = (base.vary(horizon=h, weights=w) for base, (h, w) in product(bases, pairs))
    return list(dict.fromkeys(candidates))


def run_select(config: SelectConfig) -> dict[str, Any]:
    """Select, fit the best candidate to all episodes, leave rows and model in `config.out` and return the
    summary."""
    episodes = read_episodes(config.source, config.changes)
    note_on_pieces(config.changes)
    candidates = candidates_of(config)
    for memory in config.memory.memories:
        memory.check_sizes(episodes.state_size, episodes.action_size)
    given = {"seed": config.seed, "num_folds": config.folds, "horizon": config.score_horizon}
    deal_to(candidates, episodes, **given)  # before anything is written
    open_run(config.out, COMMAND, config)
    with config.where.secured():
        selection = select(
            episodes,
            candidates,
            **given,
            out=config.out,
            search=SEARCHES[config.search],
            cluster=config.where.cluster,
            num_workers=config.where.workers,
            retry_failed=config.retry_failed,
        )
    best = selection.best.config
    # Another choice, other data or another score is another fit: each has a checkpoint of its own.
    name = digest([episodes_digest(episodes), best, config.seed, selection.horizon])
    checkpoint = config.out / f"checkpoint_{name}.safetensors"
    fitted = refit(episodes, best, seed=config.seed, horizon=selection.horizon, checkpoint=checkpoint)
    if fitted.outcome is Outcome.INTERRUPTED:
        raise KeyboardInterrupt
    if fitted.outcome is Outcome.DIVERGED:
        raise InputError(
            f"The chosen candidate diverged when trained on all episodes: choose another from {config.out}."
        )
    save_model(fitted.model, config.out / "model.safetensors")
    write_rows(config.out / "history.csv", history_rows(fitted))
    summary = _summary(selection, config.vary) | {"episodes": len(episodes), "refit": fit_summary(fitted)}
    write_run(config.out, COMMAND, config, [_row(ranked) for ranked in selection.ranking], summary)
    return summary


def _summary(selection: Selection, variations: Sequence[str]) -> dict[str, Any]:
    best = selection.best
    return {
        "rule": f"highest mean R2bar({selection.horizon}) over the held-out folds",
        "score_horizon": selection.horizon,
        "candidates": selection.num_candidates,
        "trained_in_full": len(selection.ranking),
        "within_spread_of_best": len(selection.as_good),
        "varied": [variation.partition("=")[0].replace("-", "_") for variation in variations],
        "best": {
            "mean": best.mean,
            "deviation": best.deviation,
            "memory": _memory(best.config),
            "config": plain(best.config.settings),
        },
        "seconds_of_fits": selection.seconds,
    }


def _memory(recipe: AbstractRecipe) -> str:
    """In words."""
    memory = memory_in(recipe)
    read = f" from {memory.lags} samples" if isinstance(memory, HiddenState) else ""
    return describe(memory) + read


def _row(ranked: Ranked) -> Row:
    training = ranked.config.settings
    alphas = training.weights(jnp.ones(training.horizon))
    return {
        "horizon": training.horizon,
        "weights": describe_weights(training.weights),
        "memory": _memory(ranked.config),
        # Balanced weights follow the errors: they have no one effective horizon.
        "effective_horizon": None
        if isinstance(training.weights, Balanced)
        else float(effective_horizon(alphas)),
        "mean": ranked.mean,
        "deviation": ranked.deviation,
        **{f"fold_{number}": score for number, score in enumerate(ranked.scores)},
        "seconds": ranked.seconds,
        "problem": ranked.problem,
        "settings": json.dumps(plain(training)),
    }
