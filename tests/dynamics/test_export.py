"""Exported models against the models themselves: the file is run, the C is compiled."""

import ctypes
import importlib.util
import json
import re
import shutil
import subprocess
import sys
import warnings
from dataclasses import replace
from functools import cache
from pathlib import Path

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
from multistep.dynamics.export import facts_of, not_read_by_do_mpc, onnx_bytes, programs_of
from multistep.errors import InputError
from multistep.runs.run_folder import write_json

ARCHITECTURES = {
    "line": LineConfig(),
    "network": NetworkConfig(8),
    "silu": CorrectedConfig(8, activation="silu"),
    "angle": CorrectedConfig(8, turns=(6.28, 0.0)),
    "averaged": AveragedConfig(2, CorrectedConfig(4)),
    "lagged": LaggedConfig(3, CorrectedConfig(4)),
    "hidden": HiddenConfig(3, 4, CorrectedConfig(4, activation="tanh")),
}


@cache
def make_model(architecture):
    """With random weights everywhere, in units that matter."""
    learned = architecture.make(2, 1, key=jax.random.key(0)).freeze()
    rng = np.random.default_rng(1)

    def noisy(leaf):
        return leaf + jnp.asarray(0.1 * rng.normal(size=leaf.shape)) if eqx.is_inexact_array(leaf) else leaf

    sizes = jnp.array([1.0, 2.0]), jnp.array([0.5, 2.0]), jnp.array([0.1]), jnp.array([3.0])
    ranges = jnp.array([[-9.0, -8.0], [9.0, jnp.inf]]), jnp.array([[-0.7], [0.7]])
    units = {"a": "m*/s", "u": "V", "t": "s"}
    return in_units(
        jax.tree.map(noisy, learned), Normaliser(*sizes, *ranges), ("a", "b"), ("u",), 0.02, units
    )


def example(model, steps=20):
    rng = np.random.default_rng(0)
    shapes = (model.num_past, 2), (model.num_past - 1, 1), (steps, 1)
    states, past, actions = (rng.normal(size=shape, scale=0.5).astype(np.float32) for shape in shapes)
    starts = (states[0],) if model.num_past == 1 else (states, past)
    return states, past, actions, np.asarray(model.rollout(*starts, actions))


@pytest.fixture(params=ARCHITECTURES, scope="module")
def saved(request, tmp_path_factory):
    model, folder = make_model(ARCHITECTURES[request.param]), tmp_path_factory.mktemp("saved")
    save_model(model, folder / "model.safetensors")
    return model, folder / "model.safetensors"


