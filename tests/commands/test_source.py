import jax.numpy as jnp
import numpy as np
import polars as pl
import pytest

from multistep.commands.fit import FitFilesConfig
from multistep.commands.source import (
    Changes,
    Source,
    check_same_step,
    check_same_step_in_test,
    fitted_columns,
    read_episodes,
)
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


def write_log(path, step, count=9):
    path.write_text("t,x,u\n" + "".join(f"{step * n:.6g},{n},1\n" for n in range(count)))


def test_a_log_with_another_step_is_refused_and_resampled(tmp_path):
    for name, step in (("a", 0.05), ("b", 0.05), ("c", 0.1)):
        write_log(tmp_path / f"{name}.csv", step)
    source = Source((str(tmp_path / "*.csv"),), Columns(("x",), ("u",), time="t"))
    with pytest.raises(InputError, match=r"but 0\.1 in .*c\.csv: add --resample 0\.1, or"):
        read_episodes(source)
    assert read_episodes(source, Changes(resample=0.1)).time_step == 0.1
    with pytest.raises(InputError, match="both given: choose one"):
        read_episodes(source, Changes(resample=0.1, every=2))


@pytest.mark.parametrize(
    ("own", "other", "changes", "remedy"),
    [
        (0.5, 0.25, {}, r": add --every 2, or fit anew\."),
        (0.5, 0.5 * 2, {"every": 2}, r": leave out --every 2, or fit anew\."),
        (0.5, 0.2, {"every": 2}, r": add --every 5 in place of --every 2, or fit anew\."),
        (0.5, 0.25, {"resample": 0.25}, r": leave out --resample 0\.25, or fit anew\."),
        (0.3, 0.25, {}, r": add --resample 0\.3, or fit anew\."),
        (0.1, 0.2, {}, r": add --resample 0\.1, or fit anew\."),
        (0.1, 0.25, {}, r": fit anew\."),
    ],
)
def test_only_what_works_is_offered(own, other, changes, remedy):
    with pytest.raises(InputError, match=remedy):
        check_same_step(own, other, Changes(**changes))


def test_a_change_is_made_to_training_and_test_alike():
    for train, test in ((0.5, 0.25), (0.25, 0.5)):
        with pytest.raises(InputError, match=r": add --resample 0\.5, or"):
            check_same_step_in_test(train, test, Changes())
    with pytest.raises(InputError, match=r": add --resample 0\.5 in place of --every 2, or"):
        check_same_step_in_test(1.0, 0.5, Changes(every=2))


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
    with pytest.raises(InputError, match=r"row 2 .* as no other value of its states is"):
        read_episodes(source, Changes())
