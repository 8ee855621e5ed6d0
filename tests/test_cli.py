"""Every command, run as a user runs it, in a small form whose numbers can be checked."""

import csv
import json
import subprocess
import sys
import time
from pathlib import Path

import jax
import numpy as np
import pytest

import multistep as ms
from multistep.studies.demo import DemoConfig
from systems import oscillator_episodes

SMALL = ["--network.hidden-size", "16", "--epochs", "2", "--least-steps", "300", "--horizon", "5", "--batch-size", "32"]


def run(*words, folder, code=0):
    """The command's outputs, after checking its exit code and that bad input shows no traceback."""
    command = [sys.executable, "-m", "multistep", *map(str, words)]
    answer = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300)
    assert answer.returncode == code, answer.stderr
    assert "Traceback" not in answer.stderr
    return answer


@pytest.fixture(scope="module")
def logs(tmp_path_factory):
    """Ten logs of a plant, one file each, and the folder they are in."""
    folder = tmp_path_factory.mktemp("logs")
    episodes = oscillator_episodes(10, 60, noise=0.01)
    for number in range(10):
        ms.save(episodes.take([number]), folder / f"log_{number}.csv")
    ms.save(oscillator_episodes(3, 60, noise=0.01, seed=5), folder / "test.npz")
    return folder


COLUMNS = ["--states", "position", "velocity", "--actions", "force"]


@pytest.fixture(scope="module")
def fitted(logs):
    answer = run("fit", "log_*.csv", *COLUMNS, *SMALL, "--score-horizon", 20, "--out", "fit", folder=logs)
    return logs / "fit", answer


def read_rows(path):
    with open(path) as file:
        return list(csv.DictReader(file))


def test_fit_leaves_a_model_rows_and_a_picture(fitted, logs):
    out, answer = fitted
    assert answer.stdout.startswith("The model explains ")
    summary = json.loads((out / "summary.json").read_text())
    config = json.loads((out / "config.json").read_text())
    rows = read_rows(out / "rows.csv")
    assert config["config"]["training"]["weights"] == "balanced"
    assert config["config"]["training"]["horizon"] == 5
    assert config["versions"]["jax"] == jax.__version__
    assert [int(row["horizon"]) for row in rows] == list(range(1, 21))
    np.testing.assert_allclose(np.mean([float(row["r2"]) for row in rows]), summary["model"]["r2bar_20"])
    assert summary["model"]["r2bar_20"] > 0.8
    assert summary["episodes"] == {"train": 7, "valid": 1, "test": 2}
    assert (out / "r2.png").read_bytes().startswith(b"\x89PNG")
    history = read_rows(out / "history.csv")
    assert {row["horizon"] for row in history} == set("12345")


def test_the_same_command_again_takes_the_finished_fit(fitted, logs):
    out, first = fitted
    model = (out / "model.safetensors").read_bytes()
    again = run("fit", "log_*.csv", *COLUMNS, *SMALL, "--score-horizon", 20, "--out", "fit", folder=logs)
    assert again.stdout == first.stdout
    assert (out / "model.safetensors").read_bytes() == model


def test_score_agrees_with_the_library(fitted, logs):
    out, _ = fitted
    answer = run("score", out / "model.safetensors", "test.npz", "--score-horizon", 15, "--out", "scored", folder=logs)
    assert "over the next 15 steps" in answer.stdout
    summary = json.loads((logs / "scored" / "summary.json").read_text())
    with jax.numpy_dtype_promotion("standard"):  # a model in single precision on data in double
        expected = ms.score(ms.load_model(out / "model.safetensors"), ms.load(logs / "test.npz"), horizon=15)
    np.testing.assert_allclose(summary["model"]["r2bar_15"], expected.r2bar(), rtol=1e-4)