def loaded(path):
    """The Python file as a module."""
    spec = importlib.util.spec_from_file_location("exported", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def count_outside(states, actions):
    """Numbers outside of the ranges of `make_model`."""
    states, actions = np.reshape(states, (-1, 2)), np.ravel(actions)
    wrong = [np.abs(states[:, 0]) > 9, states[:, 1] < -8, np.abs(actions) > np.float32(0.7)]
    return sum(int(each.sum()) for each in wrong)


@pytest.mark.filterwarnings("ignore:A state or an action is outside")
def test_the_numpy_file_makes_the_same_rollouts(saved):
    model, path = saved
    exported = loaded(run_export(ExportConfig(path))["out"])
    states, past, actions, expected = example(model)
    np.testing.assert_allclose(exported.rollout(states, past, actions), expected, rtol=1e-4, atol=1e-5)


def test_every_file_says_what_is_known_of_the_model(saved):
    import onnx

    model, path = saved
    summary = run_export(ExportConfig(path, name="plant"))
    facts = loaded(summary["out"]).FACTS
    a, b = facts["states"]
    assert a == {"name": "a", "unit": "m*/s", "mean": 1.0, "deviation": 0.5, "low": -9.0, "high": 9.0}
    assert (b["name"], b["unit"], b["low"], b["high"]) == ("b", None, -8.0, None)
    assert facts["actions"] == (
        {"name": "u", "unit": "V", "mean": 0.1, "deviation": 3.0, "low": -0.7, "high": 0.7},
    )
    known = [facts[name] for name in ("name", "num_past", "memory_size", "time_step")]
    memory, _ = ravel_pytree(
        model.start(Past(jnp.zeros((model.num_past, 2)), jnp.zeros((model.num_past - 1, 1))))
    )
    assert known == ["plant", model.num_past, memory.size, 0.02]
    assert summary["start"] is None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that of an angle
        content = onnx.load(run_export(ExportConfig(path, to="onnx", name="plant"))["out"])
    (entry,) = content.metadata_props
    assert json.loads(entry.value) == json.loads(json.dumps(facts))
    described = {value.name: value.doc_string for value in (*content.graph.input, *content.graph.output)}
    assert (described["outputs"], described["action"]) == ("a [m*/s], b", "u [V]")
    text = Path(run_export(ExportConfig(path, to="c", name="plant"))["out"]).read_text()
    assert re.search(r"state\[0\] +a +m\* /s +-9 to +9\n", text)
    assert re.search(r"action\[0\] +u +V +-0\.7 to +0\.7\n", text)


def test_the_numpy_file_warns_once_and_counts(saved):
    model, path = saved
    exported = loaded(run_export(ExportConfig(path))["out"])
    states, past, actions, _ = example(model)
    memory = exported.start(states, np.clip(past, -0.7, 0.7))
    watched = []  # the state before the step if it is the memory, else what is observed after it
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        for action in 2 * actions:
            before = memory
            memory, outputs = exported.step(memory, action)
            watched.append((before if model.num_past == 1 else outputs, action))
    outside = sum(count_outside(*each) > 0 for each in watched)
    assert 0 < outside < len(actions)
    counted = {"calls": len(actions) + (model.num_past > 1), "outside": outside}
    assert counted == exported.COUNTED
    assert [str(warning.message).partition(" of ")[0] for warning in found] == [
        "A state or an action is outside"
    ]
    assert exported.outside([9, 1e9], [0.7]) == 0
    assert exported.outside([9.1, np.nan]) == 2
    assert exported.outside(action=[-0.71]) == 1


COMPILED = ["gcc", "-std=c99", "-pedantic", "-Wall", "-Wextra", "-Werror", "-O2"]


@pytest.mark.skipif(shutil.which("gcc") is None, reason="there is no C compiler")
@pytest.mark.parametrize("number", [np.float32, np.float64])
def test_the_c_file_makes_the_same_rollouts(saved, number, tmp_path):
    model, path = saved
    summary = run_export(ExportConfig(path, to="c", name="plant"))
    library, precision = tmp_path / "plant.so", ["-DPLANT_DOUBLE"] if number is np.float64 else []
    subprocess.run(
        [*COMPILED, *precision, "-shared", "-fPIC", summary["out"], "-o", library, "-lm"], check=True
    )
    exported = ctypes.CDLL(str(library))

    def pointer(array):
        return array.ctypes.data_as(ctypes.c_void_p)

    states, past, actions, expected = example(model)
    states, past, actions = (part.astype(number) for part in (states, past, actions))
    memory, outputs = np.zeros(summary["memory_size"], number), np.zeros(2, number)
    outside = [exported.plant_start(pointer(states), pointer(past), pointer(memory))]
    found, watched = [], [(states, past)]
    for action in actions:
        before = memory.copy()
        outside.append(
            exported.plant_step(pointer(memory), pointer(action), pointer(memory), pointer(outputs))
        )
        found.append(outputs.copy())
        watched.append((before if model.num_past == 1 else found[-1], action))
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
    assert outside == [count_outside(*each) for each in watched]
    assert sum(outside) > 0
    state, action = np.array([10, np.nan], number), np.array([0.7], number)
    assert exported.plant_outside(pointer(state), None) == 2
    assert exported.plant_outside(None, pointer(action)) == 0


def test_the_casadi_file_makes_the_same_rollouts(saved):
    casadi = pytest.importorskip("casadi")
    model, path = saved
    exported = loaded(run_export(ExportConfig(path, to="casadi", name="plant"))["out"])
    states, past, actions, expected = example(model)
    memory = exported.start(states.T, past.T)
    memories, outputs = exported.rollout(len(actions))(memory, actions.T)
    np.testing.assert_allclose(outputs.full().T, expected, rtol=1e-4, atol=1e-5)
    assert exported.step.name_out() == ["next_memory", "outputs"]
    one = exported.step.expand()(memory, actions[0])
    np.testing.assert_allclose(one[0].full(), memories[:, :1].full(), rtol=1e-9, atol=1e-12)
    assert float(exported.outside([9.5, -9], [0.71])) == 3
    assert float(exported.outside([9, 1e9], [0.7])) == 0
    # What a controller takes of it: the derivative with respect to the action, here by differences.
    symbol = casadi.MX.sym("action", 1)
    slope = casadi.Function("slope", [symbol], [casadi.jacobian(exported.step(memory, symbol)[1], symbol)])
    action = actions[0].astype(float)
    ahead, behind = (exported.step(memory, action + change)[1] for change in (1e-6, -1e-6))
    np.testing.assert_allclose(slope(action).full(), (ahead - behind).full() / 2e-6, rtol=1e-6, atol=1e-9)


READ_BY_DO_MPC = {
    "Tanh", "Sigmoid", "Relu", "Elu", "MatMul", "Gemm", "Add", "Mul", "Sub", "Sum", "Concat", "Slice",
    "Reshape", "Squeeze", "Unsqueeze",
}  # fmt: skip


@pytest.mark.parametrize("steps", [None, 4])
@pytest.mark.filterwarnings("ignore:The ONNX file has Cos and Sin, which do-mpc does not read")
def test_the_onnx_file_makes_the_same_rollouts(saved, steps):
    import onnx
    import onnxruntime

    model, path = saved
    summary = run_export(ExportConfig(path, to="onnx", steps=steps))
    states, past, actions, expected = example(model)
    sessions = [
        None if name is None else onnxruntime.InferenceSession(name, providers=["CPUExecutionProvider"])
        for name in (summary["start"], summary["out"])
    ]
    assert (sessions[0] is None) == (model.num_past == 1)
    memory, session = states.reshape(1, -1), sessions[1]
    if sessions[0] is not None:
        given = {"past_states": memory, "past_actions": past.reshape(1, -1)}
        (memory,) = sessions[0].run(["memory"], given)
    if steps is not None:
        given = {"memory": memory, "actions": actions[:steps].reshape(1, -1)}
        (found,) = session.run(["outputs"], given)
        np.testing.assert_allclose(found.reshape(-1, 2), expected[:steps], rtol=1e-4, atol=1e-5)
        return
    found = []
    for action in actions:
        given = {"memory": memory, "action": action[None]}
        memory, outputs = session.run(["next_memory", "outputs"], given)
        found.append(outputs[0])
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
    operators = {node.op_type for node in onnx.load(summary["out"]).graph.node}
    assert operators - READ_BY_DO_MPC <= {"Sin", "Cos"}  # those of an angle


class Bending(AbstractModel):
    """Every function that do-mpc has no operator for, but that can be made of those it has."""

    def step(self, state, action):
        bent = jnp.maximum(state, action[0]) - jnp.minimum(state, 0.3) + jnp.abs(-state) + state**2
        return jnp.minimum(bent / 4.0, state[::-1])


def test_functions_that_do_mpc_lacks_are_made_of_those_it_has():
    import onnxruntime

    program = programs_of(Bending(), 2, 1).step
    facts = facts_of(make_model(LineConfig()), 2)
    content = onnx_bytes(program, facts, ("next_memory", "outputs"))
    assert not_read_by_do_mpc(content) == []
    session = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])
    for state in np.random.default_rng(0).normal(size=(20, 2)).astype(np.float32):
        found = session.run(["outputs"], {"memory": state[None], "action": np.array([[0.2]], np.float32)})
        a, b = state.astype(float)
        bent = np.maximum(state, 0.2) - np.minimum(state, 0.3) + np.abs(state) + state.astype(float) ** 2
        np.testing.assert_allclose(found[0][0], np.minimum(bent / 4, [b, a]), rtol=1e-5, atol=1e-6)


