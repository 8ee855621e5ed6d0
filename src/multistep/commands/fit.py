"""`multistep fit`: a model from the user's own files."""

import math
import warnings
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any

import jax
import numpy as np
import tyro

from multistep.commands.baselines import LINEAR, linear_like, score_baselines
from multistep.commands.ensemble_options import EnsembleOptions
from multistep.commands.free_runs import write_free_runs
from multistep.commands.intervals import write_intervals
from multistep.commands.memory_options import MemoryOptions
from multistep.commands.source import (
    Changes,
    Source,
    check_same_step,
    check_same_step_in_test,
    fitted_columns,
    load_saved,
    note_on_pieces,
    read_episodes,
    same_files,
)
from multistep.data import (
    Episodes,
    check_same_units,
    cut,
    estimate_noise,
    remarks_on,
    split,
    split_in_time,
    wrapped_angles,
)
from multistep.data.angles import remark_on
from multistep.dynamics import ARCHITECTURES, NetworkConfig, NoMemory, Observer, save_model
from multistep.errors import InputError
from multistep.evaluation import FreeRunR2, R2Bar, score, usual_horizon
from multistep.evaluation.rows import score_rows, score_summary
from multistep.runs.progress import announce
from multistep.runs.row_log import Row
from multistep.runs.run_folder import check_study, write_rows, write_run
from multistep.selection.automatic import Automatic
from multistep.selection.calibrated import calibrate
from multistep.selection.expected import expected_seconds
from multistep.selection.fit import VALIDATION_HORIZON, fit
from multistep.selection.lags import ChosenMemory
from multistep.selection.recipes import RECIPES, num_past_of, with_memory
from multistep.selection.validated import Validated
from multistep.training import (
    DEFAULT,
    PRESETS,
    AbstractRecipe,
    Continuing,
    Fit,
    Once,
    Outcome,
    Preset,
    QuasiNewton,
    seconds_of,
)
from multistep.training.rows import fit_summary, history_rows
from multistep.types import Key

COMMAND = "fit"
PIECES = 8
"""That one recording is cut into, where the test has files of its own."""


@dataclass(frozen=True)
class FitFilesConfig:
    """Fit a model to episodes in files and score it on held-out episodes."""

    source: Annotated[Source, tyro.conf.arg(name="")]
    """Where the episodes are."""
    changes: Annotated[Changes, tyro.conf.arg(name="")] = field(default_factory=Changes)
    """What is done to the episodes first."""
    test: tuple[str, ...] = ()
    """Files that are held out for the test, in place of a share of the others."""
    split: tuple[float, float, float] = (0.7, 0.1, 0.2)
    """Shares (or numbers) of episodes for training, validation and test; with --test those of training and
    validation count."""
    memory: Annotated[MemoryOptions, tyro.conf.arg(name="")] = field(default_factory=MemoryOptions)
    """What the model knows besides the last sample."""
    free_run: bool = False
    """Choose the model by simulations of whole validation records from their first samples, as a plant's
    simulator is used, in place of R2 over 50 steps ahead."""
    score_horizon: int = 100
    """Steps ahead to score (fewer if the test episodes are too short or too few)."""
    recipe: str | None = None
    """automatic: what is best by the judge; once: one fit; smoothed: where there is noise, take it out with
    the model and fit again; linear; small: a small network by second-order descent; aggregated:ROUNDS: data
    as demonstrator; validated:HORIZON: one-step training, compared so far ahead; module:Name for your own
    (default: automatic; smoothed if training options are given; with the paper's preset once)."""
    budget: str | None = None
    """What the automatic recipe may spend on training, about: 60s, 5min, or model steps as 20M (default:
    until more is of no use)."""
    without: tuple[str, ...] = ()
    """What the automatic recipe leaves out: linear, small, smoothing, growing, averaging,
    cross_fitting, refit, calibration."""
    ensemble: Annotated[EnsembleOptions, tyro.conf.arg(name="")] = field(default_factory=EnsembleOptions)
    """How often it is fitted."""
    from_model: Annotated[Path | None, tyro.conf.arg(name="from")] = None
    """A model.safetensors to go on from: its columns, memory and units stay. If it is better as it was, it is
    kept."""
    kind: tuple[str, ...] = ()
    """Architectures of your own, as module:Name, that the model to go on from may be of."""
    architecture: str | None = None
    """What is learned in place of the network: corrected, gaussian:network, direct:HORIZON (a network for
    each number of steps ahead), any other that there is, or module:Name of your own."""
    seed: int = 0
    """Seed of split and training."""
    out: Path = Path("runs/fit")
    """Folder for the model and the results."""
    preset: Preset = "default"
    """Where the training options below start from: ours, or the paper's."""
    training: Annotated[Once, tyro.conf.arg(name="")] = DEFAULT
    """How the model is trained."""


