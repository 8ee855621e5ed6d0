"""What does not go with a model is refused before anything is scored."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import multistep as ms
from multistep.commands.score import ScoreFilesConfig, run_score
from multistep.commands.source import Source
from multistep.data import Columns
from multistep.dynamics import LineConfig, fit_normaliser, in_units
from multistep.errors import InputError
from systems import random_episodes

TIMED = Columns(time="t")


@pytest.fixture
def model(tmp_path):
    """A line from x and u, in metres and volts, and a folder for its file."""
    episodes = random_episodes([20], state_size=1, action_size=1)
    units = jax.tree.map(lambda values: jnp.asarray(values, float), fit_normaliser(episodes))
    line = LineConfig().make(1, 1, key=jax.random.key(0)).freeze()
    found = in_units(line, units, ("x",), ("u",), 0.05, {"x": "m", "u": "V"})
    ms.save_model(found, tmp_path / "model.safetensors")
    return found


def scored(folder, name, columns=TIMED):
    source = Source((str(folder / name),), columns)
    return run_score(ScoreFilesConfig(folder / "model.safetensors", source, out=folder / "out"))


def test_files_of_other_widths_get_a_sentence(model, tmp_path):
    ms.save(random_episodes([9], state_size=3, action_size=1), tmp_path / "wide.npz")
    columns = Columns(states=("state_0", "state_1"), actions=("action_0",))
    with pytest.raises(InputError, match=r"model has 1 state dimension \(x\), the data 2"):
        scored(tmp_path, "wide.npz", columns)
    assert not (tmp_path / "out").exists()


def test_files_in_other_units_are_refused(model, tmp_path):
    rows = "".join(f"{0.05 * t},{t},1\n" for t in range(9))
    (tmp_path / "log.csv").write_text("t,x [mm],u [V]\n" + rows)
    with pytest.raises(InputError, match="model has x in m, the data in mm: convert the data to m"):
        scored(tmp_path, "log.csv")


def test_episodes_of_other_steps_and_units_are_refused_in_python(model):
    states, actions = np.zeros((9, 1)), np.zeros((8, 1))
    plain = ms.Episodes.of([(states, actions)], state_names=("x",), action_names=("u",))
    ms.score(model, plain, horizon=2)
    with pytest.raises(InputError, match=r"model's step is 0\.05, the episodes have a sample every 0\.1"):
        ms.score(model, replace(plain, time_step=0.1), horizon=2)
    with pytest.raises(InputError, match="has u in V, the data in mV"):
        ms.score(model, replace(plain, units={"u": "mV"}), horizon=2)
