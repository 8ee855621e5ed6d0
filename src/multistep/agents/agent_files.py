"""Agents in files of our own: arrays and JSON, which loading does not execute.

sbx's `agent.zip` holds pickled objects, and loading those runs whatever code is in them. So an
`agent.safetensors` stands beside each that we write, and that is what is loaded; an `agent.zip` of somebody
else is loaded only where the user trusts it.
"""

import hashlib
import zipfile
from collections import deque
from pathlib import Path
from typing import TYPE_CHECKING, Any

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
from gymnasium import spaces
from numpy import ndarray

from multistep.agents.sbx_agents import sbx_sac
from multistep.errors import InputError, reason_of
from multistep.runs.array_files import read_arrays, write_arrays
from multistep.runs.atomic import replacing
from multistep.runs.provenance import plain

if TYPE_CHECKING:
    from sbx import SAC

ZIP, OWN = "agent.zip", "agent.safetensors"
KIND, VERSION = "multistep agent", 1
COUNTS = ("num_timesteps", "_n_updates", "_episode_num")
ZIP_MEMBER = "data"
"""Where sbx's file has its settings."""


def save_agent(agent: "SAC", folder: Path) -> None:
    """Leave both files of the agent in the folder: ours, and the one that `sbx.SAC.load` reads."""
    with replacing(folder / ZIP) as temporary:
        agent.save(temporary)
    action_space: Any = agent.action_space
    header = {
        "version": VERSION,
        "states": spaces.flatdim(agent.observation_space),
        "low": action_space.low.tolist(),
        "high": action_space.high.tolist(),
        "gamma": float(agent.gamma),
        "counts": {name: int(getattr(agent, name)) for name in COUNTS},
        "returns": [
            {name: float(value) for name, value in info.items()} for info in agent.ep_info_buffer or ()
        ],
        "zip": _digest(folder / ZIP),
    }
    write_arrays(
        folder / OWN, KIND, plain(header), {name: np.asarray(a) for name, a in _named(agent).items()}
    )


def load_agent(path: Path, *, state_size: int, action_size: int, trust: bool = False) -> "SAC":
    """The agent in a file, if it is for states and actions of these sizes.

    **Arguments:**

    - `path`: the `agent.safetensors` of a training, or the `agent.zip` beside it.
    - `trust`: whether an `agent.zip` that we did not write may be loaded, which runs the code in it.
    """
    own = _own_file(path)
    if own is None and not trust:
        raise InputError(
            f"{path} has no {OWN} beside it that was saved with it, and loading it would run the code in it: "
            f"give the {OWN} of a training, or add --trust if you know who made the file."
        )
    agent = _foreign(path) if own is None else _own(own, state_size, action_size)
    _check_sizes(
        path,
        (spaces.flatdim(agent.observation_space), spaces.flatdim(agent.action_space)),
        state_size,
        action_size,
    )
    return agent


def restore(agent: "SAC", path: Path) -> None:
    """Put into this agent what is in the file: parameters, the optimisers' moments, keys and counts."""
    _fill(agent, path, *_read(path))


def _own_file(path: Path) -> Path | None:
    """Ours behind this name; none if there is only somebody else's."""
    if path.suffix == Path(OWN).suffix:
        return path
    _check_zip(path)
    beside = path.with_suffix(Path(OWN).suffix)
    if not beside.is_file():
        return None
    return beside if _read(beside)[0].get("zip") == _digest(path) else None


def _own(path: Path, state_size: int, action_size: int) -> "SAC":
    header, arrays = _read(path)
    try:
        low, high = (np.asarray(header[name], np.float32) for name in ("low", "high"))
        if (
            low.shape != high.shape
            or low.ndim != 1
            or not (np.isfinite(low) & np.isfinite(high) & (low < high)).all()
        ):
            raise ValueError("its range of actions is none")
        states = int(header["states"])
    except (KeyError, TypeError, ValueError) as error:
        raise _damaged(path) from error
    _check_sizes(path, (states, len(low)), state_size, action_size)
    agent = sbx_sac()("MlpPolicy", _Spaces(states, low, high), buffer_size=1)
    _fill(agent, path, header, arrays)
    return agent


