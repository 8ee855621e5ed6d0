"""`multistep fit --from`: a saved model goes on with other logs."""

from dataclasses import replace

import equinox as eqx
import jax
import numpy as np
import polars as pl
import pytest

from multistep.commands.fit import FitFilesConfig, recipe_of, run_fit
from multistep.commands.memory_options import MemoryOptions
from multistep.commands.source import Source
from multistep.data import Columns
from multistep.dynamics import NetworkConfig, load_model
from multistep.errors import InputError
from multistep.losses import Uniform
from multistep.report.sentences import model_sentence
from multistep.training import Continuing, Once, QuasiNewton
from systems import plant_episodes

NAMED = Columns(states=("y",), actions=("u",), time="t")
SHORT = Once(horizon=4, weights=Uniform(), epochs=1, least_steps=50, learning_rate=1e-9)


def write(path, seed, step=0.5, names=("t", "u", "y")):
    outputs, inputs, _ = plant_episodes(num=1, steps=200, seed=seed)[0]
    rng = np.random.default_rng(seed)
    columns = 0.5 + step * np.arange(201), [*inputs[:, 0], None], outputs[:, 0] + rng.normal(size=201)
    path.parent.mkdir(exist_ok=True)
    pl.DataFrame(dict(zip(names, columns, strict=True)), strict=False).write_csv(path)


@pytest.fixture(autouse=True)
def standard_promotion():
    with jax.numpy_dtype_promotion("standard"):  # as in the tests of training
        yield


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Logs of two days, and a line of three lags of the first."""
    folder = tmp_path_factory.mktemp("plant")
    for number in range(12):
        write(folder / ("old" if number < 4 else "new") / f"{number}.csv", number)
    write(folder / "fast.csv", 20, step=0.1)
    write(folder / "other.csv", 20, names=("t", "u", "z"))
    source = Source((str(folder / "old" / "*.csv"),), NAMED)
    run_fit(FitFilesConfig(source, memory=MemoryOptions(lags=3), recipe="linear", out=folder / "run", seed=1))
    return folder


def config(folder, files="new/*.csv", **changes):
    usual = {
        "source": Source((str(folder / files),), Columns(time="t")),
        "from_model": folder / "run" / "model.safetensors",
        "training": SHORT,
        "out": folder / "more",
    }
    return FitFilesConfig(**(usual | changes))


def test_the_columns_are_those_of_the_model_and_the_judge_decides(folder):
    summary = run_fit(config(folder))
    old, new = (load_model(folder / name / "model.safetensors") for name in ("run", "more"))
    assert (new.names, new.num_past, new.time_step) == (old.names, 3, 0.5)
    assert eqx.tree_equal(new.normaliser, old.normaliser)
    (note,) = summary["notes"]
    assert note in model_sentence(summary)
    if summary["chosen"] == "before":
        assert eqx.tree_equal(new, old)
    assert set(summary["parts"]) == {"before", "after"}
    assert pl.read_csv(folder / "more" / "history.csv")["part"].unique().to_list() == ["after"]


def test_a_model_that_was_better_is_what_is_left(folder, tmp_path):
    summary = run_fit(config(folder, out=tmp_path / "run", training=SHORT.vary(learning_rate=100.0)))
    assert summary["chosen"] == "before"
    assert "the old model is kept" in summary["notes"][0]
    old, new = folder / "run" / "model.safetensors", tmp_path / "run" / "model.safetensors"
    assert old.read_bytes() == new.read_bytes()
    assert summary["model"]["epochs"] == 0


def test_the_recipe_starts_from_the_model(folder):
    assert recipe_of(config(folder)) == Continuing(folder / "run" / "model.safetensors", SHORT)
    small = recipe_of(config(folder, recipe="small"))
    assert isinstance(small, Continuing)
    assert small.recipe == QuasiNewton(starts=1)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"from_model": "none.safetensors"}, "There is no model file"),
        ({"memory": MemoryOptions(lags=2)}, "leave out --lags"),
        ({"architecture": "line"}, "leave out --lags, --hidden, --architecture"),
        ({"training": replace(SHORT, network=NetworkConfig(8))}, r"--architecture, --network\.\*"),
        ({"budget": "10s"}, "leave out --budget"),
        ({"recipe": "automatic"}, "--recipe automatic or linear"),
        ({"out": "run"}, "holds the model to go on from: choose another --out"),
        (
            {"files": "fast.csv"},
            r"model's step is 0\.5, these files have a sample every 0\.1: add --every 5",
        ),
        ({"files": "other.csv"}, r"other\.csv has no column y; it has t, u, z"),
    ],
)
def test_what_cannot_be_gets_a_sentence_and_leaves_nothing(folder, changes, words, tmp_path):
    places = {name: folder / changes[name] for name in ("from_model", "out") if name in changes}
    with pytest.raises(InputError, match=words):
        run_fit(config(folder, **({"out": tmp_path / "out"} | changes | places)))
    assert not (tmp_path / "out").exists()


def test_columns_of_other_names_are_given_those_of_the_model(folder, tmp_path):
    source = Source((str(folder / "other.csv"),), replace(NAMED, states=("z",)))
    with pytest.raises(InputError, match="dimensions are y, the data has z"):
        run_fit(config(folder, source=source, out=tmp_path / "out"))
    assert not (tmp_path / "out").exists()
