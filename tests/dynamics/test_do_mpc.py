"""do-mpc itself: it reads the exported ONNX files and controls with them."""

import numpy as np
import pytest
from test_export import ARCHITECTURES, example, make_model

from multistep.commands.export import ExportConfig, run_export
from multistep.dynamics import save_model

pytestmark = pytest.mark.filterwarnings("ignore")  # do-mpc has warnings of its own
HORIZON, EFFORT = 5, 0.1


def converted(model, folder):
    """What do-mpc makes of the ONNX file, and what the export says of it."""
    do_mpc, onnx = pytest.importorskip("do_mpc"), pytest.importorskip("onnx")
    save_model(model, folder / "model.safetensors")
    summary = run_export(ExportConfig(folder / "model.safetensors", to="onnx"))
    return do_mpc.sysid.ONNXConversion(onnx.load(summary["out"])), summary


def memory_of(model, folder, states, past):
    """What it carries after this past, by the file that the export left for that."""
    if model.num_past == 1:
        return states[0].astype(float)
    onnxruntime = pytest.importorskip("onnxruntime")
    start = onnxruntime.InferenceSession(folder / "model_start.onnx", providers=["CPUExecutionProvider"])
    given = {"past_states": states.reshape(1, -1), "past_actions": past.reshape(1, -1)}
    return start.run(["memory"], given)[0][0].astype(float)


@pytest.mark.parametrize("kind", sorted(set(ARCHITECTURES) - {"angle"}))
def test_it_reads_the_file_and_finds_the_same(kind, tmp_path):
    model = make_model(ARCHITECTURES[kind])
    converter, _ = converted(model, tmp_path)
    states, past, actions, expected = example(model, steps=3)
    memory, found = memory_of(model, tmp_path, states, past)[None], []
    for action in actions:
        converter.convert(memory=memory, action=action[None])
        memory = np.asarray(converter["next_memory"])
        found.append(np.asarray(converter["outputs"])[0])
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


def controller(model, folder):
    """A controller that do-mpc makes of the ONNX file: it sums y'y + 0.1 u'u over the horizon."""
    do_mpc = pytest.importorskip("do_mpc")
    converter, summary = converted(model, folder)
    plant = do_mpc.model.Model("discrete", "SX")
    memory = plant.set_variable("_x", "memory", (summary["memory_size"], 1))
    action = plant.set_variable("_u", "action", (1, 1))
    converter.convert(memory=memory.T, action=action.T)
    plant.set_rhs("memory", converter["next_memory"].T)
    plant.set_expression("outputs", converter["outputs"].T)
    plant.setup()
    mpc = do_mpc.controller.MPC(plant)
    mpc.settings.n_horizon, mpc.settings.t_step = HORIZON, summary["time_step"]
    mpc.settings.store_full_solution = True
    mpc.settings.supress_ipopt_output()
    outputs, action = plant.aux["outputs"], plant.u["action"]
    nothing = 0 * plant.x["memory"][0]
    mpc.set_objective(mterm=nothing, lterm=outputs.T @ outputs + EFFORT * action.T @ action)
    mpc.set_rterm(action=0.0)
    mpc.setup()
    return mpc


def test_its_first_action_is_that_of_least_squares(tmp_path):
    """Of a linear model the best actions are a linear problem, solved here without do-mpc."""
    model, state = make_model(ARCHITECTURES["line"]), np.array([3.0, -1.0])
    mpc = controller(model, tmp_path)
    mpc.x0 = state
    mpc.set_initial_guess()
    found = mpc.make_step(state[:, None])

    def outputs(actions):
        return np.asarray(model.rollout(state, np.reshape(actions, (-1, 1)))).ravel()

    free = outputs(np.zeros(HORIZON))
    slopes = np.stack([outputs(unit) - free for unit in np.eye(HORIZON)], axis=1)
    matrix = np.concatenate([slopes, np.sqrt(EFFORT) * np.eye(HORIZON)])
    best = np.linalg.lstsq(matrix, np.concatenate([-free, np.zeros(HORIZON)]))[0]
    assert abs(best[0]) > 0.1
    np.testing.assert_allclose(found, [[best[0]]], rtol=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["silu", "lagged", "hidden"])
def test_it_foresees_what_the_model_foresees(kind, tmp_path):
    """Its plan, and what the model says would come of it."""
    model = make_model(ARCHITECTURES[kind])
    mpc = controller(model, tmp_path)
    states, past, _, _ = example(model)
    mpc.x0 = memory_of(model, tmp_path, states, past)
    mpc.set_initial_guess()
    first = mpc.make_step(mpc.x0)
    assert mpc.solver_stats["success"]
    planned = mpc.data.prediction(("_u", "action"))[:, :, 0].T
    np.testing.assert_allclose(planned[0], first[0])
    starts = (states[0],) if model.num_past == 1 else (states, past)
    expected = np.asarray(model.rollout(*starts, planned))
    foreseen = mpc.data.prediction(("_aux", "outputs"))[:, :, 0].T
    np.testing.assert_allclose(foreseen[:HORIZON], expected, rtol=1e-4, atol=1e-5)
