"""`multistep reproduce dynamic`: returns of agents in learned models, as in the section "Dynamic
evaluation"."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any

import jax
import numpy as np
import tyro

from multistep.agents.offline import AgentJob, Budget, Logged
from multistep.data import Episodes, add_noise, episodes_digest, first_pieces
from multistep.errors import InputError
from multistep.losses import Exponential
from multistep.runs.row_log import Row, RowLog
from multistep.runs.run_folder import check_study, open_run, write_run
from multistep.runs.sweep import FAILED, sweep
from multistep.runs.workers import Workers
from multistep.selection.candidates import PAPER_BETAS, PAPER_HORIZONS, grid
from multistep.selection.fit import VALIDATION_HORIZON
from multistep.selection.fit_job import FitJob
from multistep.selection.folds import Fold, deal_sized_folds
from multistep.selection.ranked import ranked_of
from multistep.studies.dynamic_tables import (
    BY_R2,
    BY_RETURN,
    ONE_STEP,
    OURS,
    OURS_FILTERED,
    OURS_ONCE,
    UNIFORM,
    Learned,
    best_by_return,
    group_row,
    verdicts,
)
from multistep.studies.scales import Scale
from multistep.tasks.cache import load_dataset
from multistep.tasks.catalogue import find_dataset
from multistep.training import DEFAULT, PAPER, SMOOTHED, AbstractRecipe, Once, Smoothed

COMMAND = "reproduce dynamic"
ROWS = "agents.jsonl"
DATASET = "cartpole/mixed_replay"


@dataclass(frozen=True)
class DynamicConfig:
    """Returns on Cartpole of agents trained in the paper's models and in ours."""

    scale: Scale = "smoke"
    """smoke: a minute or two; quick: less than three hours on two cores; paper: SAC as long as in the paper,
    days."""
    noise: tuple[float, ...] = (0.0, 0.01)
    """Noise scales, as shares of each state's range, in the data and when acting."""
    where: Annotated[Workers, tyro.conf.arg(name="")] = field(default_factory=Workers)
    """Where the jobs run."""
    retry_failed: bool = False
    """Run again what failed in an earlier run of the command."""
    seed: int = 0
    """Seed of noise, folds and training."""
    cache: Path | None = None
    """Folder of the datasets (default: MULTISTEP_DATASETS, or the platform's cache folder)."""
    out: Path = Path("runs/dynamic")
    """Folder for rows, tables and figures; the same command goes on where it was stopped."""


@dataclass(frozen=True)
class Size:
    """How much of the study a scale is."""

    horizons: tuple[int, ...]
    betas: tuple[float, ...]
    """Betas that R2 chooses among at every horizon, and the return at the last one."""
    epochs: int
    num_folds: int
    """Folds that betas are compared on; there is an agent for each."""
    ours_once: Once
    ours: Smoothed
    budget: Budget
    other_episodes: int
    """Episodes of agents in other models than ours and the one-step one."""
    split: tuple[int, int, int] = (36, 4, 10)
    steps: int | None = None
    """Steps that episodes are cut to."""


SIZES: dict[Scale, Size] = {
    "smoke": Size(
        horizons=(1, 2),
        betas=(0.3, 1.0),
        epochs=1,
        num_folds=1,
        ours_once=replace(DEFAULT, horizon=5, epochs=1, least_steps=1),
        ours=Smoothed(*(replace(DEFAULT, horizon=horizon, epochs=1, least_steps=1) for horizon in (5, 3))),
        budget=Budget(
            sac_steps=200, num_envs=20, num_sequences=20, plan_horizon=3, num_episodes=3, episode_steps=10
        ),
        other_episodes=2,
        split=(4, 1, 1),
        steps=100,
    ),
    "quick": Size(
        horizons=PAPER_HORIZONS,
        betas=(1.0, 1.5),
        epochs=10,
        num_folds=1,
        ours_once=DEFAULT,
        ours=SMOOTHED,
        budget=Budget(sac_steps=80_000),
        other_episodes=4,
    ),
    "paper": Size(PAPER_HORIZONS, PAPER_BETAS, PAPER.epochs, 3, DEFAULT, SMOOTHED, Budget(), 10),
}


