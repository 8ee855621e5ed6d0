"""`multistep collect` and `multistep datasets`: the datasets of the paper."""

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import tyro

from multistep.agents.collecting import collect, forget_training
from multistep.tasks.cache import cached, dataset_path, datasets_folder, verified_path
from multistep.tasks.catalogue import CATALOGUE, Dataset, find_dataset


@dataclass(frozen=True)
class CollectConfig:
    """Make a dataset of the paper and keep it in the cache."""

    name: Annotated[str, tyro.conf.Positional]
    """Name in the catalogue; `multistep datasets` lists them."""
    anew: bool = False
    """Make it again even if it is there; one that was interrupted goes on."""
    cache: Path | None = None
    """Folder of the datasets (default: MULTISTEP_DATASETS, or the platform's cache folder)."""


@dataclass(frozen=True)
class DatasetsConfig:
    """List the datasets of the paper."""

    cache: Path | None = None
    """Folder of the datasets (default: MULTISTEP_DATASETS, or the platform's cache folder)."""


def run_collect(config: CollectConfig) -> dict[str, Any]:
    """Collect the dataset unless it is there already; return what is known of it."""
    dataset = find_dataset(config.name)
    started = time.perf_counter()
    present = not config.anew and cached(dataset, config.cache) is not None
    if present:
        verified_path(dataset, config.cache)
    else:
        forget_training(dataset, datasets_folder(config.cache))
        collect(dataset, config.cache)
    return _row(dataset, config.cache) | {
        "path": dataset_path(dataset, config.cache),
        "was_present": present,
        "seconds": time.perf_counter() - started,
    }


def run_datasets(config: DatasetsConfig) -> list[dict[str, Any]]:
    """One row per dataset of the catalogue."""
    return [_row(dataset, config.cache) for dataset in CATALOGUE.values()]


def _row(dataset: Dataset, folder: Path | None) -> dict[str, Any]:
    kept = cached(dataset, folder)
    return {
        "name": dataset.name,
        "present": kept is not None,
        "episodes": dataset.num_episodes,
        "split": "/".join(map(str, dataset.split)),
        "policy": dataset.policy,
        "return_mean": None if kept is None else kept.return_mean,
        "return_deviation": None if kept is None else kept.return_deviation,
    }
