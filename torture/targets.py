"""What is damaged, and who reads it: whole files of every kind, each with the call that opens it."""

import base64
import json
import pickle
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import multistep as ms
from multistep.agents.agent_files import load_agent
from multistep.commands.source import changes_of_fit, fitted_columns
from multistep.dynamics import fit_normaliser, in_units
from multistep.runs.array_files import write_arrays
from multistep.runs.row_log import RowLog
from multistep.runs.run_folder import check_study
from multistep.runs.sweep import sweep
from multistep.tasks.cache import cached, keep_dataset
from multistep.tasks.catalogue import CATALOGUE
from multistep.training.checkpoint import Record, read_checkpoint, write_checkpoint
from multistep.training.history import Epoch

SPRUNG = "sprung"
"""A file that is there once a pickle has been executed."""
DATASET = CATALOGUE["cartpole/random"]
TREE = {"weights": jnp.arange(40.0).reshape(4, 10), "count": jnp.zeros((), int)}


@dataclass(frozen=True)
class Target:
    """One kind of file."""

    path: str
    """The file that is damaged."""
    open: Callable[[], Any]


class Trap:
    def __reduce__(self) -> tuple[Any, ...]:
        return open, (SPRUNG, "w")


def target_of(kind: str) -> Target:
    """The file of this kind, made in the folder that we are in."""
    return TARGETS[kind]()


def _table(ending: str) -> Target:
    columns = {"states": ["x", "v"], "actions": ["u"]}
    named = columns | {"episode": "episode"} if ending == "csv" else {}
    ms.save(_episodes(), f"a.{ending}")
    return Target(f"a.{ending}", lambda: ms.load(f"a.{ending}", **named))


def _minari(part: str) -> Target:
    ms.save(_episodes(), "./a-v0")
    return Target(f"a-v0/data/{part}", lambda: ms.load("./a-v0"))


def _model() -> Target:
    ms.save_model(_some_model(), "model.safetensors")
    return Target("model.safetensors", lambda: ms.load_model("model.safetensors"))


def _checkpoint() -> Target:
    record = Record("mine", (Epoch(0, (0.1,), (1.0,), 0.5, 1.0),), None)
    write_checkpoint(Path("c.safetensors"), TREE, record)
    return Target("c.safetensors", lambda: read_checkpoint(Path("c.safetensors"), TREE, "mine"))


def _rows() -> Target:
    log = RowLog(Path("rows.jsonl"))
    for number in range(5):
        log.append({"job": str(number), "outcome": "finished", "score": 0.5, "versions": {"jax": "0"}})
    return Target("rows.jsonl", lambda: sweep([], {}, log, None))  # pyright: ignore[reportArgumentType]


def _config() -> Target:
    columns = {"angles": ["x"], "episode": "e", "time": None}
    settings = {"recipe": None, "source": {"columns": columns}, "changes": {"every": 2}}
    Path("config.json").write_text(json.dumps({"command": "fit", "config": settings}))
    model, path = _some_model(), Path("model.safetensors")

    def read() -> None:
        check_study(Path(), "fit", recipe=None)
        changes_of_fit(path)
        fitted_columns(model, path, ms.data.Columns())

    return Target("config.json", read)


def _card() -> Target:
    keep_dataset(DATASET, ms.load_dataset(DATASET.name), {}, Path("cache"))
    return Target("cache/cartpole/random.json", lambda: cached(DATASET, Path("cache")))


def _foreign_agent() -> Target:
    """With a pickle that springs where it is loaded."""
    serialized = base64.b64encode(pickle.dumps(Trap())).decode()
    with zipfile.ZipFile("agent.zip", "w") as archive:
        archive.writestr("data", json.dumps({"policy_class": {":type:": "x", ":serialized:": serialized}}))
    return Target("agent.zip", lambda: load_agent(Path("agent.zip"), state_size=2, action_size=1))


def _own_agent() -> Target:
    """Of another task, so that it is refused as it is; what comes before that is what is tried."""
    header = {
        "version": 1,
        "states": 3,
        "low": [-1.0],
        "high": [1.0],
        "gamma": 0.99,
        "counts": {},
        "returns": [],
    }
    write_arrays(Path("own.safetensors"), "multistep agent", header, {"a": np.ones(9)})
    return Target("own.safetensors", lambda: load_agent(Path("own.safetensors"), state_size=2, action_size=1))


TARGETS: dict[str, Callable[[], Target]] = {
    "csv": lambda: _table("csv"),
    "npz": lambda: _table("npz"),
    "parquet": lambda: _table("parquet"),
    "hdf5": lambda: _table("hdf5"),
    "minari data": lambda: _minari("main_data.hdf5"),
    "minari card": lambda: _minari("metadata.json"),
    "model": _model,
    "checkpoint": _checkpoint,
    "rows": _rows,
    "run's config": _config,
    "dataset card": _card,
    "agent.zip": _foreign_agent,
    "agent.safetensors": _own_agent,
}


def _episodes() -> ms.Episodes:
    rng = np.random.default_rng(0)
    parts = [(rng.normal(size=(t + 1, 2)), rng.normal(size=(t, 1))) for t in (30, 20)]
    return ms.Episodes.of(parts, state_names=["x", "v"], action_names=["u"])


def _some_model() -> Any:
    """Of random weights."""
    episodes = _episodes()
    learned = ms.NetworkConfig(hidden_size=4).make(2, 1, key=jax.random.key(0)).freeze()
    normaliser = jax.tree.map(jnp.asarray, fit_normaliser(episodes))
    return in_units(learned, normaliser, episodes.state_names, episodes.action_names)
