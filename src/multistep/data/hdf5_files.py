"""Episodes in D4RL's `.hdf5`: one row per step in `observations`, `actions`, `rewards`, `terminals`,
`timeouts`.

With `next_observations` a row is a whole transition. Without them the last row of an episode has an action
whose outcome was not written: its state ends the episode and its action is left out.
"""

import warnings
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Bool, Int
from numpy import ndarray

from multistep.data.columns import Columns
from multistep.data.doors import damaged_files_are_said
from multistep.data.episodes import Episodes
from multistep.data.hdf5_checks import check_hdf5
from multistep.data.recording import Recording, as_floats, column_names
from multistep.errors import InputError, counted
from multistep.runs.atomic import replacing, reserve

CHUNK = 100_000  # rows compared at a time
ARRAYS = ("observations", "actions", "rewards", "terminals", "timeouts", "next_observations")
REMEDY = "download or write it again"


def save_hdf5(episodes: Episodes, path: Path) -> None:
    """Write all episodes, ended by `timeouts`; the names of the columns are attributes, which other readers
    ignore."""
    import h5py

    ends = np.cumsum(episodes.lengths) - 1
    first_states, last_states = (np.zeros(len(episodes.states), bool) for _ in range(2))
    first_states[episodes.state_offsets] = True
    last_states[episodes.state_offsets + episodes.lengths] = True
    timeouts = np.zeros(episodes.num_steps, bool)
    timeouts[ends] = True
    with replacing(path) as temporary:
        # HDF5 does not survive a disk that is full: better not to begin.
        reserve(
            temporary.with_name(temporary.name + ".reserved"),
            2 * episodes.states.nbytes + episodes.actions.nbytes,
        )
        with h5py.File(temporary, "w") as file:
            observed = file.create_dataset("observations", data=episodes.states[~last_states])
            observed.attrs["names"] = list(episodes.state_names)
            file.create_dataset("next_observations", data=episodes.states[~first_states])
            acted = file.create_dataset("actions", data=episodes.actions)
            acted.attrs["names"] = list(episodes.action_names)
            if episodes.rewards is not None:
                file.create_dataset("rewards", data=episodes.rewards)
            file.create_dataset("terminals", data=np.zeros_like(timeouts))
            file.create_dataset("timeouts", data=timeouts)


def read_hdf5(path: Path, columns: Columns) -> list[Recording]:
    """The episodes of one file, with the named columns or all of them."""
    import h5py

    check_hdf5(path, ARRAYS, ".hdf5", REMEDY)
    with ExitStack() as opened:
        with damaged_files_are_said(path, ".hdf5", REMEDY):
            file = opened.enter_context(h5py.File(path, "r"))
            arrays = {name: file[name] for name in file if name in ARRAYS}
            names = {what: _names(arrays[what]) for what in ARRAYS[:2] if what in arrays}
            known = ", ".join(sorted(file)) or "none"
        _check_present(str(path), arrays, known)
        return [_recording(str(path), arrays, names).pick(columns.states, columns.actions)]


def _check_present(source: str, arrays: Mapping[str, Any], known: str) -> None:
    missing = [name for name in ("observations", "actions") if name not in arrays]
    if missing:
        raise InputError(
            f"{source} has no array {', '.join(missing)} (it has {known}): a file in D4RL's layout has "
            "observations, actions, rewards, terminals and timeouts."
        )


def _recording(source: str, file: Mapping[str, Any], names: Mapping[str, list[str]]) -> Recording:
    for name in ARRAYS:
        if name in file:
            _check_shape(source, name, file)
    num_rows = len(file["observations"])
    for name in ("actions", "rewards", "terminals", "timeouts", "next_observations"):
        if name in file and len(file[name]) != num_rows:
            raise InputError(
                f"The array {name} of {source} has {len(file[name])} rows, observations has {num_rows}: "
                "write it again."
            )
    if num_rows == 0:
        raise InputError(f"{source} has no rows: it holds no episode.")
    bounds = _bounds(source, file, num_rows)
    has_next = "next_observations" in file
    states = _states(file, bounds)
    actions = as_floats(source, "actions", _within(file["actions"], bounds, drop_last=not has_next), 2)
    rewards = _within(file["rewards"], bounds, drop_last=not has_next) if "rewards" in file else None
    return Recording(
        source=source,
        states=states,
        actions=actions,
        rewards=None if rewards is None else as_floats(source, "rewards", rewards.reshape(len(rewards)), 1),
        lengths=bounds[:, 1] - bounds[:, 0] - (0 if has_next else 1),
        first_rows=bounds[:, 0],
        state_names=column_names(source, names["observations"], "state", states.shape[1]),
        action_names=column_names(source, names["actions"], "action", actions.shape[1]),
    )


