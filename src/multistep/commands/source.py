"""Episodes as commands take them: files, Minari datasets, or names of the catalogue; cut, and with noise, if
asked."""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any

import jax
import tyro

from multistep.data import (
    Columns,
    Episodes,
    add_noise,
    as_episodes,
    check_equal_steps,
    cut,
    every,
    is_same_step,
    note_uneven_steps,
    read,
    resample,
    turns_of,
    unwrap,
    way_to_step,
)
from multistep.data.files import expand
from multistep.data.recording import Recording
from multistep.dynamics import MemoryModel, Model, load_model
from multistep.errors import InputError
from multistep.registry import import_named
from multistep.runs.json_texts import is_list_of, parse_json
from multistep.tasks.cache import verified_path
from multistep.tasks.catalogue import CATALOGUE


@dataclass(frozen=True)
class Source:
    """Where episodes are."""

    files: Annotated[tuple[str, ...], tyro.conf.Positional, tyro.conf.arg(metavar="FILES")]
    """Files with episodes (.csv, .parquet, .npz, .hdf5; patterns such as 'logs/*.csv' are expanded), a Minari
    dataset, or a dataset of the paper by its name."""
    columns: Annotated[Columns, tyro.conf.arg(name="")] = field(default_factory=Columns)
    """Which columns of a table are what; all other formats know their columns, and naming some picks
    those."""


@dataclass(frozen=True)
class Changes:
    """What is done to episodes before they are used."""

    cut: int | None = None
    """Cut long recordings into episodes of this many steps."""
    resample: float | None = None
    """Take samples at equal times, so many seconds apart: states by linear interpolation, actions as last
    set."""
    every: int | None = None
    """Keep every so many samples."""
    noise: tuple[float, ...] = ()
    """Deviation of Gaussian noise to add, as a share of each state's range: one number, or one per state."""
    noise_seed: int = 0
    """Seed of that noise."""


def same_files(files: Sequence[str], others: Sequence[str]) -> list[str]:
    """Those of the files that are among the others, too."""
    names, there = (expand([_resolved(name) for name in part]) for part in (files, others))
    places = {Path(name).resolve() for name in there}
    return [name for name in names if Path(name).resolve() in places]


def read_recordings(source: Source) -> list[Recording]:
    """What is in the files, not yet checked for missing values."""
    return read([_resolved(name) for name in source.files], source.columns)


def read_episodes(source: Source, changes: Changes | None = None, time_step: float | None = None) -> Episodes:
    """The episodes in the files, changed as is asked; `time_step` is that of the model they are for."""
    angles = source.columns.angles or _known_angles(source)
    recordings = read_recordings(source)
    _check_steps(recordings, changes or Changes(), time_step)
    recordings = [unwrap(recording, angles) if angles else recording for recording in recordings]
    if changes is not None and changes.resample is not None:
        recordings = [resample(recording, changes.resample) for recording in recordings]
    if changes is not None and changes.every is not None:
        recordings = [every(recording, changes.every) for recording in recordings]
    episodes = as_episodes(recordings)
    # Unwrapped once, and no more: what is left of fast turns after `every` would be taken for jumps.
    episodes = replace(episodes, turns=turns_of(episodes.state_names, angles))
    if changes is None:
        return episodes
    if changes.cut is not None:
        episodes = cut(episodes, changes.cut)
    if changes.noise:
        scale = changes.noise[0] if len(changes.noise) == 1 else changes.noise
        episodes = add_noise(episodes, scale, key=jax.random.key(changes.noise_seed))
    return episodes


def _check_steps(recordings: list[Recording], changes: Changes, time_step: float | None) -> None:
    """Refuse what cannot be sampled alike as it is, and speak of files with uneven steps."""
    if changes.every is not None and changes.resample is not None:
        raise InputError("--every and --resample are both given: choose one of them.")
    if changes.resample is None:
        check_equal_steps(recordings, changes.every, time_step)
        note_uneven_steps(recordings, changes.every)


def note_on_pieces(changes: Changes) -> None:
    """Say what held-out pieces do not show, if recordings are cut before they are split."""
    if changes.cut is not None:
        warnings.warn(
            "Pieces of one recording are dealt into training and test alike: for the score on a new "
            "recording leave one out and give it to 'multistep score'.",
            stacklevel=2,
        )