def test_an_angle_is_said_not_to_be_for_do_mpc(tmp_path):
    save_model(make_model(ARCHITECTURES["angle"]), tmp_path / "model.safetensors")
    with pytest.warns(UserWarning, match="Cos and Sin, which do-mpc does not read: --to casadi"):
        summary = run_export(ExportConfig(tmp_path / "model.safetensors", to="onnx"))
    assert Path(summary["out"]).exists()


class Sorting(AbstractModel):
    def step(self, state, action):
        return jnp.sort(state)


def test_what_has_no_export_is_refused(tmp_path):
    with pytest.raises(InputError, match="that no export knows of"):
        programs_of(Sorting(), 2, 1)
    with pytest.raises(InputError, match="begin with a letter"):
        run_export(ExportConfig(tmp_path / "model.safetensors", name="2fast"))
    save_model(make_model(LineConfig()), tmp_path / "line.safetensors")
    with pytest.raises(InputError, match="add --to onnx"):
        run_export(ExportConfig(tmp_path / "line.safetensors", to="c", steps=3))
    with pytest.raises(InputError, match="is the model itself"):
        run_export(ExportConfig(tmp_path / "line.safetensors", out=tmp_path / "line.safetensors"))
    with pytest.raises(InputError, match="There is no model file"):
        run_export(ExportConfig(tmp_path / "model.safetensors"))
    assert [path.name for path in tmp_path.iterdir()] == ["line.safetensors"]


