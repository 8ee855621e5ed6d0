"""Episodes in Minari's datasets, by id (`D4RL/pen/human-v2`) or by the path of their folder."""

import os
import re
import shutil
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy import ndarray

from multistep.data.columns import Columns
from multistep.data.doors import damaged_files_are_said
from multistep.data.episodes import Episodes
from multistep.data.hdf5_checks import check_hdf5
from multistep.data.recording import Recording, as_floats, column_names
from multistep.errors import InputError
from multistep.runs.atomic import reserve
from multistep.runs.leftovers import sweep_leftovers, temporary_beside

ENDING = re.compile(r".*\w-v\d+/?")
HDF5 = "main_data.hdf5"
METADATA = (
    "multistep"  # where names of columns are kept, and whether there are rewards; other readers ignore it
)


def is_minari(name: str | Path) -> bool:
    """Whether this names a Minari dataset rather than a file: an id, or a folder with Minari's metadata."""
    path = Path(name)
    return (path / "data" / "metadata.json").is_file() or (
        ENDING.fullmatch(str(name)) is not None and not path.is_file()
    )


def _is_path(name: str | Path) -> bool:
    return str(name).startswith(("/", ".", "~"))


def read_minari(name: str, columns: Columns) -> list[Recording]:
    """The episodes of one dataset, with the named columns or all of them."""
    import minari

    folder = Path(name)
    if not (folder / "data").is_dir() and _is_path(name):
        raise InputError(f"There is no Minari dataset at {name}: check the path.")
    if not (folder / "data").is_dir():
        folder = _root() / name
        if not (folder / "data").is_dir():
            raise InputError(
                f"There is no Minari dataset {name} in {_root()} (there: {_those_there()}): check the id, "
                f"or fetch it with 'minari download {name}'."
            )
    remedy = "download or write it again"
    if (folder / "data" / HDF5).is_file():
        check_hdf5(folder / "data" / HDF5, (), "a Minari dataset", remedy)
    with damaged_files_are_said(name, "a Minari dataset", remedy):
        dataset = minari.MinariDataset(folder / "data")
        spaces = [dataset.observation_space, dataset.action_space]
        shapes = [tuple(space.shape or ()) for space in spaces]
        known = dataset.storage.metadata.get(METADATA)
    for space, shape in zip(spaces, shapes, strict=True):
        if len(shape) != 1:
            raise InputError(
                f"{name} has observations or actions in {space}: only arrays with one axis can be used."
            )
    with damaged_files_are_said(name, "a Minari dataset", remedy):
        parts = [
            tuple(np.asarray(part) for part in (episode.observations, episode.actions, episode.rewards))
            for episode in dataset.iterate_episodes()
        ]
    known = known if isinstance(known, dict) else {}
    return [_recording(name, parts, known).pick(columns.states, columns.actions)]


def save_minari(episodes: Episodes, name: str | Path) -> None:
    """Write a new dataset, whole or not at all: in Minari's own folder, or at a path if the name starts with
    / or a dot."""
    from minari.dataset.minari_dataset import parse_dataset_id

    target = Path(name) if _is_path(name) else _root() / name
    dataset_id = target.name if _is_path(name) else str(name)
    try:
        parse_dataset_id(dataset_id)
    except ValueError as error:
        raise InputError(
            f"{name} is no id that Minari takes: write a name of letters, digits and _, with a version, such "
            "as lab/plant-v0."
        ) from error
    if target.exists():
        raise InputError(
            f"There is a dataset or folder {name} already: choose another version, or delete {target}."
        )
    staging = None
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        # Beside the target, so that moving it there is one step; with a dot first, so that Minari does not
        # list it.
        sweep_leftovers(target.parent.resolve())
        staging = temporary_beside(target.resolve())
        staging.mkdir(mode=0o700)
        # HDF5 does not survive a disk that is full: better not to begin.
        reserve(staging / "reserved", _size(episodes))
        with _minari_root(staging), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # advice on metadata that nobody has
            _create(episodes, dataset_id)
        os.replace(staging / dataset_id, target)
    except OSError as error:
        raise InputError(
            f"Cannot write {name}: {error.strerror or error}; free some space or choose another place."
        ) from error
    finally:
        if staging is not None:
            shutil.rmtree(staging, ignore_errors=True)


def _size(episodes: Episodes) -> int:
    """What the dataset will take at most: five arrays and a group per episode beside the data."""
    return int(
        1.1 * (episodes.states.nbytes + episodes.actions.nbytes + 10 * episodes.num_steps)
    ) + 20_000 * len(episodes)