def _foreign(path: Path) -> "SAC":
    sac = sbx_sac()
    try:
        return sac.load(path)
    except Exception as error:  # a zip of whatever else raises whatever
        raise InputError(f"{path} is not an agent that sbx can load: {reason_of(error)}.") from error


def _read(path: Path) -> tuple[dict[str, Any], dict[str, ndarray]]:
    header, arrays, is_whole = read_arrays(path, KIND, str(_damaged(path)))
    if header is None or not is_whole or header.get("version") != VERSION:
        raise _damaged(path)
    return header, arrays


def _fill(agent: "SAC", path: Path, header: dict[str, Any], arrays: dict[str, ndarray]) -> None:
    expected = _named(agent)
    if {name: np.shape(leaf) for name, leaf in expected.items()} != {
        name: a.shape for name, a in arrays.items()
    }:
        raise InputError(
            f"The agent in {path} was trained on another task, or with other settings: choose another place."
        )
    for name, leaf in expected.items():
        kind = np.asarray(leaf).dtype.kind
        if arrays[name].dtype.kind != kind or (kind == "f" and not np.isfinite(arrays[name]).all()):
            raise _damaged(path)
    leaves = [jnp.asarray(arrays[name]) for name in expected]
    filled = jax.tree.unflatten(jax.tree.structure(_parts(agent)), leaves)
    policy: Any = agent.policy
    policy.actor_state, policy.qf_state, agent.ent_coef_state, agent.key, policy.key, policy.noise_key = (
        filled
    )
    try:
        for name in COUNTS:
            setattr(agent, name, int(header["counts"][name]))
        returns = [{key: float(value) for key, value in info.items()} for info in header["returns"]]
        agent.gamma = float(header["gamma"])
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise _damaged(path) from error
    window: Any = agent._stats_window_size
    agent.ep_info_buffer, agent.ep_success_buffer = deque(returns, maxlen=window), deque(maxlen=window)


def _parts(agent: "SAC") -> tuple[Any, ...]:
    """All that training changes."""
    policy: Any = agent.policy
    return policy.actor_state, policy.qf_state, agent.ent_coef_state, agent.key, policy.key, policy.noise_key


def _named(agent: "SAC") -> dict[str, Any]:
    leaves = jax.tree_util.tree_leaves_with_path(_parts(agent))
    return {jax.tree_util.keystr(place): leaf for place, leaf in leaves}


class _Spaces(gymnasium.Env[Any, Any]):
    """States and actions of these sizes, and nothing that happens."""

    def __init__(self, states: int, low: ndarray, high: ndarray) -> None:
        self.observation_space = spaces.Box(-np.inf, np.inf, (states,), np.float32)
        self.action_space = spaces.Box(low, high, dtype=np.float32)


def _check_sizes(path: Path, found: tuple[int, int], state_size: int, action_size: int) -> None:
    if found != (state_size, action_size):
        raise InputError(
            f"The agent in {path} acts on {found[0]} states with {found[1]} actions, the model has "
            f"{state_size} and {action_size}: give an agent that was trained for this task."
        )


def _check_zip(path: Path) -> None:
    """Refuse what cannot be an agent of sbx, without loading anything of it."""
    try:
        with zipfile.ZipFile(path) as archive:
            reason = None if ZIP_MEMBER in archive.namelist() else "it is another kind of archive"
    except Exception as error:  # a damaged one raises whatever
        reason = reason_of(error)
    if reason is not None:
        raise InputError(f"{path} is not an agent that sbx can load: {reason}.")


def _damaged(path: Path) -> InputError:
    return InputError(f"The agent {path} is damaged, or is none of multistep's: train it again.")


def _digest(path: Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
