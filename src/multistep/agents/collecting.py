"""`collect`: make a dataset of the paper by its recipe."""

import shutil
from pathlib import Path
from typing import Any

import jax

from multistep.agents import model_free
from multistep.agents.online import collect_online
from multistep.data import Episodes
from multistep.runs.atomic import alone_with
from multistep.runs.progress import counting_progress
from multistep.runs.provenance import versions
from multistep.tasks.cache import cached, datasets_folder, keep_dataset
from multistep.tasks.catalogue import (
    AgentReplay,
    AgentRollouts,
    AgentTraining,
    Dataset,
    OnlineLoop,
    RandomPolicy,
)


def collect(dataset: Dataset, folder: Path | None = None) -> Path:
    """Make the dataset by its recipe and keep it."""
    with alone_with(datasets_folder(folder) / dataset.name):
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
            return model_free.act_side_by_side(
                agent, dataset.task, num_episodes=dataset.num_episodes, seed=seed
            )
        case OnlineLoop() as loop:
            return _learn_online(dataset, loop, folder)


def forget_training(dataset: Dataset, folder: Path) -> None:
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
