"""Every command, run as a user runs it, in a small form whose numbers can be checked."""

import csv
import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import jax
import numpy as np
import pytest
import safetensors.numpy

import multistep as ms
from multistep.commands.demo import DemoConfig
from systems import oscillator_episodes

SMALL = [
    "--network.hidden-size",
    "16",
    "--epochs",
    "2",
    "--least-steps",
    "300",
    "--horizon",
    "5",
    "--batch-size",
    "32",
]


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
    own = {name: [row for row in rows if row["model"] == name] for name in ("model", "persistence", "linear")}
    assert sum(map(len, own.values())) == len(rows)
    for name, curve in own.items():
        assert [int(row["horizon"]) for row in curve] == list(range(1, 21))
        np.testing.assert_allclose(np.mean([float(row["r2"]) for row in curve]), summary[name]["r2bar_20"])
    assert summary["model"]["r2bar_20"] > 0.8
    assert summary["episodes"] == {"train": 7, "valid": 1, "test": 2}
    assert (out / "r2.png").read_bytes().startswith(b"\x89PNG")
    history = read_rows(out / "history.csv")
    assert {row["horizon"] for row in history if row["part"] == "measured"} == set("12345")
    assert summary["parts"]["measured"]["horizon"] == 5


@pytest.mark.slow
def test_a_noisy_log_is_fitted_again_unless_told_otherwise(logs):
    noisy = oscillator_episodes(10, 60, noise=0.3)
    noisy = replace(
        noisy, states=np.insert(noisy.states, 2, 7.0, axis=1), state_names=(*noisy.state_names, "still")
    )
    ms.save(noisy, logs / "noisy.npz")
    words = ["noisy.npz", *SMALL, "--score-horizon", 20]
    answer = run("fit", *words, "--out", "twice", folder=logs)
    summary = json.loads((logs / "twice" / "summary.json").read_text())
    assert summary["chosen"] in ("measured", "smoothed")  # by the judge: see tests/training/test_judge.py
    assert [part["horizon"] for part in summary["parts"].values()] == [5, 5]
    assert "he judge gives the" in answer.stdout
    assert answer.stderr.count("note: The training episodes never change in still") == 1  # in two fits
    assert set(summary["measurement_noise"]) == {"position", "velocity"}
    history = read_rows(logs / "twice" / "history.csv")
    assert [row["part"] for row in history] == sorted(row["part"] for row in history)
    assert {row["part"] for row in history} == {"measured", "smoothed"}
    once = run("fit", *words, "--recipe", "once", "--out", "once", folder=logs)
    assert "noise" not in once.stdout
    refused = run("fit", *words, "--recipe", "once", "--out", "twice", folder=logs, code=2)
    assert "this one with another recipe" in refused.stderr
    files = ("twice/checkpoint.safetensors", "once/checkpoint.safetensors")
    with jax.numpy_dtype_promotion("standard"):
        first, only = (safetensors.numpy.load_file(logs / name) for name in files)
    assert all(
        np.array_equal(first[name], only[name]) for name in only
    )  # the first fit is the only one of the other


def test_the_same_command_again_takes_the_finished_fit(fitted, logs):
    out, first = fitted
    model = (out / "model.safetensors").read_bytes()
    again = run("fit", "log_*.csv", *COLUMNS, *SMALL, "--score-horizon", 20, "--out", "fit", folder=logs)
    assert again.stdout == first.stdout
    assert (out / "model.safetensors").read_bytes() == model


def test_score_from_filtered_starts(fitted, logs):
    out, _ = fitted
    words = [out / "model.safetensors", "test.npz", "--score-horizon", 15, "--filtered", "--out", "filtered"]
    answer = run("score", *words, folder=logs)
    assert "filtered start" in answer.stdout
    summary = json.loads((logs / "filtered" / "summary.json").read_text())
    assert summary["filtered"]["r2bar_15"] > summary["persistence"]["r2bar_15"]
    assert {row["model"] for row in read_rows(logs / "filtered" / "rows.csv")} == {
        "model",
        "filtered",
        "persistence",
        "linear",
    }