@dataclass(frozen=True)
class Setting:
    """The dataset with one scale of noise."""

    noise: float
    logged: Logged
    digest: str
    folds: tuple[Fold, ...]


Chosen = dict[int, AbstractRecipe]
"""By horizon, the model whose weights R2 has chosen."""
Agents = dict[tuple[float, Learned], list[Row]]
"""The rows of agents by noise and model."""


def run_dynamic(config: DynamicConfig) -> dict[str, Any]:
    """Run what is missing, leave rows, table and summary in `config.out` and return the summary."""
    noises = set(config.noise)
    if not noises or len(noises) < len(config.noise) or not all(0 <= noise < 1 for noise in noises):
        raise InputError("The noise scales must be different numbers from 0 to below 1, one at least.")
    check_study(config.out, COMMAND, scale=config.scale, seed=config.seed, noise=config.noise)
    log = RowLog(config.out / ROWS)
    with log.writing():
        if config.retry_failed:
            log.forget(FAILED)
        settings = [_setting(config, noise) for noise in config.noise]
        open_run(config.out, COMMAND, config)
        with config.where.connect() as client:
            chosen = [_choose_betas(config, setting, log, client) for setting in settings]
            agents = _train_agents(config, settings, chosen, log, client)
        return _write(config, settings, chosen, agents, log)


def _write(
    config: DynamicConfig, settings: Sequence[Setting], chosen: Sequence[Chosen], agents: Agents, log: RowLog
) -> dict[str, Any]:
    """Leave the table and the summary of these agents."""
    groups = [
        row
        for setting, by_r2 in zip(settings, chosen, strict=True)
        for row in _groups(config, setting, by_r2, agents)
    ]
    rows, size = log.read(), SIZES[config.scale]
    summary = {
        "scale": config.scale,
        "sac_steps": size.budget.sac_steps,
        "episodes_per_agent": {
            "one-step and default": size.budget.num_episodes,
            "others": size.other_episodes,
        },
        "agents_per_model": size.num_folds,
        "epochs_of_paper_models": size.epochs,
        "betas": size.betas,
        "seconds_of_jobs": sum(row["seconds"] for row in rows),
        "failures": [row["reason"] for row in rows if row["outcome"] == FAILED],
        **verdicts(groups),
    }
    write_run(config.out, COMMAND, config, groups, summary)
    return summary


def _choose_betas(config: DynamicConfig, setting: Setting, log: RowLog, client: Any) -> Chosen:
    """For each horizon beyond 1 the weights with the best R2bar, averaged over the folds."""
    size = SIZES[config.scale]
    candidates = grid(replace(PAPER, epochs=size.epochs), [h for h in size.horizons if h > 1], size.betas)
    names = {"dataset": DATASET, "noise": setting.noise}
    horizon = min(VALIDATION_HORIZON, int(setting.logged.episodes.lengths.min()))
    jobs = [
        FitJob(setting.digest, c, fold, config.seed, horizon, names)
        for c in candidates
        for fold in setting.folds
    ]
    data = {setting.digest: setting.logged.episodes}
    rows = sweep(jobs, data, log, client, description=f"fits, noise {setting.noise:g}")
    count = len(setting.folds)
    scored = [ranked_of(c, rows[n * count : (n + 1) * count]) for n, c in enumerate(candidates)]
    return {
        h: max((r for r in scored if r.config.settings.horizon == h), key=lambda r: r.mean).config
        for h in size.horizons
        if h > 1
    }


