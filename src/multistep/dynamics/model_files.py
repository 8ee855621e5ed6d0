"""Models in files: one `.safetensors` file, its JSON header saying how the arrays make a model. Loading executes no code."""

import json
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from multistep.data.atomic import replacing
from multistep.dynamics.model import Model
from multistep.dynamics.network import Network, NetworkConfig, make_network
from multistep.dynamics.normaliser import Normaliser
from multistep.errors import InputError

FORMAT = "multistep model"
VERSION = 1


def save_model(model: Model, path: str | Path) -> None:
    """Write the model to one file, whole or not at all."""
    header = {
        "version": VERSION,
        "state_names": model.state_names,
        "action_names": model.action_names,
        "hidden_size": model.network.mean_head.hidden.bias.size,
        "num_common_layers": len(model.network.common),
        "activation": model.network.activation,
    }
    with replacing(Path(path)) as temporary:
        save_file(_named_arrays(model), temporary, metadata={FORMAT: json.dumps(header)})


def load_model(path: str | Path) -> Model:
    """The model in this file, bit for bit as it was saved."""
    path = Path(path)
    if not path.is_file():
        raise InputError(f"There is no model file {path}: give the model.safetensors that a fit has left.")
    try:
        with safe_open(path, framework="numpy") as file:
            metadata = file.metadata() or {}
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - not a mapping
    except (SafetensorError, OSError) as error:
        raise InputError(f"The model file {path} is damaged or not a .safetensors file: save the model again.") from error
    return _filled(path, _skeleton(path, _header(path, metadata)), arrays)


def _header(path: Path, metadata: dict[str, str]) -> dict[str, Any]:
    if FORMAT not in metadata:
        raise InputError(f"The file {path} holds arrays but not a model of multistep: give the model.safetensors of a fit.")
    try:
        header = json.loads(metadata[FORMAT])
        version = header["version"]
    except (ValueError, TypeError, KeyError) as error:
        raise InputError(f"The header of the model file {path} is damaged: save the model again.") from error
    if version != VERSION:
        raise InputError(
            f"The model file {path} has format version {version}, this multistep reads version {VERSION}: save it again."
        )
    return header


def _skeleton(path: Path, header: dict[str, Any]) -> Model:
    """A model of the shapes that the header asks for, without values."""
    try:
        names = tuple(header["state_names"]), tuple(header["action_names"])
        config = NetworkConfig(header["hidden_size"], header["num_common_layers"], header["activation"])
        return eqx.filter_eval_shape(_empty_model, config, *names)
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(f"The header of the model file {path} does not describe a model: save the model again.") from error


def _empty_model(config: NetworkConfig, state_names: tuple[str, ...], action_names: tuple[str, ...]) -> Model:
    states, actions = len(state_names), len(action_names)
    network: Network = make_network(config, states, actions, key=jax.random.key(0))
    normaliser = Normaliser(jnp.zeros(states), jnp.ones(states), jnp.zeros(actions), jnp.ones(actions))
    return Model(network, normaliser, state_names, action_names)


def _filled(path: Path, skeleton: Model, arrays: dict[str, np.ndarray]) -> Model:
    expected = _named_shapes(skeleton)
    if expected != {name: array.shape for name, array in arrays.items()}:
        raise InputError(f"The arrays of the model file {path} do not fit its header: save the model again.")
    leaves = [jnp.asarray(arrays[name]) for name in expected]
    return jax.tree.unflatten(jax.tree.structure(skeleton), leaves)


def _named_arrays(model: Model) -> dict[str, np.ndarray]:
    return {jax.tree_util.keystr(path): np.asarray(leaf) for path, leaf in jax.tree_util.tree_leaves_with_path(model)}


def _named_shapes(model: Model) -> dict[str, tuple[int, ...]]:
    return {jax.tree_util.keystr(path): leaf.shape for path, leaf in jax.tree_util.tree_leaves_with_path(model)}