def test_score_agrees_with_the_library(fitted, logs):
    out, _ = fitted
    answer = run(
        "score", out / "model.safetensors", "test.npz", "--score-horizon", 15, "--out", "scored", folder=logs
    )
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
    summary = json.loads((logs / "long" / "summary.json").read_text())
    assert summary["parts"] == {}  # the paper fits once
    assert summary["episodes"] == {"train": 7, "valid": 1, "test": 2}


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
        (
            ["fit", "log_*.csv", *COLUMNS, "--weights", "0.5,0.5", "--horizon", "3"],
            "2 weights for a horizon of 3",
        ),
        (["fit", "log_*.csv", *COLUMNS, "--weights", "linear"], "write balanced"),
        (["fit", "log_*.csv", *COLUMNS, "--horizon", "500"], "shorter than the horizon of 500 steps"),
        (["fit", "log_*.csv", *COLUMNS, "--horizon", "0"], "must be 1 or more"),
        (["fit", "log_0.csv", *COLUMNS], "cannot be split into 3 parts"),
        (["score", "absent.safetensors", "test.npz"], "There is no model file"),
        (["score", "test.npz", "test.npz"], "damaged or not a .safetensors file"),
        (
            ["score", "fit/model.safetensors", "test.npz", "--states", "position"],
            "model has 2 state dimensions",
        ),
        (["demo", "--episodes", "0"], "collect at least 1"),
        (["fit", "log_*.csv", *COLUMNS, "--preset", "nope"], "invalid choice 'nope'"),
        (["demo", "--noise", "-1"], "0 or more"),
        (
            ["fit", "log_*.csv", *COLUMNS, "--noise", "0.1", "0.2", "0.3"],
            "3 noise scales for 2 state dimensions",
        ),
        (["reproduce", "linear", "--num-states", "0"], "at least one initial state"),
        (["reproduce", "sigmoid", "--num-samples", "7"], "at least 10 samples"),
        (["inspect", "nothing_*.csv", *COLUMNS], "No file matches the pattern nothing_*.csv"),
        (["inspect", "lab/absent-v0"], "There is no Minari dataset lab/absent-v0"),
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


@pytest.mark.slow
def test_notes_say_what_is_odd_in_the_data(logs):
    path = logs / "still.csv"
    path.write_text("x,mode,u\n" + "".join(f"{np.sin(t)},1,{np.cos(t)}\n" for t in range(100)))
    words = [
        "--states",
        "x",
        "mode",
        "--actions",
        "u",
        *SMALL,
        "--cut",
        10,
        "--least-steps",
        1,
        "--out",
        "still",
    ]
    answer = run("fit", "still.csv", *words, folder=logs)
    assert "note: The training episodes never change in mode" in answer.stderr


def test_inspect_says_what_is_in_the_files(logs):
    answer = run("inspect", "log_*.csv", *COLUMNS, "--out", "seen", folder=logs)
    assert answer.stdout.startswith(
        "10 episodes of 60 steps in 10 files, 600 steps in all; no value is missing."
    )
    rows = {row["name"]: row for row in read_rows(logs / "seen" / "rows.csv")}
    states = np.concatenate([oscillator_episodes(10, 60, noise=0.01).states])
    np.testing.assert_allclose(float(rows["position"]["highest"]), states[:, 0].max())
    np.testing.assert_allclose([float(rows[n]["noise"]) for n in ("position", "velocity")], 0.01, rtol=0.2)
    assert (rows["force"]["kind"], rows["force"]["noise"]) == ("action", "")
    assert len(read_rows(logs / "seen" / "episodes.csv")) == 10
    assert (logs / "seen" / "overview.png").read_bytes().startswith(b"\x89PNG")


