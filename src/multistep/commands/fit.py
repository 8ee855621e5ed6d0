"""`multistep fit`: a model from the user's own files."""

import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import jax
import numpy as np
import tyro

from multistep.data import Columns, Episodes, estimate_noise, split
from multistep.dynamics import Observer, save_model
from multistep.evaluation import R2Bar, score, usual_horizon
from multistep.runs.row_log import Row
from multistep.commands.source import read_episodes
from multistep.runs.run_folder import (
    check_study,
    fit_summary,
    history_rows,
    score_rows,
    score_summary,
    write_rows,
    write_run,
)
from multistep.training import DEFAULT, Fit, FitConfig, Outcome, Preset, Smoothed, SmoothedFit, learn
from multistep.types import Key

COMMAND = "fit"


@dataclass(frozen=True)
class FitFilesConfig:
    """Fit a model to episodes in files and score it on held-out episodes."""

    files: Annotated[tuple[str, ...], tyro.conf.Positional, tyro.conf.arg(metavar="FILES")]
    """Files with episodes (.csv, .parquet, .npz, .hdf5; patterns such as 'logs/*.csv' are expanded), a Minari
    dataset, or a dataset of the paper by its name."""
    columns: Annotated[Columns, tyro.conf.arg(name="")] = field(default_factory=Columns)
    """Which columns of a table are what; all other formats know their columns, and naming some picks
    those."""
    noise: tuple[float, ...] = ()
    """Deviation of Gaussian noise to add, as a share of each state's range: one number, or one per state."""
    noise_seed: int = 0
    """Seed of that noise."""
    cut: int | None = None
    """Cut long recordings into episodes of this many steps, so that they can be split."""
    split: tuple[float, float, float] = (0.7, 0.1, 0.2)
    """Shares (or numbers) of episodes for training, validation and test."""
    score_horizon: int = 100
    """Steps ahead to score (fewer if the test episodes are too short or too few)."""
    smooth: bool = True
    """Where there is noise, take it out with the model and fit again (the paper's preset fits once)."""
    seed: int = 0
    """Seed of split and training."""
    out: Path = Path("runs/fit")
    """Folder for the model and the results."""
    preset: Preset = "default"
    """Where the training options below start from: ours, or the paper's."""
    training: Annotated[FitConfig, tyro.conf.arg(name="")] = DEFAULT
    """How the model is trained."""


def run_fit(config: FitFilesConfig) -> dict[str, Any]:
    """Fit, score, leave model and rows in `config.out`, and return the summary."""
    check_study(config.out, COMMAND, smooth=config.smooth)
    split_key, fit_key = jax.random.split(jax.random.key(config.seed))
    episodes = read_episodes(
        config.files, config.columns, steps=config.cut, noise=config.noise, noise_seed=config.noise_seed
    )
    train, valid, test = split(episodes, config.split, key=split_key)
    horizon = usual_horizon(test, config.score_horizon)
    fitted = _fit(config, train, valid, key=fit_key, horizon=horizon)
    if fitted.outcome is Outcome.INTERRUPTED:
        raise KeyboardInterrupt
    scores = score(fitted.model, test, horizon=horizon)
    save_model(fitted.model, config.out / "model.safetensors")
    write_rows(config.out / "history.csv", _history(fitted))
    sizes = {name: len(part) for name, part in (("train", train), ("valid", valid), ("test", test))}
    summary = {
        "model": score_summary(scores) | fit_summary(fitted),
        "episodes": sizes,
        "score_horizon": horizon,
    }
    if isinstance(fitted, SmoothedFit):
        summary |= _about_smoothing(fitted, train)
    write_run(config.out, COMMAND, config, score_rows("model", scores), summary)
    return summary


def _fit(config: FitFilesConfig, train: Episodes, valid: Episodes, *, key: Key, horizon: int) -> Fit:
    score, checkpoint = R2Bar(min(50, horizon)), config.out / "checkpoint.safetensors"
    how = Smoothed.of(config.training) if config.smooth else config.training
    return learn(train, valid, how, key=key, score=score, checkpoint=checkpoint)


def _history(fitted: Fit) -> list[Row]:
    """The epochs of every fit."""
    if not isinstance(fitted, SmoothedFit):
        return history_rows(fitted)
    fits = {"measured": fitted.first} | ({"smoothed": fitted} if fitted.is_second else {})
    return [{"fitted_to": name, **row} for name, one in fits.items() for row in history_rows(one)]


def _about_smoothing(fitted: SmoothedFit, episodes: Episodes) -> dict[str, Any]:
    """Whether there was a second fit, what the first was like, and the noise that was found."""
    again = {"fitted_again": fitted.is_second, "first_model_kept_because": fitted.reason}
    noise = _about_noise(fitted.observer, episodes) if fitted.observer is not None else {}
    return again | {"first_fit": fit_summary(fitted.first)} | noise


def _about_noise(observer: Observer, episodes: Episodes) -> dict[str, dict[str, float]]:
    """The noise that the observer found on each state that changes, and the most that there can be by the
    data alone."""
    found = np.asarray(observer.measurement_noise, np.float64).tolist()
    most = estimate_noise(episodes.states, episodes.actions, episodes.lengths).tolist()
    changing = [n for n, name in enumerate(episodes.state_names) if name not in episodes.constant_columns()]
    return {
        what: {episodes.state_names[n]: values[n] for n in changing if math.isfinite(values[n])}
        for what, values in (("measurement_noise", found), ("noise_at_most", most))
    }