def run_fit(config: FitFilesConfig) -> dict[str, Any]:
    """Fit, score, leave model and rows in `config.out`, and return the summary."""
    recipe = recipe_of(config)
    config.ensemble.around(recipe)  # what cannot be is said first
    if isinstance(recipe, Validated) and config.free_run:
        raise InputError("--recipe validated compares epochs in its own way: leave --free-run out.")
    if isinstance(recipe, Continuing):
        config = going_on(config)
    check_study(config.out, COMMAND, recipe=config.recipe)
    if config.test and (twice := same_files(config.test, config.source.files)):
        raise InputError(
            f"{twice[0]} is to be trained on and held out by --test: leave it out of one of the two."
        )
    split_key, fit_key = jax.random.split(jax.random.key(config.seed))
    train, valid, test = dealt(config, read_with_remarks(config, recipe), key=split_key)
    config.memory.memory.check_sizes(train.state_size, train.action_size)
    if isinstance(recipe, Automatic) and isinstance(recipe.memory, ChosenMemory):
        # What cannot be started in the test cannot be scored there; that is all that the test says.
        recipe = replace(recipe, memory=ChosenMemory(max(1, int(test.lengths.max()) // 2)))
    _check_lengths(num_past_of(recipe, train), valid, test)
    # How far ahead is scored depends on the test part, which has no say in the choice of the model.
    validation = FreeRunR2() if config.free_run else R2Bar(min(VALIDATION_HORIZON, config.score_horizon))
    checkpoint = config.out / "checkpoint.safetensors"
    turns = config.ensemble.in_turn()
    if isinstance(recipe, Automatic):
        announce(time_sentence(expected_seconds(recipe, train, valid, validation) * turns))
    elif (steps := recipe.most_steps(train)) is not None:
        network = recipe.network if isinstance(recipe, Continuing) else config.training.network
        announce(time_sentence(seconds_of(steps, network, train) * turns))
    whole = config.ensemble.around(recipe)
    fitted = fit(train, valid, whole, key=fit_key, score=validation, checkpoint=checkpoint)
    if fitted.outcome is Outcome.INTERRUPTED:
        raise KeyboardInterrupt
    wanted = "calibration" not in config.without and fitted.outcome is not Outcome.DIVERGED
    knew = isinstance(recipe, Continuing) and recipe.network.model.uncertainty is not None
    if wanted and (whole is not recipe or (knew and fitted.model.uncertainty is None)):
        fitted = replace(fitted, model=calibrate(fitted.model, train, valid, key=fit_key))
    save_model(fitted.model, config.out / "model.safetensors")
    horizon = usual_horizon(test, config.score_horizon, fitted.model.num_past)
    scores = score(fitted.model, test, horizon=horizon)
    linear = linear_like(fitted.model, train, key=fit_key)
    rows, baselines = score_baselines(fitted.model, linear, test, horizon)
    save_model(linear, config.out / LINEAR)
    write_rows(config.out / "history.csv", _history(fitted))
    sizes = {name: len(part) for name, part in (("train", train), ("valid", valid), ("test", test))}
    summary = {
        "model": score_summary(scores) | fit_summary(fitted),
        **baselines,
        **write_free_runs(fitted.model, linear, test, config.out),
        **write_intervals(fitted.model, test, config.out),
        "episodes": sizes,
        "score_horizon": horizon,
        "time_step": test.time_step,
        "units": dict(test.units),
        "chosen": fitted.chosen,
        "notes": fitted.notes,
        "parts": {name: fit_summary(part) for name, part in fitted.parts.items()},
        **(_about_noise(fitted.observer, train) if fitted.observer is not None else {}),
    }
    write_run(config.out, COMMAND, config, [*score_rows("model", scores), *rows], summary)
    return summary


def read_with_remarks(config: FitFilesConfig, recipe: AbstractRecipe) -> Episodes:
    """The episodes, after saying what is odd about them; those that a model cannot go on with are refused."""
    own_step = recipe.network.model.time_step if isinstance(recipe, Continuing) else None
    episodes = read_episodes(config.source, config.changes, own_step)
    if isinstance(recipe, Continuing):
        check_same_step(own_step, episodes.time_step, config.changes)
        recipe.network.suited_to(episodes)
    if not np.ptp(episodes.states, axis=0).any():
        raise InputError(
            f"The states {', '.join(episodes.state_names)} never change in these files: there is nothing to "
            "learn; check the columns (--states)."
        )
    if constant := episodes.constant_columns():  # in the words of a fit, so that it is said once
        warnings.warn(
            f"The training episodes never change in {', '.join(constant)}: the model learns nothing of it.",
            stacklevel=2,
        )
    note_on_pieces(config.changes)
    for remark in [*map(remark_on, wrapped_angles(episodes)), *remarks_on(episodes)]:
        warnings.warn(remark, stacklevel=2)
    return episodes


def recipe_of(config: FitFilesConfig) -> AbstractRecipe:
    """The recipe that the options stand for."""
    once = config.training
    if config.from_model is not None:
        return continuing(config, config.from_model)
    if config.architecture is not None:
        if once.network != NetworkConfig() and once.network != PRESETS[config.preset].network:
            raise InputError(
                "--architecture takes the place of the network: leave out the options --network.*."
            )
        once = once.vary(network=ARCHITECTURES.find(config.architecture))
    memory = config.memory.memory
    own = once != PRESETS[config.preset]
    is_whole = isinstance(memory, NoMemory)  # a model with a memory makes its own of the noise
    described = "smoothed" if is_whole else "once"
    usual = "once" if config.preset == "paper" else described if own else "automatic"
    recipe = RECIPES.find(config.recipe or usual, once)
    if not isinstance(recipe, Automatic):
        if config.budget is not None or config.without:
            raise InputError("--budget and --without belong to the automatic recipe: add --recipe automatic.")
        return with_memory(recipe, memory)
    return replace(recipe, budget=config.budget, without=config.without, memory=memory)


def continuing(config: FitFilesConfig, path: Path) -> Continuing:
    """The recipe that goes on from a model, which brings its network and memory along."""
    own = config.training.network not in (NetworkConfig(), PRESETS[config.preset].network)
    if own or config.architecture is not None or not isinstance(config.memory.memory, NoMemory):
        raise InputError(
            "--from goes on from a model as it is: leave out --lags, --hidden, --architecture, --network.*."
        )
    if config.budget is not None or config.without or config.recipe in ("automatic", "linear"):
        raise InputError(
            "--from goes on with one fit: leave out --budget, --without and --recipe automatic or linear."
        )
    recipe = RECIPES.find(config.recipe or "once", config.training)
    return Continuing(path, replace(recipe, starts=1) if isinstance(recipe, QuasiNewton) else recipe)


def going_on(config: FitFilesConfig) -> FitFilesConfig:
    """With the columns of the model that it goes on from; its folder is refused, the model stays in it."""
    path = config.from_model
    assert path is not None
    model = load_saved(path, config.kind)
    if path.resolve().parent == config.out.resolve():
        raise InputError(f"{config.out} holds the model to go on from: choose another --out.")
    columns = fitted_columns(model, path, config.source.columns)
    return replace(config, source=replace(config.source, columns=columns))


def dealt(config: FitFilesConfig, episodes: Episodes, *, key: Key) -> tuple[Episodes, Episodes, Episodes]:
    """The episodes for training, validation and test."""
    if not config.test:
        train, valid, test = split(episodes, config.split, key=key)
        return train, valid, test
    # What is held out stays whole: a free run goes over all of it.
    changes = replace(config.changes, cut=None)
    test = read_episodes(replace(config.source, files=config.test), changes)
    check_same_step_in_test(episodes.time_step, test.time_step, config.changes)
    check_same_units([("the training files", episodes.units), ("the test files", test.units)])
    shares = [share / sum(config.split[:2]) for share in config.split[:2]]
    if len(episodes) < PIECES and not isinstance(config.memory.memory, NoMemory):
        # A plant shows what it is in a long run: few recordings stay in one piece as far as they can.
        announce(f"The first {shares[0]:.0%} of the samples train, in their order, the rest validates.")
        return *split_in_time(episodes, shares[0]), test
    if len(episodes) == 1:
        steps = -(-int(episodes.lengths[0]) // PIECES)
        announce(f"The one recording is cut into {PIECES} pieces of {steps} steps, to train and to validate.")
        episodes = cut(episodes, steps)
    train, valid = split(episodes, shares, key=key)
    return train, valid, test


def _check_lengths(num_past: int, valid: Episodes, test: Episodes) -> None:
    """Raise an `InputError` before anything is trained if a model with a memory could not be scored."""
    for name, part in (("validation", valid), ("test", test)):
        if num_past > 1 and usual_horizon(part, 1, num_past) < 1:
            raise InputError(
                f"The model starts from {num_past} samples, but the longest {name} episode has "
                f"{part.lengths.max() + 1}: ask for fewer lags, or give longer episodes."
            )


def _history(fitted: Fit) -> list[Row]:
    """The epochs of every fit."""
    if not fitted.parts:
        return history_rows(fitted)
    return [{"part": name, **row} for name, part in fitted.parts.items() for row in history_rows(part)]


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


def time_sentence(seconds: float) -> str:
    """How long the training will take, about."""
    long = f"{seconds / 60:.0f} minutes" if seconds > 90 else f"{max(1, seconds):.0f} seconds"
    return f"The training takes about {long} on this machine, if nothing else runs."
