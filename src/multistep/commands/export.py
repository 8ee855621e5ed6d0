"""`multistep export`: a saved model for use without multistep."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, cast

import jax
import jax.numpy as jnp
import numpy as np
import tyro
from jax.flatten_util import ravel_pytree

from multistep.commands.source import load_saved
from multistep.data import Past
from multistep.dynamics import AbstractDynamics, Model, rollout
from multistep.dynamics.export import c_code, numpy_code, onnx_bytes, programs_of, rollout_program
from multistep.errors import InputError
from multistep.runs.atomic import replacing, write_text

ENDINGS = {"numpy": ".py", "c": ".c", "onnx": ".onnx"}
CLOSE = 1e-5
"""Numbers of an ONNX file may differ so much from the model's, relative to their size."""


@dataclass(frozen=True)
class ExportConfig:
    """Write a saved model as one file for use without multistep."""

    model: Annotated[Path, tyro.conf.Positional]
    """The model.safetensors that a fit has left."""
    to: Literal["numpy", "c", "onnx"] = "numpy"
    """numpy: a Python file that needs NumPy alone; c: a C99 file without allocation; onnx: one step, checked
    with onnxruntime."""
    steps: int | None = None
    """Of an ONNX file: a rollout of so many steps in place of one step."""
    name: str = "model"
    """What the functions of a C file begin with."""
    kind: tuple[str, ...] = ()
    """Architectures of your own, as module:Name: a model file of such a kind is loaded only if it is named
    here."""
    out: Path | None = None
    """The file to write (default: beside the model, with the language's ending)."""


def run_export(config: ExportConfig) -> dict[str, Any]:
    """Write the file and say what is in it."""
    if not re.fullmatch(r"[A-Za-z_][A-Za-z_0-9]*", config.name):
        raise InputError(f"The name is {config.name}: use letters, digits and _, and begin with no digit.")
    model = load_saved(config.model, config.kind)
    programs = programs_of(model, len(model.state_names), len(model.action_names))
    facts = {
        "states": list(model.state_names),
        "actions": list(model.action_names),
        "num_past": model.num_past,
        "time_step": model.time_step,
    }
    out = config.out or config.model.with_suffix(ENDINGS[config.to])
    if config.steps is not None and (config.to != "onnx" or config.steps < 1):
        raise InputError("--steps is the length of the rollout in an ONNX file, 1 or more: add --to onnx.")
    if config.to == "onnx":
        content = _checked_onnx(model, facts, config.steps)
        with replacing(out) as temporary:
            temporary.write_bytes(content)
    else:
        is_c = config.to == "c"
        write_text(out, c_code(programs, facts, config.name) if is_c else numpy_code(programs, facts))
    return {**facts, "memory_size": programs.memory_size, "to": config.to, "out": str(out)}


def _checked_onnx(model: AbstractDynamics, facts: dict[str, Any], steps: int | None) -> bytes:
    """The content of the file, after onnxruntime has found what the model finds."""
    states, actions = len(facts["states"]), len(facts["actions"])
    if steps is None:
        program, names = programs_of(model, states, actions).step, ("next_memory", "outputs")
    else:
        program, names = rollout_program(model, states, actions, steps), ("outputs",)
    content = onnx_bytes(program, facts, names)
    try:
        from onnxruntime import InferenceSession
    except ImportError as error:
        raise InputError(
            'An ONNX file is checked before it is kept: pip install "multistep[onnx]".'
        ) from error
    rng = np.random.default_rng(0)
    start = model.start(_past(model, rng))
    memory, restore = ravel_pytree(start)
    given = rng.normal(size=(steps or 1, actions)).astype(np.float32)
    session = InferenceSession(content, providers=["CPUExecutionProvider"])
    first, second = (value.name for value in program.inputs)
    inputs = {first: np.asarray(memory, np.float32)[None], second: given.reshape(1, -1)}
    found = np.asarray(session.run(["outputs"], inputs)[0]).reshape(-1, states)
    memories = rollout(model.step, restore(memory), jnp.asarray(given, float))
    expected = np.asarray(jax.vmap(model.predict)(memories).mean)
    error = float(np.max(np.abs(found - expected) / (1 + np.abs(expected))))
    if not error < CLOSE * max(1, steps or 1):
        raise InputError(f"The ONNX file's numbers differ from the model's by {error:.1g}: it is not kept.")
    return content


def _past(model: AbstractDynamics, rng: np.random.Generator) -> Past:
    """Something to start from, as usual as the model knows."""
    units = cast("Model", model).normaliser
    states, actions = (
        np.asarray(mean) + np.asarray(deviation) * rng.normal(size=(rows, len(mean)))
        for mean, deviation, rows in (
            (units.state_mean, units.state_deviation, model.num_past),
            (units.action_mean, units.action_deviation, model.num_past - 1),
        )
    )
    return Past(jnp.asarray(states, float), jnp.asarray(actions, float))
