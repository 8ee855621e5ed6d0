import json
import subprocess
import sys

import pytest

from multistep.bench.judge import JUDGES, linear_episodes, pair_rows
from multistep.runs.row_log import RowLog
from multistep.training import LeastSquares


def test_a_judge_is_right_where_it_orders_a_pair_as_the_truth_does():
    better = {"truth": 0.9, "raw": 0.5, "filtered": 0.8, "shared_noise": 0.8, "likelihood": 2.0}
    worse = {"truth": 0.7, "raw": 0.6, "filtered": 0.7, "shared_noise": 0.9, "likelihood": 1.0}
    row = {"dataset": "d", "noise": 0.1, "on_half": False, "fold": 0, "models": {"a": better, "b": worse}}
    (pair,) = pair_rows(row)
    assert pair["difference"] == pytest.approx(0.2)
    assert {judge: pair[judge] for judge in JUDGES} == {
        "raw": False,
        "filtered": True,
        "shared_noise": False,
        "likelihood": True,
        "better": False,
    }
    row["models"] = {"b": worse, "a": better, "c": better}
    assert len(pair_rows(row)) == 3
    assert not pair_rows(row)[0]["raw"]


def test_the_linear_plant_is_linear():
    import jax

    import multistep as ms

    episodes = linear_episodes(4, 50, seed=0)
    fit = LeastSquares().fit(episodes, episodes, key=jax.random.key(0), score=ms.R2Bar(20))
    assert fit.best_epoch.score > 1 - 1e-6
    assert len(set(episodes.actions[:10, 0].tolist())) == 1


@pytest.mark.slow
def test_the_bench_judges_and_resumes(tmp_path):
    words = ["judge", "--dataset", "linear", "--noise", "0.05", "--splits", "1", "--model-steps", "20000"]
    command = [sys.executable, "-m", "multistep", "bench", *words, "--workers", "1", "--out", "b"]
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
    rows = RowLog(tmp_path / "b" / "fits.jsonl").read()
    assert sorted(row["on_half"] for row in rows) == [False, True]
    summary = json.loads((tmp_path / "b" / "summary.json").read_text())
    assert summary["pairs"] == 2 * 15
    assert summary["right"]["filtered"] > 0.8
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
    assert RowLog(tmp_path / "b" / "fits.jsonl").read() == rows


@pytest.mark.slow
def test_the_bench_of_quality_reports_the_budget_that_reaches_the_target(tmp_path):
    words = ["quality", "--dataset", "cartpole/mixed_replay", "--budgets", "20k", "--splits", "1"]
    words += ["--steps", "100", "--score-horizon", "20", "--target", "-100", "--epochs", "1"]
    words += ["--least-steps", "1", "--workers", "1", "--out", "q"]
    subprocess.run([sys.executable, "-m", "multistep", "bench", *words], cwd=tmp_path, check=True)
    rows = {row["method"]: row for row in RowLog(tmp_path / "q" / "fits.jsonl").read()}
    assert set(rows) == {"once", "automatic 20k"}
    summary = json.loads((tmp_path / "q" / "summary.json").read_text())
    assert summary["model_steps_to_target"] == 20_000
    assert summary["automatic 20k"] == rows["automatic 20k"]["r2bar"]
    assert summary["share_of_once"] == 20_000 / rows["once"]["most_model_steps"]
