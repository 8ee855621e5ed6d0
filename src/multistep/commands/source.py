"""Episodes as commands take them: files, Minari datasets, or names of the catalogue; cut, and with noise, if
asked."""

import json
import warnings
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax

from multistep.data import Columns, Episodes, add_noise, as_episodes, cut, read
from multistep.data.recording import Recording
from multistep.dynamics import MemoryModel, Model, load_model
from multistep.registry import import_named
from multistep.tasks.cache import verified_path
from multistep.tasks.catalogue import CATALOGUE


def read_recordings(files: Sequence[str], columns: Columns) -> list[Recording]:
    """What is in the files, not yet checked for missing values."""
    return read([_resolved(name) for name in files], columns)


def read_episodes(
    files: Sequence[str],
    columns: Columns,
    *,
    steps: int | None = None,
    noise: Sequence[float] = (),
    noise_seed: int = 0,
) -> Episodes:
    """The episodes in the files, cut to `steps` steps, with Gaussian noise of these scales."""
    episodes = as_episodes(read_recordings(files, columns))
    if steps is not None:
        episodes = cut(episodes, steps)
        warnings.warn(
            "Pieces of one recording are dealt into training and test alike: for the score on a new "
            "recording leave one out "
            "and give it to 'multistep score'.",
            stacklevel=2,
        )
    if noise:
        scale = noise[0] if len(noise) == 1 else tuple(noise)
        episodes = add_noise(episodes, scale, key=jax.random.key(noise_seed))
    return episodes


def load_saved(path: Path, kinds: Sequence[str] = ()) -> Any:
    """The model in a file; the architectures of the user's own that it may be of are imported first."""
    for kind in kinds:
        import_named(kind, "architecture")
    return load_model(path)


def columns_of(model: Model | MemoryModel, path: Path, columns: Columns) -> Columns:
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
        columns, states=columns.states or model.state_names, actions=columns.actions or model.action_names
    )


def _columns_of_fit(path: Path) -> dict[str, Any]:
    """The columns of the run that left the model, as far as the folder of the file still knows."""
    try:
        return dict(json.loads(path.with_name("config.json").read_text())["config"]["columns"])
    except (OSError, ValueError, KeyError, TypeError):
        return {}


def _resolved(name: str) -> str:
    """The file behind a name of the catalogue, its checksum verified; any other name as it is."""
    return str(verified_path(CATALOGUE[name])) if name in CATALOGUE else name