def test_inspect_shows_what_a_fit_would_refuse(logs):
    """Missing values, a constant, the same column twice, a gap in time, an episode per id."""
    rows = "".join(
        f"{t // 20},{t + 5 * (t > 30)},{'' if t == 7 else t},{2 * t},{2 * t},1\n" for t in range(40)
    )
    (logs / "odd.csv").write_text("id,t,x,y,u,mode\n" + rows)
    words = ["--states", "x", "y", "mode", "--actions", "u", "--episode", "id", "--time", "t"]
    answer = run("inspect", "odd.csv", *words, "--out", "odd", folder=logs)
    assert "3 episodes of 8 to 19 steps" in answer.stdout
    assert "time step 1 s, 1 gap; 1 value is missing" in answer.stdout
    assert "1 gap in time, the first before row 32 (6 instead of 1)" in answer.stderr
    found = {row["name"]: row for row in read_rows(logs / "odd" / "rows.csv")}
    assert (found["x"]["missing"], found["mode"]["constant"]) == ("1", "true")
    assert (found["y"]["same_as"], found["u"]["same_as"]) == ("u", "y")
    refused = run("fit", "odd.csv", *words, folder=logs, code=2)
    assert "odd.csv, row 8 (episode 0): the state x is empty" in refused.stderr


def test_inspect_takes_any_names_and_numbers(logs):
    """Names that are numbers, units in brackets, formulas, the names of our own columns; a return that is not
    known."""
    names = ["0", "pos [m]", "a$b_$", "step", "wide"]
    rows = "".join(f"{t},{t % 3},{t % 5},1,{1e200 * t},{'' if t == 3 else 1}\n" for t in range(30))
    (logs / "names.csv").write_text(",".join([*names, "r"]) + "\n" + rows)
    words = ["--states", *names[:-1], "--actions", "wide", "--rewards", "r", "--out", "names[bold]"]
    answer = run("inspect", "names.csv", *words, folder=logs)
    assert "pos [m]" in answer.stdout
    assert "drawn in names[bold]/overview.png" in answer.stdout


@pytest.mark.slow
def test_convert_through_every_format_and_back(logs):
    for source, target in (
        ("test.npz", "a.parquet"),
        ("a.parquet", "b.hdf5"),
        ("b.hdf5", "./c-v0"),
        ("./c-v0", "d.npz"),
    ):
        answer = run("convert", source, target, folder=logs)
        assert f"3 episodes, 180 steps, are in {target}." in answer.stdout
    np.testing.assert_array_equal(ms.load(logs / "d.npz").states, ms.load(logs / "test.npz").states)


@pytest.mark.slow
def test_convert_adds_the_same_noise_every_time(logs):
    for name, seed in (("one", 3), ("two", 3), ("three", 4)):
        run(
            "convert",
            "test.npz",
            f"noisy_{name}.npz",
            "--noise",
            "0.1",
            "0",
            "--noise-seed",
            seed,
            folder=logs,
        )
    one, two, three = (ms.load(logs / f"noisy_{name}.npz").states for name in ("one", "two", "three"))
    clean = ms.load(logs / "test.npz").states
    np.testing.assert_array_equal(one, two)
    assert (one[:, 0] != three[:, 0]).all()
    np.testing.assert_array_equal(one[:, 1], clean[:, 1])
    np.testing.assert_allclose((one - clean)[:, 0].std(), 0.1 * np.ptp(clean[:, 0]), rtol=0.2)
    there = (logs / "noisy_one.npz").read_bytes()
    assert (
        "noisy_one.npz is there already"
        in run("convert", "test.npz", "noisy_one.npz", folder=logs, code=2).stderr
    )
    assert (logs / "noisy_one.npz").read_bytes() == there
    run("convert", "test.npz", "noisy_one.npz", "--overwrite", folder=logs)
    np.testing.assert_array_equal(ms.load(logs / "noisy_one.npz").states, clean)


