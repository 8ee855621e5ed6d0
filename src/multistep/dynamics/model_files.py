"""Models in files: one `.safetensors` file, its JSON header saying what kind it is and how the arrays make
it.

Loading executes no code: the kinds are those of the registry, and a user's own once its module is imported.
"""

import sys
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from multistep.dynamics.base import AbstractArchitecture
from multistep.dynamics.direct import DirectConfig
from multistep.dynamics.ensemble import AveragedConfig, CommitteeConfig, MixedConfig
from multistep.dynamics.gaussian import GaussianConfig
from multistep.dynamics.hidden import HiddenConfig
from multistep.dynamics.lagged import LaggedConfig
from multistep.dynamics.limited import LimitedConfig
from multistep.dynamics.linear import CorrectedConfig, LineConfig
from multistep.dynamics.model import MemoryModel, Model, in_units
from multistep.dynamics.model_checks import (
    REMEDY,
    VERSION,
    check_counts,
    check_numbers,
    checked_header,
    positive,
)
from multistep.dynamics.network import NetworkConfig
from multistep.dynamics.normaliser import Normaliser
from multistep.dynamics.renormalised import RenormalisedConfig
from multistep.dynamics.shallow import ShallowConfig
from multistep.dynamics.uncertainty import Uncertainty
from multistep.errors import InputError
from multistep.registry import Registry
from multistep.runs.array_files import read_arrays, write_arrays

FORMAT = "multistep model"
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
    write_arrays(Path(path), FORMAT, header, arrays)


def load_model(path: str | Path) -> Model | MemoryModel:
    """The model in this file, bit for bit as it was saved.

    A model whose architecture is your own needs the module of that to be imported before.

    **Arguments:**

    - `path`: the file that `save_model` or a command has written.
    """
    path = Path(path)
    if not path.is_file():
        raise InputError(f"There is no model file {path}: give the model.safetensors that a fit has left.")
    damaged = f"The model file {path} is damaged or not a .safetensors file: {REMEDY}."
    header, arrays, is_whole = read_arrays(path, FORMAT, damaged)
    if header is None:
        raise InputError(
            f"The file {path} holds arrays but not a model of multistep: give the model.safetensors of a fit."
        )
    header = checked_header(path, header)
    if header["version"] == 1:
        arrays = {name.replace(".network.", ".learned.", 1): array for name, array in arrays.items()}
    model = _filled(path, _skeleton(path, header, arrays), arrays)
    # Last, so that what is wrong with a file that somebody has edited is said first.
    if is_whole is False:
        raise InputError(f"The model file {path} is damaged (its checksum is another): {REMEDY}.")
    return model


def _skeleton(path: Path, header: dict[str, Any], arrays: dict[str, np.ndarray]) -> Model | MemoryModel:
    """A model of the shapes that the header asks for, without values."""
    has_ranges = ".normaliser.state_range" in arrays
    try:
        check_counts(path, header, len(arrays), ARCHITECTURES.ours)
        architecture = _made(path, header)
        names = tuple(header["state_names"]), tuple(header["action_names"])
        step = header.get("time_step")
        units = {str(name): str(unit) for name, unit in header.get("units", {}).items()}
        step = None if step is None else positive(step)
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
    # Nothing else of ours is in model files: one of our classes could read other files when it is made.
    is_ours = module.partition(".")[0] == __name__.partition(".")[0]
    found = None if is_ours else getattr(sys.modules.get(module), name, None)
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
    expected = _named_leaves(skeleton)
    shapes = {name: leaf.shape for name, leaf in expected.items()}
    if shapes != {name: array.shape for name, array in arrays.items()}:
        raise InputError(f"The arrays of the model file {path} do not fit its header: {REMEDY}.")
    for name, leaf in expected.items():
        check_numbers(path, name, arrays[name], leaf.dtype)
    parts, rest = eqx.partition(skeleton, _is_shaped)
    leaves = [jnp.asarray(arrays[name]) for name in expected]
    return eqx.combine(jax.tree.unflatten(jax.tree.structure(parts), leaves), rest)


def _named_leaves(model: Model | MemoryModel) -> dict[str, Any]:
    """Its arrays, or their shapes, by their place in it."""
    shaped = eqx.filter(model, _is_shaped)
    return {jax.tree_util.keystr(path): leaf for path, leaf in jax.tree_util.tree_leaves_with_path(shaped)}


def _is_shaped(leaf: Any) -> bool:
    return eqx.is_array(leaf) or isinstance(leaf, jax.ShapeDtypeStruct)