def test_a_file_whose_numbers_are_wrong_is_not_kept(tmp_path, monkeypatch):
    """An operation that one language gets wrong, which no rounding explains."""
    path = tmp_path / "model.safetensors"
    save_model(make_model(ARCHITECTURES["network"]), path)
    functions = sys.modules["multistep.dynamics.export.numpy_code"].FUNCTIONS
    monkeypatch.setitem(functions, "tanh", "np.tanh(1.001 * {0})")
    with pytest.raises(InputError, match=r"The numbers of the NumPy file differ .* not kept"):
        run_export(ExportConfig(path))
    assert [file.name for file in tmp_path.iterdir()] == ["model.safetensors"]


def test_another_time_step_is_refused_with_the_remedy(tmp_path):
    path = tmp_path / "model.safetensors"
    save_model(make_model(LineConfig()), path)
    assert run_export(ExportConfig(path, time_step=0.02))["time_step"] == 0.02
    for step, remedy in ((0.06, "--every 3"), (0.05, "--resample 0.05"), (0.01, "--resample 0.01")):
        with pytest.raises(
            InputError, match=f"step is 0.02, not {step}: fit again and add {remedy}, or step it"
        ):
            run_export(ExportConfig(path, time_step=step))
    with pytest.raises(InputError, match=r"step is 0.02, not 0.008: step it every 0.02\."):
        run_export(ExportConfig(path, time_step=0.008))
    write_json(tmp_path / "config.json", {"config": {"changes": {"every": 2, "resample": None}}})
    with pytest.raises(InputError, match="fit again and leave out --every 2"):
        run_export(ExportConfig(path, time_step=0.01))
    write_json(tmp_path / "config.json", {"config": {"changes": {"every": None, "resample": 0.02}}})
    with pytest.raises(InputError, match=r"not 0.01: step it every 0.02\."):
        run_export(ExportConfig(path, time_step=0.01))
    with pytest.raises(InputError, match="give a number above 0"):
        run_export(ExportConfig(path, time_step=0.0))
    save_model(replace(make_model(LineConfig()), time_step=None), path)
    with pytest.raises(InputError, match="does not say its time step"):
        run_export(ExportConfig(path, time_step=0.02))


def test_a_model_from_before_ranges_were_kept_is_exported_with_a_remark(tmp_path):
    model, path = make_model(LineConfig()), tmp_path / "model.safetensors"
    save_model(
        replace(model, normaliser=replace(model.normaliser, state_range=None, action_range=None)), path
    )
    with pytest.warns(UserWarning, match="nothing will be found outside of it"):
        exported = loaded(run_export(ExportConfig(path))["out"])
    assert exported.FACTS["states"][0]["low"] is None
    assert exported.outside([1e30, 0], [1e30]) == 0
