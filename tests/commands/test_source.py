import jax.numpy as jnp
import pytest

from multistep.commands.fit import FitFilesConfig
from multistep.commands.source import Source, fitted_columns
from multistep.data import Columns
from multistep.dynamics import Model, save_model
from multistep.dynamics.network import NetworkConfig, make_network
from multistep.dynamics.normaliser import Normaliser
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
