import jax.numpy as jnp
import numpy as np
import polars as pl
import pytest

from multistep.commands.fit import FitFilesConfig
from multistep.commands.source import Changes, Source, fitted_columns, read_episodes
from multistep.data import Columns
from multistep.dynamics import Model, save_model
from multistep.dynamics.network import NetworkConfig, make_network
from multistep.dynamics.normaliser import Normaliser
from multistep.errors import InputError
from multistep.runs.run_folder import write_run


@pytest.fixture
def model(tmp_path, getkey):
    """A model and its file, left by a fit to a table with a column of episodes."""
    normaliser = Normaliser(jnp.zeros(2), jnp.ones(2), jnp.zeros(1), jnp.ones(1))
    fitted = Model(
        make_network(NetworkConfig(8), 2, 1, key=getkey()), normaliser, ("position", "velocity"), ("force",)
    )
    path = tmp_path / "model.safetensors"
    save_model(fitted, path)
    columns = Columns(("position", "velocity"), ("force",), episode="run")
    write_run(tmp_path, "fit", FitFilesConfig(Source(("log.csv",), columns)), [{"horizon": 1}], {})
    return fitted, path


def test_states_and_actions_are_the_models_unless_named(model):
    fitted, path = model
    columns = fitted_columns(fitted, path, Columns(actions=("push",), episode="run", time="t"))
    assert columns == Columns(("position", "velocity"), ("push",), episode="run", time="t")


def test_a_column_of_episodes_that_is_no_longer_named_is_remarked_on(model):
    fitted, path = model
    with pytest.warns(UserWarning, match="fitted with --episode run: give it here too"):
        fitted_columns(fitted, path, Columns())


@pytest.mark.parametrize("left", [None, "no JSON", "{}", '{"config": {"columns": 1}}'])
def test_a_model_file_without_its_run_is_used_without_a_word(model, left):
    fitted, path = model
    (path.parent / "config.json").unlink() if left is None else (path.parent / "config.json").write_text(left)
    assert fitted_columns(fitted, path, Columns()).states == ("position", "velocity")


@pytest.mark.parametrize(("unit", "word"), [(2 * np.pi, "theta"), (360.0, "theta:deg")])
@pytest.mark.parametrize("changes", [Changes(every=30), Changes(resample=0.35), Changes(resample=3.0)])
def test_angles_are_unwrapped_before_samples_are_left_out_or_interpolated(tmp_path, unit, word, changes):
    """A wheel that turns at 0.3 radians a sample, logged within one turn."""
    times = 0.1 * np.arange(300)
    turned = 3 * times + 0.5 * np.sin(times)
    seen = (turned + np.pi) % (2 * np.pi) - np.pi
    table = {"t": times, "theta": seen * unit / (2 * np.pi), "u": np.zeros(300)}
    pl.DataFrame(table).write_csv(tmp_path / "wheel.csv")
    columns = Columns(("theta",), ("u",), time="t", angles=(word,))
    found = read_episodes(Source((str(tmp_path / "wheel.csv"),), columns), changes)
    kept = np.arange(len(found.states)) * (changes.resample or 0.1 * changes.every)
    expected = (3 * kept + 0.5 * np.sin(kept)) * unit / (2 * np.pi)
    np.testing.assert_allclose(found.states[:, 0], expected, rtol=1e-3, atol=1e-3 * unit)
    assert found.turns == (unit,)


def test_a_value_that_is_missing_in_an_angle_is_still_counted_alone(tmp_path):
    table = {"theta": [0.1, None, 0.3, 0.4], "u": [0.0] * 4}
    pl.DataFrame(table).write_csv(tmp_path / "wheel.csv")
    source = Source((str(tmp_path / "wheel.csv"),), Columns(("theta",), ("u",), angles=("theta",)))
    with pytest.raises(InputError, match=r"row 2 .* as are 1 values of its states"):
        read_episodes(source, Changes())
