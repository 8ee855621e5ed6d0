"""Exported models against the models themselves: the file is run, the C is compiled."""

import ctypes
import importlib.util
import shutil
import subprocess

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree

from multistep.commands.export import ExportConfig, run_export
from multistep.data import Past
from multistep.dynamics import (
    AbstractModel,
    AveragedConfig,
    CorrectedConfig,
    HiddenConfig,
    LaggedConfig,
    LineConfig,
    NetworkConfig,
    Normaliser,
    in_units,
    save_model,
)
from multistep.dynamics.export import programs_of
from multistep.errors import InputError

ARCHITECTURES = {
    "line": LineConfig(),
    "network": NetworkConfig(8),
    "silu": CorrectedConfig(8, activation="silu"),
    "angle": CorrectedConfig(8, turns=(6.28, 0.0)),
    "averaged": AveragedConfig(2, CorrectedConfig(4)),
    "lagged": LaggedConfig(3, CorrectedConfig(4)),
    "hidden": HiddenConfig(3, 4, CorrectedConfig(4, activation="tanh")),
}


def make_model(architecture):
    """With random weights everywhere, in units that matter."""
    learned = architecture.make(2, 1, key=jax.random.key(0)).freeze()
    leaves, structure = jax.tree.flatten(learned)
    keys = jax.random.split(jax.random.key(1), len(leaves))
    noisy = [
        leaf + 0.1 * jax.random.normal(key, leaf.shape) if eqx.is_inexact_array(leaf) else leaf
        for leaf, key in zip(leaves, keys, strict=True)
    ]
    units = Normaliser(jnp.array([1.0, 2.0]), jnp.array([0.5, 2.0]), jnp.array([0.1]), jnp.array([3.0]))
    return in_units(jax.tree.unflatten(structure, noisy), units, ("a", "b"), ("u",), 0.02)


def example(model, steps=20):
    rng = np.random.default_rng(0)
    shapes = (model.num_past, 2), (model.num_past - 1, 1), (steps, 1)
    states, past, actions = (rng.normal(size=shape).astype(np.float32) for shape in shapes)
    starts = (states[0],) if model.num_past == 1 else (states, past)
    return states, past, actions, np.asarray(model.rollout(*starts, actions))


@pytest.fixture(params=ARCHITECTURES)
def saved(request, tmp_path):
    model = make_model(ARCHITECTURES[request.param])
    save_model(model, tmp_path / "model.safetensors")
    return model, tmp_path / "model.safetensors"


def test_the_numpy_file_makes_the_same_rollouts(saved):
    model, path = saved
    summary = run_export(ExportConfig(path))
    spec = importlib.util.spec_from_file_location("exported", summary["out"])
    exported = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(exported)
    states, past, actions, expected = example(model)
    np.testing.assert_allclose(exported.rollout(states, past, actions), expected, rtol=1e-4, atol=1e-5)
    assert exported.FACTS["states"] == ["a", "b"]
    assert exported.FACTS["time_step"] == 0.02


@pytest.mark.skipif(shutil.which("gcc") is None, reason="there is no C compiler")
def test_the_c_file_makes_the_same_rollouts(saved, tmp_path):
    model, path = saved
    summary = run_export(ExportConfig(path, to="c", name="plant"))
    library = tmp_path / "plant.so"
    words = ["gcc", "-std=c99", "-pedantic", "-Wall", "-Werror", "-O2", "-shared", "-fPIC"]
    subprocess.run([*words, summary["out"], "-o", library, "-lm"], check=True)
    exported = ctypes.CDLL(str(library))

    def pointer(array):
        return array.ctypes.data_as(ctypes.POINTER(ctypes.c_float))

    states, past, actions, expected = example(model)
    memory, outputs = np.zeros(summary["memory_size"], np.float32), np.zeros(2, np.float32)
    exported.plant_start(pointer(states), pointer(past), pointer(memory))
    found = []
    for action in actions:
        exported.plant_step(pointer(memory), pointer(action), pointer(memory), pointer(outputs))
        found.append(outputs.copy())
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


READ_BY_DO_MPC = {
    "Tanh", "Sigmoid", "Relu", "Elu", "MatMul", "Gemm", "Add", "Mul", "Sub", "Sum", "Concat", "Slice",
    "Reshape", "Squeeze", "Unsqueeze",
}  # fmt: skip


@pytest.mark.parametrize("steps", [None, 4])
def test_the_onnx_file_makes_the_same_rollouts(saved, steps):
    import onnx
    import onnxruntime

    model, path = saved
    summary = run_export(ExportConfig(path, to="onnx", steps=steps))
    session = onnxruntime.InferenceSession(summary["out"], providers=["CPUExecutionProvider"])
    states, past, actions, expected = example(model)
    memory = np.asarray(
        ravel_pytree(model.start(Past(jnp.asarray(states, float), jnp.asarray(past, float))))[0]
    )[None]
    if steps is not None:
        given = {"memory": memory.astype(np.float32), "actions": actions[:steps].reshape(1, -1)}
        (found,) = session.run(["outputs"], given)
        np.testing.assert_allclose(found.reshape(-1, 2), expected[:steps], rtol=1e-4, atol=1e-5)
        return
    found = []
    for action in actions:
        given = {"memory": memory.astype(np.float32), "action": action[None]}
        memory, outputs = session.run(["next_memory", "outputs"], given)
        found.append(outputs[0])
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
    operators = {node.op_type for node in onnx.load(summary["out"]).graph.node}
    assert operators - READ_BY_DO_MPC <= {"Sin", "Cos"}  # those of an angle


class Sorting(AbstractModel):
    def step(self, state, action):
        return jnp.sort(state)


def test_what_has_no_export_is_refused(tmp_path):
    with pytest.raises(InputError, match="that no export knows of"):
        programs_of(Sorting(), 2, 1)
    with pytest.raises(InputError, match="begin with no digit"):
        run_export(ExportConfig(tmp_path / "model.safetensors", name="2fast"))
    save_model(make_model(LineConfig()), tmp_path / "line.safetensors")
    with pytest.raises(InputError, match="add --to onnx"):
        run_export(ExportConfig(tmp_path / "line.safetensors", to="c", steps=3))
    with pytest.raises(InputError, match="There is no model file"):
        run_export(ExportConfig(tmp_path / "model.safetensors"))
