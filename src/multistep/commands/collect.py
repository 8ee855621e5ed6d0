"""`multistep collect` and `multistep datasets`: the datasets of the paper."""

import shutil
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import jax
import tyro
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from multistep.agents import model_free
from multistep.agents.online import collect_online
from multistep.data import Episodes
from multistep.runs.atomic import alone_with
from multistep.runs.provenance import versions
from multistep.tasks.cache import cached, dataset_path, datasets_folder, keep_dataset, verified_path
from multistep.tasks.catalogue import (
    CATALOGUE,
    AgentReplay,
    AgentRollouts,
    AgentTraining,
    Dataset,
    OnlineLoop,
    RandomPolicy,
    find_dataset,
)


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
        _forget_training(dataset, datasets_folder(config.cache))
        collect(dataset, config.cache)
    return _row(dataset, config.cache) | {
        "path": dataset_path(dataset, config.cache),
        "was_present": present,
        "seconds": time.perf_counter() - started,
    }


def run_datasets(config: DatasetsConfig) -> list[dict[str, Any]]:
    """One row per dataset of the catalogue."""
    return [_row(dataset, config.cache) for dataset in CATALOGUE.values()]


def collect(dataset: Dataset, folder: Path | None = None) -> Path:
    """Make the dataset by its recipe and keep it."""
    path = keep_dataset(dataset, _make(dataset, datasets_folder(folder)), versions(), folder)
    shutil.rmtree(_loop_folder(dataset, datasets_folder(folder)), ignore_errors=True)
    return path


def _make(dataset: Dataset, folder: Path) -> Episodes:
    match dataset.recipe:
        case RandomPolicy(seed):
            return dataset.task.collect_random(dataset.num_episodes, key=jax.random.key(seed))
        case AgentReplay(training):
            return _train(dataset, training, folder)[1].take(range(dataset.num_episodes))
        case AgentRollouts(training, seed):
            agent, _ = _train(dataset, training, folder)
            return model_free.act(agent, dataset.task, num_episodes=dataset.num_episodes, seed=seed)
        case OnlineLoop() as loop:
            return _learn_online(dataset, loop, folder)


def _forget_training(dataset: Dataset, folder: Path) -> None:
    """Remove the training behind a dataset that is there already; one that was not finished goes on."""
    match dataset.recipe:
        case AgentReplay(training) | AgentRollouts(training, _):
            checkpoints = _training_folder(dataset, training, folder)
            if cached(dataset, folder) is not None and model_free.is_finished(
                checkpoints, training.num_episodes
            ):
                shutil.rmtree(checkpoints)
        case _:
            pass


def _training_folder(dataset: Dataset, training: AgentTraining, folder: Path) -> Path:
    return folder / dataset.task.name / f"training_{training.num_episodes}_seed_{training.seed}"


def _train(dataset: Dataset, training: AgentTraining, folder: Path) -> tuple[Any, Episodes]:
    """The agent and its episodes; datasets of the same training share it, and a killed one goes on."""
    task, checkpoints = dataset.task, _training_folder(dataset, training, folder)
    with alone_with(checkpoints), counting_progress() as progress:
        bar = progress.add_task(
            f"SAC on {task.name}, steps", total=training.num_episodes * task.episode_steps
        )
        return model_free.train(
            task,
            num_episodes=training.num_episodes,
            seed=training.seed,
            folder=checkpoints,
            on_steps=lambda steps: progress.update(bar, completed=steps),
        )


def _learn_online(dataset: Dataset, loop: OnlineLoop, folder: Path) -> Episodes:
    """All episodes of the loop; a killed one goes on from its last whole episode."""
    with alone_with(_loop_folder(dataset, folder)), counting_progress() as progress:
        bar = progress.add_task(
            f"Model-based SAC on {dataset.task.name}, episodes", total=dataset.num_episodes
        )

        def tell(number: int, total: float | None) -> None:
            progress.update(bar, completed=number)
            if total is not None:
                progress.console.print(f"{dataset.name}: episode {number}, return {total:.0f}")

        return collect_online(
            dataset.task,
            loop,
            num_episodes=dataset.num_episodes,
            folder=_loop_folder(dataset, folder),
            on_episode=tell,
        )


def _loop_folder(dataset: Dataset, folder: Path) -> Path:
    """Where the episodes of a loop under way are kept."""
    return folder / f"{dataset.name}_loop"


def counting_progress() -> Progress:
    """A bar with steps or episodes done, and the time left."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    return Progress(*columns, console=Console(stderr=True))


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