@pytest.mark.slow
def test_collect_datasets_and_use_them_by_name(logs, monkeypatch):
    monkeypatch.setenv("MULTISTEP_DATASETS", str(logs / "cache"))
    shipped = len(list((Path(__file__).parents[1] / "datasets").glob("*/*.json")))
    assert run("datasets", folder=logs).stdout.count("not collected") == 8 - shipped
    missing = run("inspect", "halfcheetah/random", folder=logs, code=2)
    assert "make it with 'multistep collect halfcheetah/random'" in missing.stderr
    first = run("collect", "cartpole/random", "--anew", folder=logs)
    assert "was collected in" in first.stdout
    assert (logs / "cache" / "cartpole" / "random.npz").exists()
    assert "was there already" in run("collect", "cartpole/random", folder=logs).stdout
    listed = run("datasets", folder=logs).stdout
    assert listed.count("not collected") == 8 - shipped
    assert "25.3 +- 18.0" in listed
    seen = run("inspect", "cartpole/random", "--out", "seen_cartpole", folder=logs)
    assert seen.stdout.startswith(
        "50 episodes of 1000 steps in one file, 50000 steps in all; returns 25.32 +- 17.99"
    )
    assert "was there already" in run("collect", "cartpole/mixed_replay", folder=logs).stdout
    unknown = run("collect", "hopper/random", folder=logs, code=2)
    assert "choose one of cartpole/random" in unknown.stderr


def test_interrupted_it_says_how_to_go_on_and_leaves_nothing_half_written(logs):
    words = [
        "fit",
        "log_*.csv",
        *COLUMNS,
        *SMALL[:2],
        "--epochs",
        "2000",
        "--horizon",
        "5",
        "--out",
        "stopped",
    ]
    process = subprocess.Popen(
        [sys.executable, "-m", "multistep", *words], cwd=logs, stderr=subprocess.PIPE, text=True
    )
    while process.poll() is None and not (logs / "stopped" / "checkpoint.safetensors").exists():
        time.sleep(0.05)
    process.send_signal(2)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "the same command goes on" in errors
    assert [path.name for path in (logs / "stopped").iterdir()] == ["checkpoint.safetensors"]


@pytest.mark.slow
def test_demo_in_small(tmp_path):
    size = "--episodes 8 --steps 150 --score-horizon 30"
    fits = "--one-step.network.hidden-size 16 --one-step.epochs 1 --one-step.least-steps 1 --budget 50k"
    answer = run("demo", *size.split(), *fits.split(), folder=tmp_path)
    assert answer.stdout.startswith("With 2% noise, the model trained through its own rollout explains")
    out = tmp_path / "runs" / "demo"
    summary = json.loads((out / "summary.json").read_text())
    rows = read_rows(out / "rows.csv")
    for name in ("one_step", "multi_step", "ceiling"):
        mine = [float(row["r2"]) for row in rows if row["model"] == name]
        np.testing.assert_allclose(np.mean(mine), summary[name]["r2bar_30"])
    assert summary["ceiling"]["r2bar_30"] > max(
        summary["one_step"]["r2bar_30"], summary["multi_step"]["r2bar_30"]
    )
    assert summary["seconds"] > 0
    assert ms.load_model(out / "multi_step" / "model.safetensors").state_names[0] == "x"


def test_demo_as_shipped_scores_to_horizon_100_on_50_episodes():
    config = DemoConfig()
    assert (config.episodes, config.noise, config.score_horizon) == (50, 0.02, 100)
    assert config.one_step.horizon == 1
    assert config.out == Path("runs/demo")


SELECT = ["select", "log_*.csv", *COLUMNS, "--score-horizon", 20]
TINY = ["--vary", "network.hidden_size=16", "epochs=2", "least-steps=200"]


