"""The dynamic study in small, and its table by hand."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import jax
import numpy as np
import polars as pl
import pytest

from multistep.errors import InputError
from multistep.losses import Exponential
from multistep.report.dynamic_figures import draw_dynamic, dynamic_sentence, dynamic_table
from multistep.runs.row_log import RowLog
from multistep.studies.dynamic import ROWS, DynamicConfig, run_dynamic
from multistep.studies.dynamic_tables import best_by_return, group_row, verdicts
from multistep.training import Once, Smoothed

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")
MODEL = Once(horizon=10, weights=Exponential(0.3))


def agent(*returns):
    return {"returns": list(returns), "r2bar": 0.9}


def test_a_bar_is_the_mean_of_all_episodes():
    row = group_row(0.01, "uniform", MODEL, [agent(100.0, 200.0), agent(300.0, 400.0)])
    assert (row["return_mean"], row["episodes"], row["agents"]) == (250.0, 4, 2)
    half = 12.7062 * np.std([150, 350], ddof=1) / np.sqrt(2)  # over the two agents
    assert row["return_low"] == pytest.approx(250 - half)
    assert row["return_high"] == pytest.approx(250 + half)
    assert row["weights"] == "exponential:0.3"


def test_the_interval_of_one_agent_is_over_its_episodes():
    row = group_row(0.01, "uniform", MODEL, [agent(100.0, 200.0, 300.0) | {"r2bar": "-inf"}])
    half = 4.30265 * np.std([100, 200, 300], ddof=1) / np.sqrt(3)
    assert row["return_high"] == pytest.approx(200 + half)
    assert row["r2bar_50"] == -np.inf


def test_the_best_is_chosen_and_reported_on_different_episodes():
    lucky, good = MODEL, Once(horizon=10, weights=Exponential(2.0))
    row = best_by_return(0.0, "beta by return", {lucky: [agent(900.0, 10.0)], good: [agent(500.0, 600.0)]})
    assert (row["weights"], row["return_mean"], row["episodes"]) == ("exponential:0.3", 10.0, 1)
    failed = best_by_return(
        0.0, "beta by return", {lucky: [{"outcome": "failed"}], good: [agent(500.0, 600.0)]}
    )
    assert failed["return_mean"] == 600.0
    lost = best_by_return(
        0.0,
        "beta by return",
        {
            lucky: [agent(900.0, 900.0), {"outcome": "diverged"}],
            good: [agent(500.0, 600.0), agent(500.0, 600.0)],
        },
    )
    assert (lost["return_mean"], lost["lost"]) == (600.0, 0)


def test_a_lost_agent_is_told():
    row = group_row(
        0.01, "uniform", MODEL, [agent(800.0, 810.0), agent(790.0, 800.0), {"outcome": "diverged"}]
    )
    assert (row["agents"], row["lost"], row["return_mean"]) == (2, 1, 800.0)


def test_a_model_that_was_not_fitted_again_has_the_horizon_of_the_first_fit():
    both = Smoothed(Once(horizon=40), Once(horizon=20))
    horizons = [
        group_row(0.0, "default", both, [agent(1.0) | {"fitted_again": again}])["horizon"]
        for again in (False, True)
    ]
    assert horizons == [40, 20]


def test_the_sentence_names_filtered_observations_only_where_there_are_some():
    sizes = {"sac_steps": 1, "epochs_of_paper_models": 2, "agents_per_model": 3}
    rows = [
        group_row(0.0, name, MODEL, [agent(800.0)])
        for name in ("one-step", "default, fitted once", "default")
    ]
    found = verdicts(rows)
    assert found["default"] == {"0": 800.0}
    assert "in the default model: 800 at 0 % noise; without the second fit" in dynamic_sentence(found | sizes)
    noisy = verdicts(
        [*rows, group_row(0.01, "default, filtered", MODEL, [agent() | {"returns_filtered": [700.0]}])]
    )
    assert "800 at 0 % noise; with filtered observations: 700 at 1 % noise; without" in dynamic_sentence(
        noisy | sizes
    )


@pytest.mark.slow
def test_the_command_of_the_page_runs_and_resumes(tmp_path):
    """The smallest scale, on the dataset that comes with the package."""
    (block,) = re.findall(
        r"```sh\n(.*?)```", (Path(__file__).parents[2] / "docs" / "dynamic.md").read_text(), flags=re.DOTALL
    )
    words = shlex.split(block)
    assert words[:5] == ["multistep", "reproduce", "dynamic", "--scale", "smoke"]
    answer = subprocess.run(
        [sys.executable, "-m", *words], cwd=tmp_path, check=True, capture_output=True, text=True
    )
    assert "in the default model" in answer.stdout
    out = tmp_path / words[-1]
    rows = RowLog(out / ROWS).read()
    with jax.enable_x64(False), jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
        summary = run_dynamic(DynamicConfig(noise=(0.01,), out=out))
    assert len(RowLog(out / ROWS).read()) == len(rows)
    kinds = [row["kind"] for row in rows]
    assert kinds.count("fit") == 2  # horizon 2 with two betas
    assert (
        kinds.count("agent") == 5
    )  # both of ours, one-step, horizon 2 with both betas: one R2's choice, one uniform
    assert sorted(len(row["returns"]) for row in rows if row["kind"] == "agent") == [2, 2, 3, 3, 3]
    bars = pl.read_csv(out / "rows.csv")
    assert bars["variant"].to_list() == [
        "one-step",
        "beta by R2",
        "uniform",
        "beta by return",
        "default, fitted once",
        "default",
        "default, filtered",
    ]
    fits = {row["weights"]: row["r2bar"] for row in rows if row["kind"] == "fit"}
    assert bars["weights"][1] == max(fits, key=fits.get)
    assert bars["weights"][2] == "exponential:1"
    ours = next(row for row in rows if row["kind"] == "agent" and row["horizon"] == 5)
    assert summary["default_fitted_once"]["0.01"] == pytest.approx(np.mean(ours["returns"]))
    smoothed = next(row for row in rows if row["kind"] == "agent" and row["horizon"] == 3)
    assert summary["default"]["0.01"] == pytest.approx(np.mean(smoothed["returns"]))
    assert summary["default_filtered"]["0.01"] == pytest.approx(np.mean(smoothed["returns_filtered"]))
    assert smoothed["returns_filtered"] != smoothed["returns"]
    assert dynamic_table(out).row_count == 7
    assert draw_dynamic(out).exists()
    with pytest.raises(InputError, match="must be different numbers"):
        run_dynamic(DynamicConfig(noise=(0.01, 0.01)))
    with pytest.raises(InputError, match="another scale or seed or noise"):
        run_dynamic(DynamicConfig(scale="quick", out=out))
