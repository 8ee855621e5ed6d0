"""The main job on built-in data: one-step against multi-step training on noisy Cartpole episodes, beside the
ceiling."""

import time
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import jax

from multistep.commands.baselines import score_baselines
from multistep.data import add_noise, split
from multistep.dynamics import save_model
from multistep.evaluation import R2Bar, Scores, score
from multistep.evaluation.rows import score_rows, score_summary
from multistep.losses import Uniform
from multistep.runs.run_folder import check_run, write_rows, write_run
from multistep.selection.automatic import Automatic
from multistep.selection.fit import fit
from multistep.tasks import CARTPOLE
from multistep.tasks.catalogue import CARTPOLE_RANDOM_SEED
from multistep.training import DEFAULT, Fit, LeastSquares, Once, Outcome
from multistep.training.rows import fit_summary, history_rows

COMMAND = "demo"


@dataclass(frozen=True)
class DemoConfig:
    """Fit one-step and multi-step models to noisy Cartpole episodes and score both 100 steps ahead."""

    out: Path = Path("runs/demo")
    """Folder for the results."""
    episodes: int = 50
    """Random-policy episodes to collect: 36 of 50 for training, 4 for validation, 10 for the test."""
    steps: int = CARTPOLE.episode_steps
    """Steps of each episode."""
    noise: float = 0.02
    """Deviation of the noise on every observation, as a share of each state's range."""
    score_horizon: int = 100
    """Steps ahead to score."""
    data_seed: int = CARTPOLE_RANDOM_SEED
    """Seed of the episodes."""
    seed: int = 0
    """Seed of noise, split and training."""
    one_step: Once = field(default_factory=lambda: replace(DEFAULT, horizon=1, weights=Uniform(), epochs=20))
    """Training of the one-step model."""
    budget: str = "2M"
    """What the automatic recipe may spend on the other model: model steps, or a time as 60s."""


def run_demo(config: DemoConfig) -> dict[str, Any]:
    """Run the demo, leave its rows in `config.out` and return the summary; nothing is returned if it was
    interrupted."""
    check_run(config.out, COMMAND)
    started = time.perf_counter()
    noise_key, split_key, fit_key = jax.random.split(jax.random.key(config.seed), 3)
    clean = CARTPOLE.collect_random(
        config.episodes, key=jax.random.key(config.data_seed), num_steps=config.steps
    )
    train, valid, test = split(
        add_noise(clean, config.noise, key=noise_key), (0.72, 0.08, 0.2), key=split_key
    )
    rows, summary = [], {}
    # Second-order descent is for plants with less data than these.
    automatic = Automatic(budget=config.budget, without=("small", "calibration"))
    for name, fit_config in (("one_step", config.one_step), ("multi_step", automatic)):
        folder = config.out / name
        checkpoint = folder / "checkpoint.safetensors"
        fitted = fit(train, valid, fit_config, key=fit_key, checkpoint=checkpoint)
        if fitted.outcome is Outcome.INTERRUPTED:
            raise KeyboardInterrupt
        scores = score(fitted.model, test, horizon=config.score_horizon)
        _keep(folder, fitted)
        rows += score_rows(name, scores)
        summary[name] = score_summary(scores) | fit_summary(fitted) | {"notes": fitted.notes}
    linear = LeastSquares().fit(train, valid, key=fit_key, score=R2Bar(1)).model
    more, baselines = score_baselines(fitted.model, linear, test, config.score_horizon)
    scores: Scores = CARTPOLE.ceiling(test, horizon=config.score_horizon)
    rows += score_rows("ceiling", scores) + more
    summary |= baselines | {
        "ceiling": score_summary(scores),
        "noise": config.noise,
        "seconds": time.perf_counter() - started,
    }
    write_run(config.out, COMMAND, config, rows, summary)
    return summary


def _keep(folder: Path, fitted: Fit) -> None:
    save_model(fitted.model, folder / "model.safetensors")
    write_rows(folder / "history.csv", history_rows(fitted))
