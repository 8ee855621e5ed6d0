"""Benchmarks are read as their protocol says, and scored like a plain simulation of them."""

from dataclasses import replace
from pathlib import Path

import jax
import numpy as np
import polars as pl
import pytest

import multistep as ms
from multistep.errors import InputError
from multistep.studies.benchmark_records import (
    BENCHMARKS,
    Record,
    find_benchmark,
    free_run_rmse,
    paper_table,
    read_benchmark,
)
from multistep.training import LeastSquares
from systems import tanks_file

DATA = Path(__file__).parents[3] / "shared" / "data"


def test_experiments_side_by_side(tmp_path):
    inputs, outputs = tanks_file(tmp_path)
    data = read_benchmark(find_benchmark("cascaded_tanks"), tmp_path)
    test = data.tests["test"]
    for column, episodes in enumerate((data.train, test)):
        np.testing.assert_allclose(episodes.states[:, 0], outputs[:, column])
        np.testing.assert_allclose(episodes.actions[:, 0], inputs[:-1, column])
    assert (test.time_step, test.units, test.state_names) == (4.0, {"y": "V", "u": "V"}, ("y",))
    assert test.origins == ("cascaded_tanks.csv, yVal from sample 0",)


def test_records_are_stretches_of_a_file(tmp_path):
    (tmp_path / "benchmarks").mkdir()
    rows = np.arange(100.0)
    pl.DataFrame({"u": -rows, "y": rows}).write_parquet(tmp_path / "benchmarks" / "silverbox.parquet")
    small = replace(
        find_benchmark("silverbox"),
        train=Record("silverbox.parquet", first=10, last=40),
        tests=(("rest", Record("silverbox.parquet", first=40)),),
    )
    data = read_benchmark(small, tmp_path)
    np.testing.assert_array_equal(data.train.states[:, 0], rows[10:40])
    np.testing.assert_array_equal(data.train.actions[:, 0], -rows[10:39])
    np.testing.assert_array_equal(data.tests["rest"].states[:, 0], rows[40:])
    with pytest.raises(InputError, match="has 100 samples, and silverbox needs 127400"):
        read_benchmark(find_benchmark("silverbox"), tmp_path)


def test_a_free_run_is_scored_in_the_customary_unit_after_what_was_seen(tmp_path):
    tanks_file(tmp_path)
    benchmark = replace(find_benchmark("cascaded_tanks"), scale_to_unit=1e3)
    data = read_benchmark(benchmark, tmp_path)
    recipe = LeastSquares(ms.Lags(2).around(LeastSquares().network))
    model = recipe.fit(data.train, data.train, key=jax.random.key(0), score=ms.R2Bar(20)).model
    assert free_run_rmse(model, data.tests["test"], benchmark) < 1e-3  # it is linear, of second order
    wrong = replace(data.tests["test"], states=data.tests["test"].states + 0.0)
    wrong.states[benchmark.num_seen :] += 0.25  # what is not seen is off by this; what is seen is right
    assert free_run_rmse(model, wrong, benchmark) == pytest.approx(250, rel=1e-4)
    wrong.states[: benchmark.num_seen - 2] = 1e6  # seen, but no model of two lags asks for it
    assert free_run_rmse(model, wrong, benchmark) == pytest.approx(250, rel=1e-4)


def test_what_is_wrong_is_said_in_a_sentence(tmp_path):
    tanks = find_benchmark("cascaded_tanks")
    with pytest.raises(InputError, match=r"There is no cascaded_tanks\.csv in .* has it\."):
        read_benchmark(tanks, tmp_path)
    (tmp_path / "cascaded_tanks.csv").write_text("a,b\n1,2\n")
    with pytest.raises(InputError, match="has no column yVal; it has a, b"):
        read_benchmark(tanks, tmp_path)
    with pytest.raises(InputError, match="There is no benchmark tanks: name one of cascaded_tanks, "):
        find_benchmark("tanks")


def test_the_literature_names_records_that_there_are():
    known = {(each.name, test, each.unit) for each in BENCHMARKS.values() for test, _ in each.tests}
    assert set(paper_table().select("benchmark", "test", "unit").iter_rows()) < known
    assert find_benchmark("silverbox").paper_rmse("arrow")["PNLSS"] == 0.26
    assert find_benchmark("silverbox").paper_rmse("arrow_no_extrapolation") == {}


@pytest.mark.skipif(not DATA.exists(), reason="the measured data are not here")
def test_the_published_records():
    found = {}
    for name, benchmark in BENCHMARKS.items():
        data = read_benchmark(benchmark, DATA)
        found[name] = [len(data.train.states), *(len(test.states) for test in data.tests.values())]
    assert found == {
        "cascaded_tanks": [1024, 1024],
        "silverbox": [65062, 21688, 40475, 32000],
        "wiener_hammerstein": [100_000, 78_800],
        "emps": [24841, 24841],
    }
    tanks = read_benchmark(find_benchmark("cascaded_tanks"), DATA)
    np.testing.assert_array_equal(tanks.tests["test"].states[[0, -1], 0], [4.9728, 3.7179])
