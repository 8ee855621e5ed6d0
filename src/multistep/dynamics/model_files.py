"""Models in files: one `.safetensors` file, its JSON header saying what kind it is and how the arrays make
it.

Loading executes no code: the kinds are those of the registry, and a user's own once its module is imported.
"""

import json
import sys
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from multistep.dynamics.base import AbstractArchitecture
from multistep.dynamics.direct import DirectConfig
from multistep.dynamics.ensemble import AveragedConfig, CommitteeConfig, MixedConfig
from multistep.dynamics.gaussian import GaussianConfig
from multistep.dynamics.hidden import HiddenConfig
from multistep.dynamics.lagged import LaggedConfig
from multistep.dynamics.limited import LimitedConfig
from multistep.dynamics.linear import CorrectedConfig, LineConfig
from multistep.dynamics.model import MemoryModel, Model, in_units
from multistep.dynamics.network import NetworkConfig
from multistep.dynamics.normaliser import Normaliser
from multistep.dynamics.renormalised import RenormalisedConfig
from multistep.dynamics.shallow import ShallowConfig
from multistep.dynamics.uncertainty import Uncertainty
from multistep.errors import InputError
from multistep.registry import Registry
from multistep.runs.atomic import replacing

FORMAT = "multistep model"
VERSION = 2
ARCHITECTURES = Registry(
    "architecture",
    AbstractArchitecture,
    {
        "network": NetworkConfig,
        "line": LineConfig,
        "corrected": CorrectedConfig,
        "averaged": AveragedConfig,
        "lagged": LaggedConfig,
        "hidden": HiddenConfig,
        "committee": CommitteeConfig,
        "mixed": MixedConfig,
        "renormalised": RenormalisedConfig,
        "limited": LimitedConfig,
        "shallow": ShallowConfig,
        "direct": DirectConfig,
        "gaussian": GaussianConfig,
    },
)


def save_model(model: Model | MemoryModel, path: str | Path) -> None:
    """Write the model to one file, whole or not at all.

    **Arguments:**

    - `model`: what a fit returned.
    - `path`: the file, `.safetensors` by habit.
    """
    architecture = model.learned.architecture
    if architecture is None:
        raise InputError(
            f"A {type(model.learned).__name__} does not say its architecture, so that it could not be loaded "
            "again: give it the property `architecture`."
        )
    header = {
        "version": VERSION,
        **_described(architecture),
        "state_names": model.state_names,
        "action_names": model.action_names,
        **({} if model.time_step is None else {"time_step": model.time_step}),
        **({"units": dict(model.units)} if model.units else {}),
        **({} if model.uncertainty is None else {"uncertainty": model.uncertainty.sizes}),
    }
    arrays = {name: np.asarray(leaf) for name, leaf in _named_leaves(model).items()}
    with replacing(Path(path)) as temporary:
        save_file(arrays, temporary, metadata={FORMAT: json.dumps(header)})


def load_model(path: str | Path) -> Model | MemoryModel:
    """The model in this file, bit for bit as it was saved.

    A model whose architecture is your own needs the module of that to be imported before.

    **Arguments:**

    - `path`: the file that `save_model` or a command has written.
    """
    path = Path(path)
    if not path.is_file():
        raise InputError(f"There is no model file {path}: give the model.safetensors that a fit has left.")
    try:
        with safe_open(path, framework="numpy") as file:
            metadata = file.metadata() or {}
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - not a mapping
    except (SafetensorError, OSError) as error:
        raise InputError(
            f"The model file {path} is damaged or not a .safetensors file: save the model again."
        ) from error
    header = _header(path, metadata)
    if header["version"] == 1:
        arrays = {name.replace(".network.", ".learned.", 1): array for name, array in arrays.items()}
    return _filled(path, _skeleton(path, header, ".normaliser.state_range" in arrays), arrays)


def _header(path: Path, metadata: dict[str, str]) -> dict[str, Any]:
    if FORMAT not in metadata:
        raise InputError(
            f"The file {path} holds arrays but not a model of multistep: give the model.safetensors of a fit."
        )
    try:
        header = json.loads(metadata[FORMAT])
        version = header["version"]
    except (ValueError, TypeError, KeyError) as error:
        raise InputError(f"The header of the model file {path} is damaged: save the model again.") from error
    if version not in (1, VERSION):
        raise InputError(
            f"The model file {path} has format version {version}, this multistep reads versions up to "
            f"{VERSION}: save it again."
        )
    if version == 1:  # networks only, their settings among the names
        settings = ("hidden_size", "num_common_layers", "activation")
        header |= {"kind": "network", "settings": {name: header.get(name) for name in settings}}
    return header


