"""What is wrong with the data is said before a model is fitted to them."""

import numpy as np
import polars as pl
import pytest

from multistep.commands.fit import FitFilesConfig, run_fit
from multistep.commands.inspect import InspectConfig, run_inspect
from multistep.commands.source import Source
from multistep.data import Columns
from multistep.report.views import view_inspect
from systems import oscillator_episodes

COLUMNS = Columns(states=("x", "v"), actions=("u",), missing="cut")


@pytest.fixture
def source(tmp_path):
    """Six logs whose actions stand one row too low; one lacks a value."""
    for number in range(6):
        states, actions, _ = oscillator_episodes(1, 100, noise=0.01, seed=number)[0]
        table = np.column_stack([states[1:-1], actions[:-1]])
        frame = pl.DataFrame(table, schema=["x", "v", "u"])
        frame = frame.with_columns(u=pl.when(pl.int_range(99) == 40 * number).then(None).otherwise("u"))
        frame.write_csv(tmp_path / f"{number}.csv")
    return Source((str(tmp_path / "*.csv"),), COLUMNS)


@pytest.mark.filterwarnings("ignore:.*lacks values")
def test_inspect_says_so(source, tmp_path):
    config = InspectConfig(source, tmp_path / "out")
    summary = run_inspect(config)
    (remark,) = summary["remarks"]
    assert "The action u is perhaps in the wrong row" in remark
    assert remark.endswith("move the column u up by one row.")
    assert remark in list(view_inspect(config, summary))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*lacks values")
def test_fit_says_so_first(source, tmp_path):
    with pytest.warns(UserWarning, match="move the column u up by one row"):
        run_fit(FitFilesConfig(source, recipe="linear", out=tmp_path / "fit"))