def _create(episodes: Episodes, dataset_id: str) -> None:
    import minari
    from gymnasium.spaces import Box
    from minari.data_collector import EpisodeBuffer

    observation_space, action_space = (
        Box(-np.inf, np.inf, (values.shape[1],), values.dtype)  # pyright: ignore[reportArgumentType]
        for values in (episodes.states, episodes.actions)
    )
    buffers = []
    for number in range(len(episodes)):
        states, actions, rewards = episodes[number]
        last = np.arange(len(actions)) == len(actions) - 1
        buffers.append(
            EpisodeBuffer(
                id=number,
                observations=states,  # pyright: ignore[reportArgumentType] - arrays are what is stored in the end
                actions=actions,  # pyright: ignore[reportArgumentType]
                rewards=np.zeros(len(actions)) if rewards is None else rewards,  # pyright: ignore[reportArgumentType]
                terminations=np.zeros_like(last),  # pyright: ignore[reportArgumentType]
                truncations=last,  # pyright: ignore[reportArgumentType]
            )
        )
    dataset = minari.create_dataset_from_buffers(
        dataset_id,
        buffers,
        observation_space=observation_space,
        action_space=action_space,
        description="Written by multistep.",
        algorithm_name="unknown",
        author={"unknown"},
    )
    names = {
        "states": episodes.state_names,
        "actions": episodes.action_names,
        "rewards": episodes.rewards is not None,
    }
    dataset.storage.update_metadata({METADATA: names})


def _recording(source: str, parts: list[tuple[ndarray, ...]], names: Mapping[str, Any]) -> Recording:
    if not parts:
        raise InputError(f"{source} has no episodes.")
    for number, (observations, actions, rewards) in enumerate(parts):
        _check_episode(source, number, observations, actions, rewards, parts[0])
    lengths = np.array([len(actions) for _, actions, _ in parts])
    states, actions, rewards = (np.concatenate([part[index] for part in parts]) for index in range(3))
    return Recording(
        source=source,
        states=as_floats(source, "observations", states, 2),
        actions=as_floats(source, "actions", actions, 2),
        rewards=as_floats(source, "rewards", rewards, 1) if names.get("rewards", True) else None,
        lengths=lengths,
        first_rows=np.zeros(len(lengths), int),
        state_names=column_names(source, _listed(names.get("states")), "state", states.shape[1]),
        action_names=column_names(source, _listed(names.get("actions")), "action", actions.shape[1]),
    )


def _check_episode(
    source: str,
    number: int,
    observations: ndarray,
    actions: ndarray,
    rewards: ndarray,
    first: tuple[ndarray, ...],
) -> None:
    """Raise an `InputError` unless the episode has what it needs, in the shapes of the first one."""
    for what, values, like in zip(
        ("observations", "actions", "rewards"), (observations, actions, rewards), first, strict=True
    ):
        axes = 1 if what == "rewards" else 2
        if values.ndim != axes or values.dtype.kind not in "fiub" or values.shape[1:] != like.shape[1:]:
            raise InputError(
                f"Episode {number} of {source} has {what} of shape {values.shape} and type {values.dtype}: "
                "write them as numbers, alike in all episodes."
            )
    if len(actions) == 0 or len(observations) != len(actions) + 1 or len(rewards) != len(actions):
        raise InputError(
            f"Episode {number} of {source} has {len(observations)} observations and {len(actions)} "
            "actions: write it again."
        )


def _listed(names: Any) -> Sequence[object]:
    return names if isinstance(names, list | tuple) else ()


def _those_there() -> str:
    """Ids of the datasets in Minari's folder; one with a malformed name makes Minari's own list fail."""
    found = sorted(
        path.parents[1].relative_to(_root()).as_posix() for path in _root().glob("**/data/metadata.json")
    )
    return ", ".join(found) or "none"


def _root() -> Path:
    """Where Minari keeps its datasets."""
    from minari.storage.datasets_root_dir import get_dataset_path

    return get_dataset_path()


@contextmanager
def _minari_root(folder: Path) -> Iterator[None]:
    before = os.environ.get("MINARI_DATASETS_PATH")
    os.environ["MINARI_DATASETS_PATH"] = str(folder)
    try:
        yield
    finally:
        if before is None:
            del os.environ["MINARI_DATASETS_PATH"]
        else:
            os.environ["MINARI_DATASETS_PATH"] = before