def load_saved(path: Path, kinds: Sequence[str] = ()) -> Any:
    """The model in a file; the architectures of the user's own that it may be of are imported first."""
    for kind in kinds:
        import_named(kind, "architecture")
    return load_model(path)


def fitted_columns(model: Model | MemoryModel, path: Path, columns: Columns) -> Columns:
    """The columns, with those that the model in the file was trained on where no states or actions are named.

    Episodes that a fit could tell apart by a column would run into each other without a word of it: there is
    a note then.
    """
    fitted = _columns_of_fit(path)
    for name in ("episode", "time"):
        if fitted.get(name) and getattr(columns, name) is None:
            remark = (
                f"{path} was fitted with --{name} {fitted[name]}: give it here too if these files have that "
                "column."
            )
            warnings.warn(remark, stacklevel=2)
    return replace(
        columns,
        states=columns.states or model.state_names,
        actions=columns.actions or model.action_names,
        angles=columns.angles or tuple(fitted.get("angles", ())),
    )


def check_same_step(own: float | None, other: float | None, changes: Changes | None = None) -> None:
    """Raise an `InputError` if both time steps are known and differ; `changes` are those that the user has
    asked for."""
    if own is None or other is None or is_same_step(own, other):
        return
    remedies = [remedy_for_step(own, other, changes or Changes()), "fit anew"]
    raise InputError(
        f"The model's step is {own:g}, these files have a sample every {other:g}: "
        f"{', or '.join(filter(None, remedies))}."
    )


def check_same_step_in_test(train: float | None, test: float | None, changes: Changes) -> None:
    """The same for the files that are trained on and those that are held out: a change is made to both."""
    if train is None or test is None or is_same_step(train, test):
        return
    instead = f" in place of --every {changes.every}" if changes.every else ""
    raise InputError(
        f"The training data's step is {train:g}, the test files have a sample every {test:g}: add --resample "
        f"{max(train, test) / (changes.every or 1):g}{instead}, or use other test files."
    )


def remedy_for_step(own: float, other: float, changes: Changes) -> str:
    """What gives files this step that have the other one after the changes; nothing if nothing does."""
    if changes.resample is not None:
        return f"leave out --resample {changes.resample:g}"  # what the files have then is said next
    plain = other / (changes.every or 1)
    instead = f" in place of --every {changes.every}" if changes.every else ""
    if is_same_step(plain, own):
        return f"leave out --every {changes.every}"
    way = way_to_step(plain, own)
    return f"add {way}{instead}" if way else ""


def _columns_of_fit(path: Path) -> dict[str, Any]:
    """The columns of the run that left the model, as far as the folder of the file still knows."""
    config = _config_of_fit(path)
    try:
        found = dict(config.get("source", config)["columns"])  # older runs have the columns by themselves
    except (ValueError, KeyError, TypeError, AttributeError):
        return {}
    is_known = is_list_of(str, found.get("angles", ())) and all(
        isinstance(found.get(name), str | None) for name in ("episode", "time")
    )
    return found if is_known else {}


def changes_of_fit(path: Path) -> Changes:
    """How the samples were taken that the model was fitted to, as far as the folder of the file still
    knows."""
    found = _config_of_fit(path).get("changes")
    found = found if isinstance(found, dict) else {}
    every, step = found.get("every"), found.get("resample")
    return Changes(
        resample=float(step) if isinstance(step, int | float) else None,
        every=every if isinstance(every, int) else None,
    )


def _config_of_fit(path: Path) -> dict[str, Any]:
    try:
        return dict(parse_json(path.with_name("config.json").read_bytes())["config"])
    except (OSError, ValueError, KeyError, TypeError):
        return {}


def _known_angles(source: Source) -> tuple[str, ...]:
    """The angles of a dataset of the paper."""
    return next((CATALOGUE[name].task.angles for name in source.files if name in CATALOGUE), ())


def _resolved(name: str) -> str:
    """The file behind a name of the catalogue, its checksum verified; any other name as it is."""
    return str(verified_path(CATALOGUE[name])) if name in CATALOGUE else name