def _check_shape(source: str, name: str, file: Any) -> None:
    """Raise an `InputError` unless the array holds numbers in D4RL's shape; one column may stand in an axis
    of its own."""
    array, wide = file[name], name in ("observations", "actions", "next_observations")
    shape, kind = getattr(array, "shape", ()), getattr(array, "dtype", np.dtype(object)).kind
    right = len(shape) == 2 if wide else len(shape) == 1 or (len(shape) == 2 and shape[1] == 1)
    if name == "next_observations":
        right &= shape[1:] == file["observations"].shape[1:]
    if not right or kind not in "fiub":
        expected = "(rows, columns)" if wide else "(rows,)"
        raise InputError(
            f"The array {name} of {source} has shape {shape}: write numbers with shape {expected}, as D4RL "
            "does."
        )


def _bounds(source: str, file: Any, num_rows: int) -> Int[ndarray, "episodes 2"]:
    """First row and row past the end of each episode: at a terminal, a timeout, or where the next row is not
    what came next."""
    ended = np.zeros(num_rows, bool)
    for name in ("terminals", "timeouts"):
        if name in file:
            ended |= np.asarray(file[name]).reshape(num_rows).astype(bool)
    if "next_observations" in file:
        ended |= _jumps(source, file, ended)
    elif "timeouts" not in file:
        warnings.warn(
            f"{source} has neither timeouts nor next_observations: episodes end only where terminals says "
            "so, and one that ran out of time is joined to the next.",
            stacklevel=2,
        )
    ended[-1] = True
    ends = np.flatnonzero(ended) + 1
    bounds = np.array([np.append(0, ends[:-1]), ends]).T
    # Without its outcome, an episode of one row has no step.
    long_enough = bounds[:, 1] - bounds[:, 0] >= (1 if "next_observations" in file else 2)
    if not long_enough.any():
        raise InputError(
            f"Every episode of {source} has one row and no next_observations: there is no step in it."
        )
    if not long_enough.all():
        warnings.warn(
            f"{source} has {counted(int((~long_enough).sum()), 'episode')} of one row whose outcome was not "
            "written: left out.",
            stacklevel=2,
        )
    return bounds[long_enough]


def _jumps(source: str, file: Any, ended: Bool[ndarray, " rows"]) -> Bool[ndarray, " rows"]:
    """Rows whose next observation is not the observation of the row after."""
    observations, following, jumps = (
        file["observations"],
        file["next_observations"],
        np.zeros(len(ended), bool),
    )
    for start in range(0, len(ended) - 1, CHUNK):
        end = min(start + CHUNK, len(ended) - 1)
        here, there = following[start:end], observations[start + 1 : end + 1]
        # Two missing values are the same: otherwise each would end an episode.
        jumps[start:end] = ((here != there) & ~((here != here) & (there != there))).any(axis=1)
    unannounced = int((jumps & ~ended).sum())
    if unannounced > len(ended) / 2:
        raise InputError(
            f"In {source} the next observation is not the observation of the row after it in {unannounced} "
            f"of {len(ended)} rows: these are single transitions out of order; give the rows in the order "
            "in which they were recorded."
        )
    if unannounced and "timeouts" in file:
        warnings.warn(
            f"{source} has {unannounced} rows that do not lead to the row after and are not marked as an "
            f"end, the first is {int(np.flatnonzero(jumps & ~ended)[0])}: a new episode starts after each.",
            stacklevel=2,
        )
    return jumps


def _states(file: Any, bounds: Int[ndarray, "episodes 2"]) -> ndarray:
    """The states of all episodes, read piece by piece so that they are in memory only once."""
    observations, following = file["observations"], file.get("next_observations")
    num_states = int((bounds[:, 1] - bounds[:, 0]).sum()) + (0 if following is None else len(bounds))
    precision = np.float32 if observations.dtype == np.float32 else np.float64
    states = np.empty((num_states, observations.shape[1]), precision)
    filled = 0
    for start in range(0, len(observations), CHUNK):
        rows = np.arange(start, min(start + CHUNK, len(observations)))
        episode = np.searchsorted(bounds[:, 1], rows, side="right")
        if following is None:
            kept = rows >= bounds[np.minimum(episode, len(bounds) - 1), 0]
            kept &= episode < len(bounds)
            states[filled : filled + kept.sum()] = observations[start : rows[-1] + 1][kept]
            filled += kept.sum()
        else:
            # Every episode before has one state more than it has rows.
            states[rows + episode] = observations[start : rows[-1] + 1]
            last = np.flatnonzero(rows + 1 == bounds[episode, 1])
            states[rows[last] + episode[last] + 1] = following[start : rows[-1] + 1][last] if len(last) else 0
    return states


def _within(values: Any, bounds: Int[ndarray, "episodes 2"], *, drop_last: bool) -> ndarray:
    """The rows of all episodes, with or without the last of each."""
    array = np.asarray(values)
    kept = np.zeros(len(array), bool)
    for start, end in bounds:
        kept[start : end - drop_last] = True
    return array if kept.all() else array[kept]


def _names(array: Any) -> list[str]:
    names = np.atleast_1d(array.attrs.get("names", ())).tolist()
    return [name.decode() if isinstance(name, bytes) else str(name) for name in names]
