"""The benchmarks in small: that they run and leave what they promise. Their figures are for the full runs."""

import json
import subprocess
import sys

import pytest

from multistep.bench.training import TRUSTED_CPU_SHARE, _speed_summary


def run(*words, folder):
    subprocess.run(
        [sys.executable, "-m", "multistep", "bench", *words], cwd=folder, check=True, capture_output=True, timeout=600
    )


def test_training_bench_leaves_every_figure(tmp_path):
    run(
        "training",
        "--rounds",
        "1",
        "--batches",
        "2",
        "--score-episodes",
        "1",
        "--transitions",
        "2000",
        "--out",
        "b",
        folder=tmp_path,
    )
    summary = json.loads((tmp_path / "b" / "summary.json").read_text())
    for name in ("default", "paper", "torch_eager", "scoring"):
        assert summary[name]["gflops"] > 0
    assert summary["gemm_gflops"] > 0
    assert summary["memory"]["h50_mb"] > 50
    assert "two_workers_ratio" in summary


def test_cartpole_bench_resumes(tmp_path):
    words = ("cartpole", "--entries", "paper_h1_noise_2", "--seeds", "0", "--epochs", "1", "--out", "b")
    run(*words, folder=tmp_path)
    row = tmp_path / "b" / "fits" / "paper_h1_noise_2_seed_0" / "row.json"
    kept = json.loads(row.read_text())
    row.write_text(json.dumps(kept | {"r2bar_100": 0.25}))
    run(*words, folder=tmp_path)
    assert json.loads((tmp_path / "b" / "summary.json").read_text())["paper_h1_noise_2"]["r2bar_100"] == 0.25
    assert kept["ceiling_r2bar_100"] > 0.9


def test_disturbed_rounds_do_not_count():
    items = ("gemm", "default", "paper", "torch_eager", "torch_eager_paper", "default_h1", "torch_eager_h1", "scoring")
    rows = [
        {"round": number, "item": item, "gflops": rate * (1 if item == "gemm" else 0.5), "cpu_share": share}
        for number, (rate, share) in enumerate([(100, 1.0), (10, TRUSTED_CPU_SHARE - 0.01), (80, 1.0)])
        for item in items
    ]
    summary = _speed_summary(rows)
    assert summary["rounds"] == {"all": 3, "undisturbed": 2}
    assert summary["gemm_gflops"] == 90
    assert summary["default"]["of_gemm"] == pytest.approx(0.5)
