"""`multistep bench export`: microseconds of one step of an exported model, in each language, beside JAX."""

import ctypes
import shutil
import statistics
import subprocess
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float
from numpy import ndarray

from multistep.bench.training import in_new_process
from multistep.bench.workload import timed
from multistep.data import Episodes
from multistep.dynamics import CorrectedConfig, Model, fit_normaliser, in_units, rollout
from multistep.dynamics.export import (
    Facts,
    StepPrograms,
    c_code,
    casadi_code,
    facts_of,
    numpy_code,
    onnx_bytes,
    programs_of,
)
from multistep.errors import InputError
from multistep.runs.process import available_cores
from multistep.runs.row_log import Row
from multistep.runs.run_folder import check_run, write_run

STATES, ACTIONS = 4, 1
CHUNK = 64
"""Different actions, and steps of a rollout in one compiled call."""
COMPILERS = {"c": ["gcc", "-O2"], "c_o3_native": ["gcc", "-O3", "-march=native"]}
DRIVER = """
#include "model.c"
void steps(const float *state, const float *actions, int num_actions, float *outputs, long num_steps) {
    float memory[MODEL_MEMORY_SIZE];
    for (long k = 0; k < num_steps; k++)
        model_step(state, actions + k % num_actions * MODEL_NUM_ACTIONS, memory,
                   outputs + k % num_actions * MODEL_NUM_STATES);
}
"""
COMMAND = "bench export"

Steps = Callable[[int], ndarray]
"""Takes so many steps, each with the next of the actions, and returns the last outputs."""


@dataclass(frozen=True)
class ExportBenchConfig:
    """Microseconds of one step of an exported model, in each language, beside JAX."""

    out: Path = Path("runs/bench-export")
    """Folder for the results."""
    hidden_sizes: tuple[int, ...] = (32, 256)
    """Networks: units of each of their three hidden layers; 4 states, 1 action."""
    rounds: int = 9
    """Times that everything is measured, in turn; the summary takes medians."""
    seconds: float = 0.2
    """About as long is one measurement."""


def run_export_bench(config: ExportBenchConfig) -> dict[str, Any]:
    """Measure on one core, leave rows and summary in `config.out`, and return the summary."""
    check_run(config.out, COMMAND)
    if config.rounds < 1 or not config.hidden_sizes or min(config.hidden_sizes) < 1 or config.seconds <= 0:
        raise InputError("Sizes, rounds and seconds of the benchmark must be above 0.")
    if shutil.which("gcc") is None:
        raise InputError("The benchmark compiles C: install gcc.")
    rows = in_new_process(_measure, available_cores()[0], config)
    summary = {
        f"hidden_{size}_microseconds": {
            item: statistics.median(row["microseconds"] for row in rows if _is(row, size, item))
            for item in dict.fromkeys(row["item"] for row in rows)
        }
        for size in config.hidden_sizes
    }
    write_run(config.out, COMMAND, config, rows, summary)
    return summary


def _measure(config: ExportBenchConfig) -> list[Row]:
    """One row per network, round and item."""
    rows: list[Row] = []
    for size in config.hidden_sizes:
        with tempfile.TemporaryDirectory() as folder:
            items = _items(_model(size), Path(folder))
            counts = {name: _count_for(steps, config.seconds) for name, steps in items.items()}
            for number in range(config.rounds):
                for name, steps in items.items():
                    taken = _timed(steps, counts[name])
                    rows.append(
                        {
                            "hidden_size": size,
                            "round": number,
                            "item": name,
                            "steps": counts[name],
                            # Of the processor, whose other work then matters little: all is one thread.
                            "microseconds": 1e6 * taken["seconds"] * taken["cpu_share"] / counts[name],
                            "cpu_share": taken["cpu_share"],
                        }
                    )
    return rows


def _is(row: Row, size: int, item: str) -> bool:
    return row["hidden_size"] == size and row["item"] == item


def _count_for(steps: Steps, seconds: float) -> int:
    """How many steps take about so long."""
    count = CHUNK
    while (taken := _timed(steps, count)["seconds"]) < seconds / 4:
        count *= 2
    return CHUNK * max(1, round(count * seconds / taken / CHUNK))


def _timed(steps: Steps, count: int) -> dict[str, float]:
    def work() -> None:
        steps(count)

    return timed(work)


def _model(hidden_size: int) -> Model:
    """A network with random weights; none is zero, as CasADi leaves out what is."""
    rng = np.random.default_rng(0)

    def changed(leaf: Any) -> Any:
        noise = rng.normal(size=np.shape(leaf)) / max(1, np.size(leaf)) ** 0.5
        return leaf + jnp.asarray(noise, leaf.dtype) if eqx.is_inexact_array(leaf) else leaf

    episodes = Episodes.of([(rng.normal(size=(101, STATES)), rng.normal(size=(100, ACTIONS)))])
    fresh = CorrectedConfig(hidden_size).make(STATES, ACTIONS, key=jax.random.key(0)).freeze()
    units = jax.tree.map(lambda values: jnp.asarray(values, float), fit_normaliser(episodes))
    model = in_units(jax.tree.map(changed, fresh), units, episodes.state_names, episodes.action_names)
    assert isinstance(model, Model)
    return model