@pytest.mark.slow
def test_select_killed_in_the_middle_goes_on(logs):
    """The rows written before the kill stay as they are, the others follow, and a model comes of it."""
    words = [*SELECT, *TINY, "--horizons", 1, 3, "--betas", 1, "--weights", "balanced", "--out", "selected"]
    rows = logs / "selected" / "fits.jsonl"
    process = subprocess.Popen(
        [sys.executable, "-m", "multistep", *map(str, words)],
        cwd=logs,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    while not rows.exists() or rows.read_text().count("\n") < 2:
        assert process.poll() is None
        time.sleep(0.02)
    process.kill()
    process.wait()
    before = rows.read_text().rsplit("\n", 1)[0] + "\n"
    answer = run(*words, folder=logs)
    after = rows.read_text()
    assert after.startswith(before)
    jobs = [json.loads(line)["job"] for line in after.splitlines()]
    assert len(jobs) == len(set(jobs)) == 9
    summary = json.loads((logs / "selected" / "summary.json").read_text())
    assert summary["candidates"] == summary["trained_in_full"] == 3
    assert summary["rule"] == "highest mean R2bar(20) over the held-out folds"
    best = summary["best"]
    assert answer.stdout.startswith(f"Of 3 candidates, horizon {best['config']['horizon']}")
    assert f"{best['mean']:.3f} +- {best['deviation']:.3f}" in answer.stdout
    assert best["mean"] == max(float(row["mean"]) for row in read_rows(logs / "selected" / "rows.csv"))
    with jax.enable_x64(False):
        model, test = ms.load_model(logs / "selected" / "model.safetensors"), ms.load(logs / "test.npz")
        assert ms.score(model, test, horizon=5).r2bar() > 0.5
    # Fewer candidates in the same folder: nothing is run again, and another one may be the best.
    fewer = [*SELECT, *TINY, "--horizons", 1, "--out", "selected"]
    assert run(*fewer, folder=logs).stdout.startswith(
        "Of 1 candidates, horizon 1, network.hidden_size 16, epochs 2"
    )
    assert rows.read_text() == after
    run(*fewer, "--score-horizon", 15, folder=logs)  # the epoch is chosen by another score: another fit
    assert "holds another run" in run("reproduce", "static", "--out", "selected", folder=logs, code=2).stderr


@pytest.mark.slow
def test_ctrl_c_in_a_sweep_says_one_sentence(logs):
    """A terminal sends it to the workers too."""
    words = [
        *SELECT,
        "--vary",
        "network.hidden_size=16",
        "epochs=100,101,102",
        "--horizons",
        1,
        "--out",
        "interrupted",
    ]
    rows = logs / "interrupted" / "fits.jsonl"
    process = subprocess.Popen(
        [sys.executable, "-m", "multistep", *map(str, words)],
        cwd=logs,
        start_new_session=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    while not rows.exists() or not rows.read_text():
        assert process.poll() is None
        time.sleep(0.02)
    os.killpg(process.pid, signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "Interrupted: the same command goes on" in said
    assert "Traceback" not in said


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--vary", "speed=3"], "'speed=3' is not NAME=VALUE,VALUE"),
        (["--vary", "network.activation=sine"], "The activation is sine"),
        (["--cluster", "nowhere.json"], "There is no scheduler file nowhere.json"),
        (["--folds", "1"], "10 episodes cannot be dealt into 1 folds"),
        (["--horizons"], "There are no candidates to select from"),
    ],
)
def test_select_refuses_bad_input_in_one_sentence(words, sentence, logs):
    answer = run(*SELECT, *words, "--out", "refused", folder=logs, code=2)
    assert sentence in answer.stderr
    assert not (logs / "refused" / "fits.jsonl").exists()


def test_static_study_refuses_an_unknown_dataset(tmp_path):
    answer = run("reproduce", "static", "--dataset", "walker/random", folder=tmp_path, code=2)
    assert "There is no dataset walker/random in the catalogue" in answer.stderr


def test_a_reader_that_goes_away_is_no_error():
    process = subprocess.Popen(
        [sys.executable, "-m", "multistep", "select", "--help"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    process.stdout.close()  # as `head` does once it has its lines
    with process.stderr as errors:
        assert errors.read() == ""
    assert process.wait() == 1
