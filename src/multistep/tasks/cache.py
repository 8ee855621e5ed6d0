"""Where collected datasets are kept: a `.npz` file each, with its recipe and checksum in a `.json` file
beside it.

Those that cost hours come with multistep, and are found there unless the user has made them anew.
"""

import hashlib
import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import platformdirs

from multistep.data import Episodes, load
from multistep.data.npz_files import save_npz
from multistep.errors import InputError
from multistep.runs.atomic import write_text
from multistep.runs.json_texts import parse_json
from multistep.tasks.catalogue import Dataset, find_dataset

VARIABLE = "MULTISTEP_DATASETS"
PACKAGE = Path(__file__).parents[1]
SHIPPED = (PACKAGE / "datasets", PACKAGE.parents[1] / "datasets")
"""Datasets that come with multistep: inside an installed package, or beside the `src` of a checkout."""


@dataclass(frozen=True)
class CachedDataset:
    """What is known of a dataset on disk without reading it."""

    num_episodes: int
    num_steps: int
    return_mean: float
    return_deviation: float
    sha256: str
    recipe: dict[str, Any]
    versions: dict[str, str | None]


def datasets_folder(folder: Path | None = None) -> Path:
    """This folder, or that of the environment variable MULTISTEP_DATASETS, or the platform's place for
    caches."""
    if folder is not None:
        return folder
    chosen = os.environ.get(VARIABLE)
    return (
        Path(chosen).expanduser() if chosen else Path(platformdirs.user_cache_dir("multistep")) / "datasets"
    )


def load_dataset(name: str, folder: Path | None = None) -> Episodes:
    """The episodes of a dataset of the paper, once `multistep collect` has made it.

    **Arguments:**

    - `name`: as `multistep datasets` lists them: `cartpole/random`.
    - `folder`: where they are kept, if not in MULTISTEP_DATASETS or the platform's cache folder. A damaged
      file there is refused.
    """
    dataset = find_dataset(name)
    return load(verified_path(dataset, folder), angles=dataset.task.angles)


def verified_path(dataset: Dataset, folder: Path | None = None) -> Path:
    """Where the dataset is, if it is there and as it was written."""
    kept = cached(dataset, folder)
    if kept is None:
        raise InputError(
            f"The dataset {dataset.name} is not in {datasets_folder(folder)}: make it with 'multistep "
            f"collect {dataset.name}'."
        )
    path = dataset_path(dataset, folder)
    if _sha256(path) != kept.sha256:
        raise InputError(f"{path} is damaged (its checksum has changed): delete it and collect it again.")
    return path


def keep_dataset(
    dataset: Dataset, episodes: Episodes, versions: dict[str, str | None], folder: Path | None = None
) -> Path:
    """Write the episodes, then what is known of them; each file is whole or not there."""
    path = _path_in(datasets_folder(folder), dataset)
    save_npz(episodes, path, compressed=True)
    assert episodes.returns is not None
    kept = CachedDataset(
        num_episodes=len(episodes),
        num_steps=episodes.num_steps,
        return_mean=float(episodes.returns.mean()),
        return_deviation=float(episodes.returns.std()),
        sha256=_sha256(path),
        recipe=_recipe(dataset),
        versions=versions,
    )
    write_text(path.with_suffix(".json"), json.dumps(asdict(kept), indent=2) + "\n")
    return path


def cached(dataset: Dataset, folder: Path | None = None) -> CachedDataset | None:
    """What is known of the dataset if it is there."""
    return _read(dataset, dataset_path(dataset, folder))


def dataset_path(dataset: Dataset, folder: Path | None = None) -> Path:
    """Where the dataset is: in the user's folder, or among those that come with multistep; else where it
    would be."""
    own = _path_in(datasets_folder(folder), dataset)
    paths = (own, *(_path_in(shipped, dataset) for shipped in SHIPPED))
    return next((path for path in paths if _read(dataset, path) is not None), own)


def _path_in(folder: Path, dataset: Dataset) -> Path:
    return folder / f"{dataset.name}.npz"


def _read(dataset: Dataset, path: Path) -> CachedDataset | None:
    """What is known of this file, if it holds the dataset."""
    if not (path.exists() and path.with_suffix(".json").exists()):
        return None
    try:
        kept = CachedDataset(**parse_json(path.with_suffix(".json").read_bytes()))
        figures = (kept.num_episodes, kept.num_steps, kept.return_mean, kept.return_deviation)
        if not all(isinstance(figure, int | float) for figure in figures):
            raise ValueError(figures)
        # Made by another recipe, of an earlier version perhaps, it is another dataset.
        return kept if kept.recipe == _recipe(dataset) else None
    except (ValueError, TypeError) as error:
        raise InputError(
            f"{path.with_suffix('.json')} is damaged: delete it and collect the dataset again."
        ) from error


def _recipe(dataset: Dataset) -> dict[str, Any]:
    """The recipe in terms of JSON, as it is read back."""
    return json.loads(json.dumps({"kind": type(dataset.recipe).__name__, **asdict(dataset.recipe)}))


def _sha256(path: Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
