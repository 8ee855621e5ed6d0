"""Episodes in NumPy's `.npz`: the flat arrays of `Episodes`, bit for bit."""

import json
from pathlib import Path
from typing import Any

import numpy as np

from multistep.data.archives import read_archive
from multistep.data.columns import Columns
from multistep.data.episodes import Episodes
from multistep.data.known import known_of, with_known
from multistep.data.recording import Recording, as_floats, column_names
from multistep.errors import InputError
from multistep.runs.atomic import replacing
from multistep.runs.json_texts import parse_json

ARRAYS = ("states", "actions", "lengths", "rewards", "state_names", "action_names", "known")


def save_npz(episodes: Episodes, path: Path, *, compressed: bool = False) -> None:
    arrays = {
        "states": episodes.states,
        "actions": episodes.actions,
        "lengths": episodes.lengths,
        "state_names": np.array(episodes.state_names),
        "action_names": np.array(episodes.action_names),
    }
    if episodes.rewards is not None:
        arrays["rewards"] = episodes.rewards
    if known := known_of(episodes):
        arrays["known"] = np.array(json.dumps(known))
    with replacing(path) as temporary:
        write = np.savez_compressed if compressed else np.savez
        write(temporary, allow_pickle=False, **arrays)


def read_npz(path: Path, columns: Columns) -> list[Recording]:
    """The episodes of one file, with the named columns or all of them."""
    arrays, names = read_archive(path, ARRAYS)
    missing = [name for name in ("states", "actions", "lengths") if name not in arrays]
    if missing:
        raise InputError(
            f"{path} has no array {', '.join(missing)} (it has {', '.join(names) or 'none'}): it "
            "needs states, actions and lengths, the episodes one after the other."
        )
    recording = with_known(_recording(str(path), arrays), _known(arrays))
    return [recording.pick(columns.states, columns.actions)]


def _recording(source: str, arrays: dict[str, np.ndarray]) -> Recording:
    lengths = arrays["lengths"]
    if lengths.ndim != 1 or lengths.dtype.kind not in "iu" or (lengths < 1).any() or len(lengths) == 0:
        raise InputError(
            f"The array lengths of {source} must hold the number of steps of each episode, whole and at "
            "least 1."
        )
    states, actions = (as_floats(source, name, arrays[name], 2) for name in ("states", "actions"))
    rewards = as_floats(source, "rewards", arrays["rewards"], 1) if "rewards" in arrays else None
    steps = sum(lengths.tolist())  # of any size: a sum of arrays would overflow
    num_states = steps + len(lengths)
    for name, values, rows in (
        ("states", states, num_states),
        ("actions", actions, steps),
        ("rewards", rewards, steps),
    ):
        if values is not None and len(values) != rows:
            raise InputError(
                f"The array {name} of {source} has {len(values)} rows, its lengths ask for {rows}: an "
                "episode of T steps has T+1 states, T actions and T rewards."
            )
    lengths = lengths.astype(np.int64)
    return Recording(
        source=source,
        states=states,
        actions=actions,
        rewards=rewards,
        lengths=lengths,
        first_rows=np.cumsum(lengths + 1) - lengths - 1,
        first_action_rows=np.cumsum(lengths) - lengths,
        state_names=column_names(source, _names(arrays, "state_names"), "state", states.shape[1]),
        action_names=column_names(source, _names(arrays, "action_names"), "action", actions.shape[1]),
    )


def _known(arrays: dict[str, np.ndarray]) -> dict[str, Any]:
    try:
        return dict(parse_json(str(arrays["known"])))
    except (KeyError, ValueError, TypeError):  # there is nothing, or it is another's
        return {}


def _names(arrays: dict[str, np.ndarray], name: str) -> list[object]:
    return np.atleast_1d(arrays.get(name, np.array([], str))).tolist()