def _items(model: Model, folder: Path) -> dict[str, Steps]:
    """Every language's steps; they are found to agree first."""
    programs = programs_of(model, STATES, ACTIONS)
    facts, rng = facts_of(model, programs.memory_size), np.random.default_rng(1)
    state, actions = np.zeros(STATES, np.float32), rng.uniform(-1, 1, (CHUNK, ACTIONS)).astype(np.float32)
    items = {
        **{name: _c_steps(programs, facts, state, actions, folder / name, name) for name in COMPILERS},
        "numpy": _python_steps(numpy_code(programs, facts), state, actions),
        "casadi": _python_steps(casadi_code(programs, facts), state, actions),
        "casadi_expanded": _python_steps(
            f"{casadi_code(programs, facts)}\nstep = step.expand()", state, actions
        ),
        "onnxruntime": _onnx_steps(programs, facts, state, actions),
        "jax_step": _jax_steps(model, state, actions),
        "jax_rollout": _jax_rollout(model, state, actions),
    }
    expected = np.asarray(model.step(jnp.asarray(state), jnp.asarray(actions[0])))
    for name, steps in items.items():
        if not np.allclose(steps(1), expected, rtol=1e-4, atol=1e-5):
            raise InputError(f"The step of {name} is not the model's: there is nothing to compare.")
    return items


def _c_steps(
    programs: StepPrograms, facts: Facts, state: ndarray, actions: ndarray, folder: Path, name: str
) -> Steps:
    folder.mkdir()
    (folder / "model.c").write_text(c_code(programs, facts), encoding="utf-8")
    (folder / "driver.c").write_text(DRIVER, encoding="utf-8")
    words = [*COMPILERS[name], "-std=c99", "-shared", "-fPIC", "driver.c", "-o", "driver.so", "-lm"]
    subprocess.run(words, cwd=folder, check=True)
    run = ctypes.CDLL(str(folder / "driver.so")).steps
    outputs = np.zeros((len(actions), STATES), np.float32)
    pointers = [array.ctypes.data_as(ctypes.c_void_p) for array in (state, actions, outputs)]

    def steps(count: int) -> Float[ndarray, " state"]:
        run(pointers[0], pointers[1], ctypes.c_int(len(actions)), pointers[2], ctypes.c_long(count))
        return outputs[(count - 1) % len(actions)]

    return steps


def _python_steps(code: str, state: ndarray, actions: ndarray) -> Steps:
    names: dict[str, Any] = {}
    try:
        exec(compile(code, "exported", "exec"), names)
    except ImportError as error:
        raise InputError(
            f'The benchmark needs another package ({error}): pip install "multistep[dev]".'
        ) from error
    step = names["step"]
    return _called(lambda action: step(state, action)[1], actions)


def _onnx_steps(programs: StepPrograms, facts: Facts, state: ndarray, actions: ndarray) -> Steps:
    try:
        from onnxruntime import InferenceSession
        from onnxruntime.capi.onnxruntime_pybind11_state import SessionOptions
    except ImportError as error:
        raise InputError('The benchmark needs onnxruntime: pip install "multistep[onnx]".') from error
    options = SessionOptions()
    options.intra_op_num_threads = 1
    content = onnx_bytes(programs.step, facts, ("next_memory", "outputs"))
    session = InferenceSession(content, options, providers=["CPUExecutionProvider"])
    memory = state[None]
    return _called(
        lambda action: session.run(["outputs"], {"memory": memory, "action": action[None]})[0], actions
    )


def _jax_steps(model: Model, state: ndarray, actions: ndarray) -> Steps:
    """One compiled call a step, as in a loop with a plant."""
    step = jax.jit(lambda state, action: model.step(state, action))
    return _called(lambda action: step(state, action).block_until_ready(), actions)


def _jax_rollout(model: Model, state: ndarray, actions: ndarray) -> Steps:
    """Many steps in one compiled call, one after the other, as in planning."""

    @jax.jit
    def run(state: jax.Array, actions: jax.Array) -> jax.Array:
        return rollout(model.step, state, actions)

    def steps(count: int) -> ndarray:
        states = run(jnp.asarray(state), jnp.asarray(actions)).block_until_ready()
        for _ in range((count - 1) // CHUNK):
            states = run(jnp.asarray(state), jnp.asarray(actions)).block_until_ready()
        return np.asarray(states)[(count - 1) % CHUNK]

    return steps


def _called(step: Callable[[ndarray], Any], actions: ndarray) -> Steps:
    """One call of Python a step."""

    def steps(count: int) -> ndarray:
        output = None
        for number in range(count):
            output = step(actions[number % len(actions)])
        return np.asarray(output).ravel()

    return steps
