"""Episodes in NumPy's `.npz`: the flat arrays of `Episodes`, bit for bit."""

import zipfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from multistep.data.atomic import replacing
from multistep.data.episodes import Episode, Episodes
from multistep.errors import InputError


def save_npz(episodes: Episodes, path: Path) -> None:
    arrays = {
        "states": episodes.states,
        "actions": episodes.actions,
        "lengths": episodes.lengths,
        "state_names": np.array(episodes.state_names),
        "action_names": np.array(episodes.action_names),
    }
    if episodes.rewards is not None:
        arrays["rewards"] = episodes.rewards
    with replacing(path) as temporary:
        np.savez(temporary, allow_pickle=False, **arrays)


def load_npz(paths: Sequence[Path], *, states: Sequence[str], actions: Sequence[str]) -> Episodes:
    """The episodes of all the files, in order, with the named columns or all of them."""
    read = [_pick(path, _read(path), states, actions) for path in paths]
    first = read[0]
    for path, episodes in zip(paths, read, strict=True):
        if (episodes.state_names, episodes.action_names) != (first.state_names, first.action_names):
            raise InputError(f"{path} and {paths[0]} have different columns: load them apart or name the columns to use.")
    return Episodes.of(
        [episodes[number] for episodes in read for number in range(len(episodes))],
        state_names=first.state_names,
        action_names=first.action_names,
    )


def _read(path: Path) -> Episodes:
    try:
        # Pickled objects inside the file are refused: reading data never executes code.
        with open(path, "rb") as file, np.load(file, allow_pickle=False) as archive:
            arrays = dict(archive)
    except (OSError, ValueError, EOFError, zipfile.BadZipFile, KeyError) as error:
        raise InputError(
            f"{path} cannot be read as .npz ({_first_line(error)}): write it again, without object arrays."
        ) from error
    missing = [name for name in ("states", "actions", "lengths") if name not in arrays]
    if missing:
        raise InputError(
            f"{path} has no array {', '.join(missing)} (it has {', '.join(sorted(arrays)) or 'none'}): it needs states, "
            "actions and lengths, the episodes one after the other."
        )
    return _cut_apart(path, arrays)


def _cut_apart(path: Path, arrays: dict[str, np.ndarray]) -> Episodes:
    lengths = arrays["lengths"]
    if lengths.ndim != 1 or lengths.dtype.kind not in "iu" or (lengths < 1).any():
        raise InputError(f"The array lengths of {path} must hold the number of steps of each episode, whole and at least 1.")
    steps, num_states = int(lengths.sum()), int(lengths.sum()) + len(lengths)
    for name, rows in (("states", num_states), ("actions", steps), ("rewards", steps)):
        if name in arrays and len(np.atleast_1d(arrays[name])) != rows:
            raise InputError(
                f"The array {name} of {path} has {len(np.atleast_1d(arrays[name]))} rows, its lengths ask for {rows}: "
                "an episode of T steps has T+1 states, T actions and T rewards."
            )
    ends = np.cumsum(lengths)
    states = np.split(arrays["states"], (ends + np.arange(1, len(ends) + 1))[:-1])
    actions = np.split(arrays["actions"], ends[:-1])
    rewards = np.split(arrays["rewards"], ends[:-1]) if "rewards" in arrays else [None] * len(ends)
    try:
        return Episodes.of(
            map(Episode, states, actions, rewards),
            state_names=arrays.get("state_names", np.array([], str)).tolist(),
            action_names=arrays.get("action_names", np.array([], str)).tolist(),
        )
    except InputError as error:
        raise InputError(f"{path}: {error}") from error


def _pick(path: Path, episodes: Episodes, states: Sequence[str], actions: Sequence[str]) -> Episodes:
    chosen_states, chosen_actions = tuple(states) or episodes.state_names, tuple(actions) or episodes.action_names
    for wanted, there in ((chosen_states, episodes.state_names), (chosen_actions, episodes.action_names)):
        absent = [name for name in wanted if name not in there]
        if absent:
            raise InputError(f"{path} has no column {', '.join(absent)}; it has {', '.join(there)}.")
    return replace(
        episodes,
        states=episodes.states[:, [episodes.state_names.index(name) for name in chosen_states]],
        actions=episodes.actions[:, [episodes.action_names.index(name) for name in chosen_actions]],
        state_names=chosen_states,
        action_names=chosen_actions,
    )


def _first_line(error: Exception) -> str:
    return (str(error) or type(error).__name__).splitlines()[0].rstrip(".")