def _skeleton(path: Path, header: dict[str, Any], has_ranges: bool) -> Model | MemoryModel:
    """A model of the shapes that the header asks for, without values."""
    try:
        architecture = _made(path, header)
        names = tuple(header["state_names"]), tuple(header["action_names"])
        step = header.get("time_step")
        units = {str(name): str(unit) for name, unit in header.get("units", {}).items()}
        step = None if step is None else float(step)
        return eqx.filter_eval_shape(
            _empty_model, architecture, *names, step, units, has_ranges, header.get("uncertainty")
        )
    except InputError:
        raise
    except Exception as error:
        raise InputError(
            f"The header of the model file {path} does not describe a model: save the model again."
        ) from error


def _described(architecture: AbstractArchitecture) -> dict[str, Any]:
    """Kind and settings; those of an architecture within it likewise."""

    def described(value: Any) -> Any:
        if isinstance(value, tuple):
            return [described(each) for each in value]
        return _described(value) if isinstance(value, AbstractArchitecture) else value

    settings = {f.name: getattr(architecture, f.name) for f in fields(architecture)}  # pyright: ignore
    return {
        "kind": ARCHITECTURES.name_of(type(architecture)),
        "settings": {name: described(value) for name, value in settings.items()},
    }


def _made(path: Path, described: dict[str, Any]) -> AbstractArchitecture:
    """The architecture of this description; JSON has lists where settings have tuples."""

    def setting(value: Any) -> Any:
        if isinstance(value, dict):
            return _made(path, value)
        return tuple(map(setting, value)) if isinstance(value, list) else value

    settings = {name: setting(value) for name, value in described["settings"].items()}
    return _architecture(path, described["kind"])(**settings)


def _architecture(path: Path, kind: str) -> type[AbstractArchitecture]:
    """The class of this name: one of ours, or one in a module that is imported already."""
    if kind in ARCHITECTURES.ours:
        return ARCHITECTURES.ours[kind]  # pyright: ignore[reportReturnType] - they are classes
    module, _, name = kind.partition(":")
    found = getattr(sys.modules.get(module), name, None)
    if not (isinstance(found, type) and issubclass(found, AbstractArchitecture)):
        raise InputError(
            f"The model file {path} is of the kind {kind}, which is not one of multistep's: if you trust it, "
            f"import {module} first (on the command line: --kind {kind})."
        )
    return found


def _empty_model(
    architecture: AbstractArchitecture,
    state_names: tuple[str, ...],
    action_names: tuple[str, ...],
    time_step: float | None,
    units: dict[str, str],
    has_ranges: bool,
    uncertainty: dict[str, int] | None,
) -> Model | MemoryModel:
    states, actions = len(state_names), len(action_names)
    learned = architecture.make(states, actions, key=jax.random.key(0)).freeze()
    ranges = (jnp.zeros((2, states)), jnp.zeros((2, actions))) if has_ranges else ()
    sizes = jnp.zeros(states), jnp.ones(states), jnp.zeros(actions), jnp.ones(actions)
    model = in_units(learned, Normaliser(*sizes, *ranges), state_names, action_names, time_step, units)
    return (
        model if uncertainty is None else replace(model, uncertainty=Uncertainty.empty(states, **uncertainty))
    )


def _filled(path: Path, skeleton: Model | MemoryModel, arrays: dict[str, np.ndarray]) -> Model | MemoryModel:
    expected = {name: leaf.shape for name, leaf in _named_leaves(skeleton).items()}
    if expected != {name: array.shape for name, array in arrays.items()}:
        raise InputError(f"The arrays of the model file {path} do not fit its header: save the model again.")
    shapes, rest = eqx.partition(skeleton, _is_shaped)
    leaves = [jnp.asarray(arrays[name]) for name in expected]
    return eqx.combine(jax.tree.unflatten(jax.tree.structure(shapes), leaves), rest)


def _named_leaves(model: Model | MemoryModel) -> dict[str, Any]:
    """Its arrays, or their shapes, by their place in it."""
    shaped = eqx.filter(model, _is_shaped)
    return {jax.tree_util.keystr(path): leaf for path, leaf in jax.tree_util.tree_leaves_with_path(shaped)}


def _is_shaped(leaf: Any) -> bool:
    return eqx.is_array(leaf) or isinstance(leaf, jax.ShapeDtypeStruct)
