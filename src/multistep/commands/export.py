"""`multistep export`: a saved model for use without multistep."""

import re
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import tyro
from numpy import ndarray

from multistep.commands.source import Changes, changes_of_fit, load_saved, remedy_for_step
from multistep.data import is_same_step
from multistep.dynamics import MemoryModel, Model
from multistep.dynamics.export import (
    Facts,
    StepPrograms,
    c_code,
    casadi_code,
    check_close,
    facts_of,
    not_read_by_do_mpc,
    numpy_code,
    onnx_bytes,
    programs_of,
    rollout_program,
)
from multistep.errors import InputError
from multistep.runs.atomic import replacing

ENDINGS = {"numpy": ".py", "c": ".c", "onnx": ".onnx", "casadi": ".py"}
CHECKED_STEPS = 3
"""A file of one step is compared with the model over so many."""


@dataclass(frozen=True)
class ExportConfig:
    """Write a saved model as one file for use without multistep."""

    model: Annotated[Path, tyro.conf.Positional]
    """The model.safetensors that a fit has left."""
    to: Literal["onnx", "numpy", "c", "casadi"] = "numpy"
    """numpy: a Python file that needs NumPy alone; c: a C99 file without allocation; casadi: a Python file of
    CasADi functions; onnx: one step. All but c are compared with the model before they are kept."""
    steps: int | None = None
    """Of an ONNX file: a rollout of so many steps in place of one step."""
    time_step: float | None = None
    """The time step of what will use the model: refused if the model was fitted to another."""
    name: str = "model"
    """What the functions of a C file, and those of CasADi and the graph of ONNX, are called after."""
    kind: tuple[str, ...] = ()
    """Architectures of your own, as module:Name: a model file of such a kind is loaded only if it is named
    here."""
    out: Path | None = None
    """The file to write (default: beside the model, with the language's ending)."""


def run_export(config: ExportConfig) -> dict[str, Any]:
    """Write the file and say what is in it."""
    if not re.fullmatch(r"[A-Za-z][A-Za-z_0-9]*", config.name, re.ASCII):
        raise InputError(f"The name is {config.name}: use letters, digits and _, and begin with a letter.")
    if config.steps is not None and (config.to != "onnx" or config.steps < 1):
        raise InputError("--steps is the length of the rollout in an ONNX file, 1 or more: add --to onnx.")
    model = load_saved(config.model, config.kind)
    if config.time_step is not None:
        _check_time_step(model.time_step, config.time_step, changes_of_fit(config.model))
    programs = programs_of(model, len(model.state_names), len(model.action_names))
    facts = facts_of(model, programs.memory_size, config.name)
    out = config.out or config.model.with_suffix(ENDINGS[config.to])
    if out.resolve() == config.model.resolve():
        raise InputError(f"{out} is the model itself: name another file.")
    files = _files(model, programs, facts, config.to, config.steps)
    paths = {out.with_stem(f"{out.stem}{ending}"): content for ending, content in files.items()}
    for path, content in paths.items():
        with replacing(path) as temporary:
            temporary.write_bytes(content)
    _remark(facts, files[""] if config.to == "onnx" else None)
    starts = [str(path) for path in paths if path != out]
    return {**facts.plain, "to": config.to, "out": str(out), "start": starts[0] if starts else None}


def _check_time_step(own: float | None, wanted: float, changes: Changes) -> None:
    """Raise an `InputError` unless the model's step is the one that is wanted; `changes` were made to the
    samples that it was fitted to."""
    if not (wanted > 0 and np.isfinite(wanted)):
        raise InputError(f"The time step is {wanted:g}: give a number above 0.")
    if own is None:
        raise InputError(
            "The model file does not say its time step, as it was fitted without one: fit with --time, or "
            "leave --time-step out."
        )
    if is_same_step(own, wanted):
        return
    if changes.resample is None:
        remedy = remedy_for_step(wanted, own, changes)
    else:  # to a longer step at least
        remedy = f"take --resample {wanted:g}" if wanted > own else ""
    again = f"fit again and {remedy}, or " if remedy else ""
    raise InputError(f"The model's step is {own:g}, not {wanted:g}: {again}step it every {own:g}.")


