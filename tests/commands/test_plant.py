"""An engineer's plant: outputs and inputs in tables, lags, free runs in units, time steps."""

from pathlib import Path

import numpy as np
import polars as pl
import pytest

from multistep.commands.export import ExportConfig, run_export
from multistep.commands.fit import FitFilesConfig, run_fit
from multistep.commands.memory_options import MemoryOptions
from multistep.commands.score import ScoreFilesConfig, run_score
from multistep.commands.source import Changes, Source, check_same_step
from multistep.data import Columns
from multistep.dynamics import HiddenState, Lags, NoMemory, load_model
from multistep.errors import InputError
from multistep.evaluation import free_run
from multistep.report.traces import autocorrelation, draw_traces
from multistep.selection.lags import ChosenMemory
from systems import plant_episodes

COLUMNS = Columns(states=("y",), actions=("u",), time="t")


def write(path, seed, steps, step=0.5):
    outputs, inputs, _ = plant_episodes(num=1, steps=steps, seed=seed)[0]
    inputs = [*inputs[:, 0], None]
    times = step * np.arange(steps + 1)
    pl.DataFrame({"t": times, "u": inputs, "y": outputs[:, 0]}, strict=False).write_csv(path)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("plant")
    write(folder / "estimation.csv", 0, 400)
    write(folder / "validation.csv", 1, 300)
    write(folder / "fast.csv", 2, 300, step=0.25)
    return folder


def config(folder, **changes):
    usual = {
        "source": Source((str(folder / "estimation.csv"),), COLUMNS),
        "test": (str(folder / "validation.csv"),),
        "memory": MemoryOptions(lags=3),
        "recipe": "linear",
        "free_run": True,
        "out": folder / "run",
    }
    return FitFilesConfig(**(usual | changes))


@pytest.fixture(scope="module")
def summary(folder):
    return run_fit(config(folder))


def test_one_recording_trains_and_another_is_simulated_whole(folder, summary):
    found = summary["free_run"]
    assert (found["records"], found["num_past"]) == (1, 3)
    assert summary["episodes"] == {"train": 1, "valid": 1, "test": 1}
    model = load_model(folder / "run" / "model.safetensors")
    test = plant_episodes(num=1, steps=300, seed=1)
    (run,) = free_run(model, test)
    assert found["rmse"]["y"] == pytest.approx(float(run.rmse[0]), rel=0.05, abs=1e-4)
    assert found["rmse"]["y"] < 1e-3 * test.states.std()
    assert found["fit_percent"]["y"] > 99.9
    assert model.time_step == 0.5


def test_rows_and_figure_show_the_record(folder, summary):
    rows = pl.read_csv(folder / "run" / "free_runs.csv")
    assert rows["record"].to_list() == [str(folder / "validation.csv")]
    traces = pl.read_csv(folder / "run" / "traces.csv")
    assert traces["time"].to_list() == (0.5 * np.arange(3, 301)).tolist()
    error = traces["measured"] - traces["predicted"]
    assert np.sqrt((error**2).mean()) == pytest.approx(summary["free_run"]["rmse"]["y"], rel=1e-5)
    assert draw_traces(folder / "run").stat().st_size > 10_000


def test_a_score_from_other_times_is_refused_with_the_remedy(folder, summary):
    fast = ScoreFilesConfig(
        model=folder / "run" / "model.safetensors",
        source=Source((str(folder / "fast.csv"),), COLUMNS),
        out=folder / "score",
    )
    with pytest.raises(InputError, match=r"model's step is 0.5.*every 0.25: add --every 2"):
        run_score(fast)
    assert not (folder / "score").exists()
    with pytest.raises(InputError, match=r"add --resample 0\.3, or fit"):
        check_same_step(0.3, 0.25)
    check_same_step(0.3, None)
    both = Source((str(folder / "validation.csv"), str(folder / "estimation.csv")), COLUMNS)
    scored = run_score(ScoreFilesConfig(fast.model, both, out=folder / "score"))
    assert scored["free_run"]["records"] == 2
    worst = pl.read_csv(folder / "score" / "free_runs.csv")["error_of_deviation"].to_list()
    assert worst == sorted(worst, reverse=True)


def test_units_and_range_of_the_log_come_with_the_exported_model(folder, tmp_path):
    text = (folder / "estimation.csv").read_text()
    (tmp_path / "log.csv").write_text(text.replace("t,u,y", "t,u [V],y [mm]", 1))
    run_fit(config(folder, source=Source((str(tmp_path / "log.csv"),), COLUMNS), out=tmp_path / "run"))
    out = run_export(ExportConfig(tmp_path / "run" / "model.safetensors"))
    (y,), (u,) = out["states"], out["actions"]
    assert (y["unit"], u["unit"], out["time_step"]) == ("mm", "V", 0.5)
    log = pl.read_csv(tmp_path / "log.csv")
    low, high = log["y [mm]"].min(), log["y [mm]"].max()
    assert low - 1e-6 <= y["low"] < y["mean"] < y["high"] <= high + 1e-6
    assert u["deviation"] == pytest.approx(log["u [V]"].std(), rel=0.1)


def test_a_score_says_what_is_outside_of_the_training_data(folder, summary, tmp_path):
    table = pl.read_csv(folder / "validation.csv").with_columns(pl.col("u") + 10)
    table.write_csv(tmp_path / "far.csv")
    far = ScoreFilesConfig(
        model=folder / "run" / "model.safetensors",
        source=Source((str(tmp_path / "far.csv"),), COLUMNS),
        out=tmp_path / "score",
    )
    with pytest.warns(UserWarning, match=r"30\d of 301 samples are outside .*u in 300"):
        assert run_score(far)["samples_outside_training_range"] >= 300


def test_every_second_sample_makes_the_steps_equal(folder, summary, tmp_path):
    slow = ScoreFilesConfig(
        model=folder / "run" / "model.safetensors",
        source=Source((str(folder / "fast.csv"),), COLUMNS),
        changes=Changes(every=2),
        out=tmp_path / "score",
    )
    assert run_score(slow)["free_run"]["records"] == 1


def test_options_say_what_is_remembered():
    assert MemoryOptions().memory == NoMemory()
    assert MemoryOptions(lags=4).memory == Lags(4)
    assert MemoryOptions(hidden=3).memory == HiddenState(3, 10)
    assert MemoryOptions(lags=6, hidden=3).memory == HiddenState(3, 6)
    assert MemoryOptions(lags="auto").memory == ChosenMemory()
    with pytest.raises(InputError, match="leave --hidden out"):
        _ = MemoryOptions(lags="auto", hidden=3).memory


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"memory": MemoryOptions(lags=90)}, "starts from 90 samples"),
        ({"memory": MemoryOptions(lags="auto")}, "belongs to the automatic recipe"),
        ({"memory": MemoryOptions(hidden=0)}, "1 or more"),
    ],
)
def test_what_cannot_be_leaves_nothing_behind(folder, changes, words, tmp_path):
    with pytest.raises(InputError, match=words):
        run_fit(config(folder, out=tmp_path / "run", **changes))
    assert not Path(tmp_path / "run").exists()


def test_the_autocorrelation_of_a_cosine_is_a_cosine():
    values = np.cos(2 * np.pi * np.arange(4000) / 20)
    found = autocorrelation(values, most=20)
    np.testing.assert_allclose(found, np.cos(2 * np.pi * np.arange(1, 21) / 20), atol=0.01)
    assert autocorrelation(np.ones(9)).size == 0