def test_fit_and_score_one_long_recording_with_the_paper_preset(logs):
    ms.save(oscillator_episodes(1, 500, noise=0.01), logs / "long.npz")
    words = [
        "--network.hidden-size",
        16,
        "--epochs",
        10,
        "--cut",
        50,
        "--preset",
        "paper",
        "--weights",
        "exponential:0.5",
        "--out",
        "long",
    ]
    run("fit", "long.npz", *words, folder=logs)
    config = json.loads((logs / "long" / "config.json").read_text())["config"]
    assert config["training"]["network"]["batch_norm"] is True
    assert config["training"]["weights"] == "exponential:0.5"
    assert json.loads((logs / "long" / "summary.json").read_text())["episodes"] == {"train": 7, "valid": 1, "test": 2}


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["fit"], "No files were given"),
        (["fit", "absent.csv", *COLUMNS], "There is no file absent.csv"),
        (["fit", "log_*.csv"], "Say which columns of log_0.csv are the states"),
        (
            ["fit", "log_*.csv", "--states", "speed", "--actions", "force"],
            "no column speed; it has episode, position, velocity, force",
        ),
        (["fit", "log_*.csv", *COLUMNS, "--weights", "0.5,0.6", "--horizon", "2"], "must sum to 1"),
        (["fit", "log_*.csv", *COLUMNS, "--weights", "0.5,0.5", "--horizon", "3"], "2 weights for a horizon of 3"),
        (["fit", "log_*.csv", *COLUMNS, "--weights", "linear"], "write balanced"),
        (["fit", "log_*.csv", *COLUMNS, "--horizon", "500"], "shorter than the horizon of 500 steps"),
        (["fit", "log_*.csv", *COLUMNS, "--horizon", "0"], "must be 1 or more"),
        (["fit", "log_0.csv", *COLUMNS], "cannot be split into 3 parts"),
        (["score", "absent.safetensors", "test.npz"], "There is no model file"),
        (["score", "test.npz", "test.npz"], "damaged or not a .safetensors file"),
        (["score", "fit/model.safetensors", "test.npz", "--states", "position"], "model has 2 state dimensions"),
        (["demo", "--episodes", "0"], "collect at least 1"),
        (["fit", "log_*.csv", *COLUMNS, "--preset", "nope"], "invalid choice 'nope'"),
        (["demo", "--noise", "-1"], "0 or more"),
    ],
)
def test_bad_input_gets_one_sentence_and_nothing_is_written(fitted, logs, words, expected):
    answer = run(*words, "--out", "nothing", folder=logs, code=2)
    text = " ".join(answer.stderr.replace("│", " ").split())
    assert expected in text
    assert not (logs / "nothing").exists()


def test_another_fit_does_not_overwrite_a_checkpoint(fitted, logs):
    answer = run("fit", "log_*.csv", *COLUMNS, *SMALL, "--seed", 1, "--out", "fit", folder=logs, code=2)
    assert "belongs to a fit with other data, settings or seed" in answer.stderr


def test_notes_say_what_is_odd_in_the_data(logs):
    path = logs / "still.csv"
    path.write_text("x,mode,u\n" + "".join(f"{np.sin(t)},1,{np.cos(t)}\n" for t in range(100)))
    words = ["--states", "x", "mode", "--actions", "u", *SMALL, "--cut", 10, "--least-steps", 1, "--out", "still"]
    answer = run("fit", "still.csv", *words, folder=logs)
    assert "note: The training episodes never change in mode" in answer.stderr


def test_interrupted_it_says_how_to_go_on_and_leaves_nothing_half_written(logs):
    words = ["fit", "log_*.csv", *COLUMNS, *SMALL[:2], "--epochs", "2000", "--horizon", "5", "--out", "stopped"]
    process = subprocess.Popen([sys.executable, "-m", "multistep", *words], cwd=logs, stderr=subprocess.PIPE, text=True)
    while process.poll() is None and not (logs / "stopped" / "checkpoint.safetensors").exists():
        time.sleep(0.05)
    process.send_signal(2)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "the same command goes on" in errors
    assert [path.name for path in (logs / "stopped").iterdir()] == ["checkpoint.safetensors"]


def test_demo_in_small(tmp_path):
    size = "--episodes 8 --steps 150 --score-horizon 30"
    fits = " ".join(
        f"--{name}.network.hidden-size 16 --{name}.epochs 1 --{name}.least-steps 1" for name in ("one-step", "multi-step")
    )
    answer = run("demo", *size.split(), *fits.split(), "--multi-step.horizon", 5, folder=tmp_path)
    assert answer.stdout.startswith("With 2% noise, the model trained through its own rollout explains")
    out = tmp_path / "runs" / "demo"
    summary = json.loads((out / "summary.json").read_text())
    rows = read_rows(out / "rows.csv")
    for name in ("one_step", "multi_step", "ceiling"):
        mine = [float(row["r2"]) for row in rows if row["model"] == name]
        np.testing.assert_allclose(np.mean(mine), summary[name]["r2bar_30"])
    assert summary["ceiling"]["r2bar_30"] > max(summary["one_step"]["r2bar_30"], summary["multi_step"]["r2bar_30"])
    assert summary["seconds"] > 0
    assert ms.load_model(out / "multi_step" / "model.safetensors").state_names[0] == "x"


def test_demo_as_shipped_scores_to_horizon_100_on_50_episodes():
    config = DemoConfig()
    assert (config.episodes, config.noise, config.score_horizon) == (50, 0.02, 100)
    assert config.one_step.horizon == 1
    assert config.out == Path("runs/demo")