def _files(
    model: Model | MemoryModel, programs: StepPrograms, facts: Facts, to: str, steps: int | None
) -> dict[str, bytes]:
    """The content of each file, by what is added to the name; found to be what the model says where it can
    be."""
    if to == "c":
        return {"": c_code(programs, facts).encode()}
    if to == "numpy":
        code = numpy_code(programs, facts)
        check_close(model, _executed(code)["rollout"], "NumPy", CHECKED_STEPS)
        return {"": code.encode()}
    if to == "casadi":
        code = casadi_code(programs, facts)
        check_close(model, _casadi_run(code), "CasADi", CHECKED_STEPS)
        return {"": code.encode()}
    names, program = ("next_memory", "outputs"), programs.step
    if steps is not None:
        names, program = ("outputs",), rollout_program(model, len(facts.states), len(facts.actions), steps)
    files = {"": onnx_bytes(program, facts, names)}
    if facts.num_past > 1:  # else the memory is the state, and nothing has to be made of it
        files["_start"] = onnx_bytes(programs.start, facts, ("memory",))
    check_close(model, _OnnxRun(files, steps), "ONNX", steps or CHECKED_STEPS)
    return files


def _executed(code: str) -> dict[str, Any]:
    """The names in a file that was just written; what it counts and warns of here is nobody's concern."""
    names: dict[str, Any] = {}
    exec(compile(code, "exported", "exec"), names)
    if "COUNTED" in names:
        names["_count"] = lambda state, action: None
    return names


def _casadi_run(code: str) -> Any:
    try:
        names = _executed(code)
    except ImportError as error:
        raise InputError(
            'A CasADi file is checked before it is kept: pip install "multistep[casadi]".'
        ) from error

    def run(states: ndarray, past: ndarray, actions: ndarray) -> ndarray:
        memory = names["start"](states.T, past.T)
        return names["rollout"](len(actions))(memory, actions.T)[1].full().T

    return run


class _OnnxRun:
    """What is observed after each action, by onnxruntime."""

    def __init__(self, files: dict[str, bytes], steps: int | None) -> None:
        try:
            from onnxruntime import InferenceSession
        except ImportError as error:
            raise InputError(
                'An ONNX file is checked before it is kept: pip install "multistep[onnx]".'
            ) from error
        self.sessions = {
            ending: InferenceSession(content, providers=["CPUExecutionProvider"])
            for ending, content in files.items()
        }
        self.is_rollout = steps is not None

    def __call__(self, states: ndarray, past: ndarray, actions: ndarray) -> ndarray:
        memory, main = states.reshape(1, -1), self.sessions[""]
        if "_start" in self.sessions:
            given = {"past_states": memory, "past_actions": past.reshape(1, -1)}
            (memory,) = self.sessions["_start"].run(["memory"], given)
        if self.is_rollout:
            found = main.run(["outputs"], {"memory": memory, "actions": actions.reshape(1, -1)})
            return np.asarray(found[0]).reshape(len(actions), -1)
        outputs = []
        for action in actions:
            memory, output = main.run(["next_memory", "outputs"], {"memory": memory, "action": action[None]})
            outputs.append(np.asarray(output)[0])
        return np.stack(outputs)


def _remark(facts: Facts, onnx_content: bytes | None) -> None:
    """Say what the file does not have."""
    if not facts.has_ranges:
        warnings.warn(
            "The model file does not hold the range of its training data, as it is older than that: nothing "
            "will be found outside of it.",
            stacklevel=3,
        )
    unknown = [] if onnx_content is None else not_read_by_do_mpc(onnx_content)
    if unknown:
        warnings.warn(
            f"The ONNX file has {' and '.join(unknown)}, which do-mpc does not read: --to casadi is for it.",
            stacklevel=3,
        )
