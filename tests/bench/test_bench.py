"""The benchmarks in small: that they run and leave what they promise. Their figures are for the full runs."""

import json
import subprocess
import sys

import numpy as np
import pytest

from multistep.bench import agents
from multistep.bench.agents import AgentsBenchConfig
from multistep.bench.training import TRUSTED_CPU_SHARE, _speed_summary
from multistep.runs.row_log import RowLog

pytestmark = pytest.mark.slow


def run(*words, folder):
    subprocess.run(
        [sys.executable, "-m", "multistep", "bench", *words],
        cwd=folder,
        check=True,
        capture_output=True,
        timeout=600,
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
    row.write_text(json.dumps(kept | {"row": kept["row"] | {"r2bar_100": 0.25}}))
    run(*words, folder=tmp_path)
    assert json.loads((tmp_path / "b" / "summary.json").read_text())["paper_h1_noise_2"]["r2bar_100"] == 0.25
    assert kept["row"]["ceiling_r2bar_100"] > 0.9
    with pytest.raises(subprocess.CalledProcessError) as refused:
        run(*words, "--data-seed", "0", folder=tmp_path)
    assert b"holds a fit with other settings or episodes" in refused.value.stderr
    assert refused.value.returncode == 2


def test_files_bench_measures_both_sides(tmp_path):
    run(
        "files",
        "--speed-megabytes",
        "5",
        "--memory-megabytes",
        "20",
        "--rounds",
        "1",
        "--episodes",
        "1",
        "1",
        "--out",
        "f",
        folder=tmp_path,
    )
    summary = json.loads((tmp_path / "f" / "summary.json").read_text())
    np.testing.assert_allclose(
        summary["npz_speed_of_plain"], summary["npz_plain_seconds"] / summary["npz_seconds"]
    )
    assert all(summary[f"{ending}_memory_of_size"] > 0.5 for ending in ("npz", "hdf5", "parquet"))
    assert summary["halfcheetah_1_episodes_seconds"] > 0
    assert {entry.name for entry in (tmp_path / "f").iterdir()} == {"config.json", "rows.csv", "summary.json"}


def test_sigmoid_bench_compares_like_with_like(tmp_path):
    run(
        "sigmoid",
        "--scale",
        "smoke",
        "--torch-trainings",
        "3",
        "--rounds",
        "1",
        "--out",
        "s",
        folder=tmp_path,
    )
    summary = json.loads((tmp_path / "s" / "summary.json").read_text())
    each = summary["program_seconds"] / summary["trainings"]
    np.testing.assert_allclose(summary["faster_than_torch"], summary["torch_seconds_each"] / each)
    assert summary["largest_difference"] < 1e-4


def test_disturbed_measurements_do_not_count():
    items = (
        "default",
        "paper",
        "torch_eager",
        "torch_eager_paper",
        "default_h1",
        "torch_eager_h1",
        "scoring",
    )
    rows = [
        {
            "item": item,
            "gflops": rate * 0.5,
            "gemm_gflops": rate,
            "of_gemm": 0.25 if "torch" in item else 0.5,
            "cpu_share": share,
        }
        for rate, share in [(100, 1.0), (10, TRUSTED_CPU_SHARE - 0.01), (80, 1.0)]
        for item in items
    ]
    summary = _speed_summary(rows)
    assert summary["measurements"] == {"all": 21, "undisturbed": 14}
    assert summary["gemm_gflops"] == 90
    assert summary["default"] == {"gflops": 45, "of_gemm": 0.5}
    assert summary["faster_than_torch_eager"]["paper"] == 2
    for disturbed in (
        rows[7:14],
        [row | {"cpu_share": 0.5 if row["item"] == "paper" else 1.0} for row in rows[:7]],
    ):
        summary = _speed_summary(disturbed)
        assert summary["paper"]["of_gemm"] == 0.5
        assert summary["measurements"]["undisturbed"] < 7


def test_export_bench_measures_every_language(tmp_path):
    run("export", "--hidden-sizes", "8", "--rounds", "1", "--seconds", "0.01", "--out", "b", folder=tmp_path)
    found = json.loads((tmp_path / "b" / "summary.json").read_text())["hidden_8_microseconds"]
    assert 0 < found["c"] < found["numpy"]
    assert {"c_o3_native", "casadi", "casadi_expanded", "onnxruntime", "jax_step", "jax_rollout"} < set(found)


def test_agents_bench_leaves_its_four_ratios(tmp_path):
    words = ("--rounds", "1", "--sac-calls", "1", "--decisions", "1", "--env-steps", "2", "--out", "b")
    run("agents", *words, folder=tmp_path)
    summary = json.loads((tmp_path / "b" / "summary.json").read_text())
    for name in ("sac_of_floor", "sac_over_sb3", "mpc_over_gemm_time", "model_env_of_gemm"):
        assert 0 < summary[name] < 100


def test_the_ratios_of_the_agents_bench():
    """Medians of the undisturbed rows: rates are inverse times, how much slower is times as they are."""
    ratios = {
        "sac_of_floor": (1.25, 0.8),
        "sac_over_sb3": (2.0, 2.0),
        "mpc_over_gemm_time": (1.5, 1.5),
        "model_env_of_gemm": (4.0, 0.25),
    }
    rows = [
        {"comparison": name, "time_ratio": time_ratio * factor, "seconds": 3.0, "cpu_share": share}
        for name, (time_ratio, _) in ratios.items()
        for factor, share in ((0.5, 1.0), (1.0, 1.0), (2.0, 1.0), (9.0, 0.5), (9.0, 0.5))
    ]
    summary = agents._summary(rows, AgentsBenchConfig(sac_calls=6, decisions=30))
    for name, (_, expected) in ratios.items():
        assert summary[name] == pytest.approx(expected)
    assert summary["sac_of_floor_range"] == pytest.approx([0.4, 1.6])
    assert summary["sac_updates_per_second"] == pytest.approx(200)
    assert summary["decision_milliseconds"] == pytest.approx(100)
    assert summary["undisturbed"] == pytest.approx(0.6)


def test_the_yardstick_does_as_many_operations_as_it_says():
    work, operations = agents._gemm(500, 1e9)
    assert operations == pytest.approx(0.5e9, rel=0.2)
    work()


def test_smoothing_bench_scores_both_models_and_resumes(tmp_path):
    words = [
        "smoothing",
        "--dataset",
        "cartpole/mixed_replay",
        "--noise",
        "0.02",
        "--epochs",
        "1",
        "--least-steps",
        "1",
    ]
    words += ["--horizon", "6", "--workers", "1", "--out", "b"]
    run(*words, folder=tmp_path)
    (row,) = RowLog(tmp_path / "b" / "fits.jsonl").read()
    summary = json.loads((tmp_path / "b" / "summary.json").read_text())
    found = summary["cartpole/mixed_replay 0.02"]
    assert 0.8 < found["noise_found_low"] <= found["noise_found_high"] < 1.5
    assert found["noise_left"] < 0.8
    assert found["smoothed_r2bar_noiseless"] > found["smoothed_r2bar_noisy"] > 0.5
    run(*words, folder=tmp_path)
    assert RowLog(tmp_path / "b" / "fits.jsonl").read() == [row]


def test_particles_bench_compares_with_products_and_single_fits(tmp_path):
    run("particles", "--rounds", "1", "--fits", "1", "--fit-steps", "3000", "--out", "b", folder=tmp_path)
    summary = json.loads((tmp_path / "b" / "summary.json").read_text())
    assert summary["particles_over_products"] > 0
    assert summary["five_members_over_one_fit"] > 0
