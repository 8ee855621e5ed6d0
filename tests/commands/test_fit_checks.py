"""What a fit refuses before it trains."""

import numpy as np
import polars as pl
import pytest

from multistep.commands.convert import ConvertConfig, run_convert
from multistep.commands.fit import FitFilesConfig, run_fit
from multistep.commands.memory_options import MemoryOptions
from multistep.commands.source import Source
from multistep.data import Columns
from multistep.errors import InputError
from systems import oscillator_episodes

COLUMNS = Columns(states=("x", "v"), actions=("u",))


@pytest.fixture
def folder(tmp_path):
    """Five logs of a plant, and one in which it stands still."""
    for number in range(5):
        states, actions, _ = oscillator_episodes(1, 30, noise=0.01, seed=number)[0]
        table = np.column_stack([states[:-1], actions])
        pl.DataFrame(table, schema=["x", "v", "u"]).write_csv(tmp_path / f"{number}.csv")
    pl.DataFrame({"x": [1.0] * 30, "v": [2.0] * 30, "u": np.arange(30.0)}).write_csv(tmp_path / "still.csv")
    return tmp_path


def refused(folder, words, files="[0-9].csv", **changes):
    config = FitFilesConfig(Source((str(folder / files),), COLUMNS), out=folder / "out", **changes)
    with pytest.raises(InputError, match=words):
        run_fit(config)
    assert not (folder / "out").exists()


def test_states_that_never_change(folder):
    refused(folder, "states x, v never change in these files", files="still.csv")


def test_a_file_that_is_trained_on_and_held_out(folder, monkeypatch):
    monkeypatch.chdir(folder)
    refused(folder, "3.csv is to be trained on and held out by --test", test=("./3.csv",))


def test_a_hidden_state_without_a_past(folder):
    refused(folder, r"5 numbers cannot be read from a past of 2 numbers", memory=MemoryOptions(1, 5))


def test_a_conversion_that_loses_the_time_step_says_so(folder):
    text = "t [ms],x,v,u\n" + "".join(f"{50 * n},{n},1,1\n" for n in range(5))
    (folder / "timed.csv").write_text(text)
    columns = Columns(states=("x", "v"), actions=("u",), time="t")
    with pytest.warns(UserWarning, match="no place for the time step and the units: .csv, .parquet, .npz"):
        run_convert(ConvertConfig(str(folder / "timed.csv"), str(folder / "out.hdf5"), columns))
    run_convert(ConvertConfig(str(folder / "timed.csv"), str(folder / "out.csv"), columns))
    assert pl.read_csv(folder / "out.csv")["time"].to_list() == [0, 0.05, 0.1, 0.15, 0.2]