def _train_agents(
    config: DynamicConfig,
    settings: Sequence[Setting],
    chosen: Sequence[Chosen],
    log: RowLog,
    client: Any,
) -> Agents:
    """The rows of all agents by noise and model."""
    size = SIZES[config.scale]
    wanted = [
        (number, model)
        for variants in zip(*(_models(config, by_r2) for by_r2 in chosen), strict=True)
        for number, model in enumerate(variants)
    ]
    jobs = [
        AgentJob(
            f"{setting.digest}-logged",
            find_dataset(DATASET).task.name,
            model,
            fold,
            config.seed,
            _budget(size, model),
            {"dataset": DATASET, "noise": setting.noise},
        )
        for setting, model in (
            (settings[number], model) for number, model in dict.fromkeys(wanted)
        )  # R2 may choose uniform
        for fold in setting.folds
    ]
    data = {f"{setting.digest}-logged": setting.logged for setting in settings}
    rows = sweep(jobs, data, log, client, description="agents")
    found: Agents = {}
    for job, row in zip(jobs, rows, strict=True):
        found.setdefault((row["noise"], job.config), []).append(row)
    return found


def _budget(size: Size, model: Learned) -> Budget:
    is_main = model in (size.ours_once, size.ours) or model.settings.horizon == 1
    return size.budget if is_main else replace(size.budget, num_episodes=size.other_episodes)


def _models(config: DynamicConfig, by_r2: Chosen) -> list[Learned]:
    """The models that get an agent, as many at every scale of noise; the main comparison comes first."""
    size = SIZES[config.scale]
    base = replace(PAPER, epochs=size.epochs)
    (one_step,) = grid(base, [1], [])
    return [
        size.ours_once,
        size.ours,
        one_step,
        *by_r2.values(),
        *(_uniform(model) for model in by_r2.values()),
        *grid(base, [max(size.horizons)], size.betas),
    ]


def _groups(config: DynamicConfig, setting: Setting, by_r2: Chosen, agents: Agents) -> list[Row]:
    """The bars of the paper's figure, and ours: one row each."""
    size = SIZES[config.scale]
    (one_step,) = grid(replace(PAPER, epochs=size.epochs), [1], [])
    longest = grid(replace(PAPER, epochs=size.epochs), [max(size.horizons)], size.betas)

    def rows(model: Learned) -> list[Row]:
        return agents[setting.noise, model]

    return [
        group_row(setting.noise, ONE_STEP, one_step, rows(one_step)),
        *(group_row(setting.noise, BY_R2, model, rows(model)) for model in by_r2.values()),
        *(
            group_row(setting.noise, UNIFORM, _uniform(model), rows(_uniform(model)))
            for model in by_r2.values()
        ),
        best_by_return(setting.noise, BY_RETURN, {model: rows(model) for model in longest}),
        group_row(setting.noise, OURS_ONCE, size.ours_once, rows(size.ours_once)),
        group_row(setting.noise, OURS, size.ours, rows(size.ours)),
        *([group_row(setting.noise, OURS_FILTERED, size.ours, rows(size.ours))] if setting.noise else ()),
    ]


def _uniform(model: AbstractRecipe) -> AbstractRecipe:
    return model.vary(weights=Exponential(1.0))


def _setting(config: DynamicConfig, noise: float) -> Setting:
    size = SIZES[config.scale]
    noiseless = _shortened(load_dataset(DATASET, config.cache), size)
    episodes = add_noise(noiseless, noise, key=jax.random.key(config.seed)) if noise else noiseless
    deviation = noise * np.ptp(noiseless.states, axis=0).astype(np.float64)
    folds = deal_sized_folds(size.split, size.num_folds, key=jax.random.key(config.seed))
    return Setting(noise, Logged(episodes, deviation), episodes_digest(episodes), tuple(folds))


def _shortened(episodes: Episodes, size: Size) -> Episodes:
    episodes = episodes.take(range(sum(size.split)))
    return episodes if size.steps is None else first_pieces(episodes, size.steps)
