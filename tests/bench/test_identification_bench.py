"""Peers are given what a model may see, scored as ours are, and named when they are not there."""

import json
import os
import subprocess
import sys
import zipfile
from dataclasses import replace
from pathlib import Path

import jax
import numpy as np
import pytest

import multistep as ms
from multistep.bench.contests import LINEAR, EpisodesJob, Offered, PlantJob
from multistep.bench.identification import (
    IdentificationBenchConfig,
    run_identification_bench,
    summary_of,
)
from multistep.bench.peer_environments import (
    INSTALLED,
    PEERS,
    Peer,
    PeerMissing,
    complaint_of,
    environments_folder,
    make_environment,
)
from multistep.bench.peer_runs import (
    Answer,
    PeerFailed,
    Rollouts,
    ask,
    episode_arrays,
    episode_scores,
    plant_arrays,
    plant_rmse,
)
from multistep.data import Past, add_noise
from multistep.dynamics import LineConfig, ObservedModel, forecast
from multistep.errors import InputError
from multistep.evaluation import score
from multistep.runs.provenance import digest
from multistep.runs.row_log import RowLog
from multistep.selection.folds import Fold
from multistep.studies.benchmark_records import BenchmarkData, find_benchmark
from multistep.training import LeastSquares, fit_observer
from systems import oscillator_episodes, plant_episodes, tanks_file

TANKS = find_benchmark("cascaded_tanks")
MEAN_OF_SEEN = """
import sys
import numpy as np
data = np.load(sys.argv[1])
if sys.argv[sys.argv.index("--seed") + 1] == "13":
    raise ValueError("an unlucky seed.")
seen = data["seen_test"]
predicted = np.full((len(data["inputs_test"]), 1), seen.mean())
shapes = " ".join(f"{name}{data[name].shape}" for name in data.files)
np.savez(sys.argv[2], predicted_test=predicted, seconds=2.5, about=shapes)
"""


@pytest.fixture
def records():
    (train, test) = (plant_episodes(num=1, steps=200, seed=seed) for seed in (0, 1))
    return BenchmarkData(train, {"test": test})


@pytest.fixture
def stranger(tmp_path):
    """A peer that predicts the mean of what it has seen."""
    (tmp_path / "mean.py").write_text(MEAN_OF_SEEN)
    return Peer("mean", str(tmp_path / "mean.py"), (), ())


def test_a_peer_sees_the_first_outputs_alone_and_is_scored_after_them(records, stranger):
    benchmark = replace(TANKS, scale_to_unit=1e3)
    given = plant_arrays(records, benchmark)
    answer = ask(Path(sys.executable), stranger, given, seed=0, seconds=1.0)
    shown = "train_inputs(201, 1) train_outputs(201, 1) time_step() tests(1,) inputs_test(201, 1)"
    assert answer.about == f"{shown} seen_test(5, 1)"
    assert answer.seconds == 2.5
    outputs = records.tests["test"].states[:, 0]
    expected = 1e3 * np.sqrt(np.mean((outputs[5:] - outputs[:5].mean()) ** 2))
    assert plant_rmse(answer, records, benchmark) == {"test": pytest.approx(expected)}
    with pytest.raises(PeerFailed, match=r"^ValueError: an unlucky seed$"):
        ask(Path(sys.executable), stranger, given, seed=13, seconds=1.0)
    short = Answer({"predicted_test": answer.predicted["predicted_test"][5:]}, 1.0, "")
    with pytest.raises(PeerFailed, match=r"it predicts \(196, 1\) values of \(201, 1\)"):
        plant_rmse(short, records, benchmark)


def test_forecasts_of_others_are_scored_as_a_model_is():
    """Of a model with a past: its own forecasts, from the arrays that a peer is given."""
    episodes = ms.Episodes.of(
        [
            (
                part.states + 0.05 * np.random.default_rng(length).standard_normal(part.states.shape),
                part.actions,
            )
            for length in (30, 41, 17, 8)
            for part in (plant_episodes(num=1, steps=length, seed=length)[0],)
        ]
    )
    recipe = LeastSquares(ms.Lags(3).around(LineConfig()))
    model = recipe.fit(episodes, episodes, key=jax.random.key(0), score=ms.R2Bar(5)).model
    rollouts = Rollouts.of(episodes, 3, 12)
    predicted = jax.vmap(lambda *given: forecast(model, Past(*given[:2]), given[2]).mean)(
        rollouts.past_states, rollouts.past_actions, rollouts.actions
    )
    found = episode_scores(Answer({"predicted": np.asarray(predicted)}, 1.0, ""), episodes, rollouts)
    expected = score(model, episodes, horizon=12)
    np.testing.assert_allclose(found.r2, expected.r2, rtol=1e-6)
    assert 0.5 < found.r2bar() < 1
    with pytest.raises(PeerFailed, match="it predicts"):
        episode_scores(Answer({"predicted": np.zeros((3, 12, 1))}, 1.0, ""), episodes, rollouts)


def test_rows_of_a_plant(records, stranger, monkeypatch):
    monkeypatch.setitem(PEERS, "mean", stranger)
    job = PlantJob("d", "cascaded_tanks", "mean", 0, 1.0, None)
    row = job.run(Offered(records, {"mean": Path(sys.executable)}))
    outputs = records.tests["test"].states[:, 0]
    mean_error = np.sqrt(np.mean((outputs[5:] - outputs[:5].mean()) ** 2))
    assert row["found"] == {"test": pytest.approx(mean_error)}
    assert (row["unit"], row["cpu_seconds"]) == ("V", 2.5)
    with pytest.raises(PeerMissing, match="it cannot be installed"):
        job.run(Offered(records, {"mean": "it cannot be installed (no disk)"}))
    linear = replace(job, method=LINEAR).run(Offered(records, {}))
    assert linear["found"]["test"] < 1e-3 * mean_error  # as the plant is


def test_episodes_are_scored_from_as_many_measurements_as_peers_have():
    episodes = oscillator_episodes(9, 60, noise=0.0)
    fold = Fold(0, (0, 1, 2, 3, 4), (5, 6), (7, 8))
    row = EpisodesJob("d", "oscillator", 0.05, LINEAR, fold, 0, 20, 1.0, None).run(Offered(episodes, {}))
    train, valid, test = fold.deal(add_noise(episodes, 0.05, key=jax.random.key(0)))
    model = LeastSquares().fit(train, valid, key=jax.random.key(1), score=ms.R2Bar(20)).model
    view = ObservedModel(fit_observer(model, train), 12)  # a fifth of an episode: it is short
    expected = {
        "r2bar_20": score(view, test, horizon=20).r2bar(),
        "r2bar_20_from_one": score(model, test, horizon=20).r2bar(),
    }
    assert row["found"] == pytest.approx(expected, rel=1e-6)
    assert Rollouts.of(test, 12, 20).past_states.shape == (2 * (60 - 11), 12, 2)


def test_the_summary_has_every_method_and_who_is_absent():
    def row(method, seed, value, **others):
        found = {"found": {"test": value}, "unit": "V", "cpu_seconds": 2.0 + seed, "outcome": "finished"}
        return {"benchmark": "cascaded_tanks", "method": method, "seed": seed, **found, **others}

    failed = {"outcome": "failed", "reason": "PeerMissing: it cannot be imported (no torch)", "found": None}
    summary = summary_of(
        [row("a", 0, 0.3), row("a", 1, 0.5), row("b", 0, "inf"), row("c", 0, None, **failed)]
    )
    own = summary["cascaded_tanks"]
    assert own["a"] == {
        "runs": 2,
        "test V": {"mean": pytest.approx(0.4), "lowest": 0.3, "highest": 0.5},
        "cpu_seconds": 2.5,
    }
    assert own["b"]["test V"]["mean"] == float("inf")
    assert "c" not in own
    assert own["reported by others"]["test"]["SUBNET"] == 0.37
    assert summary["absent"] == {"c on cascaded_tanks": failed["reason"]}


def test_the_line_that_says_what_is_wrong():
    pip = (
        "WARNING: slow\nERROR: Could not find x\nERROR: No matching distribution found for x\n[notice] new\n"
    )
    assert complaint_of(pip) == "No matching distribution found for x"
    assert complaint_of("Traceback\n  File\nImportError: libcudart.so: no such file.\n") == (
        "ImportError: libcudart.so: no such file"
    )
    assert complaint_of("") == "it says nothing"


def wheel(folder, name, source):
    """The smallest package that pip installs, without an index."""
    path = folder / f"{name}-1.0-py3-none-any.whl"
    info = f"{name}-1.0.dist-info"
    with zipfile.ZipFile(path, "w") as file:
        file.writestr(f"{name}.py", source)
        file.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        file.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        file.writestr(f"{info}/RECORD", "")
    return str(path)


@pytest.mark.slow
def test_an_environment_is_made_once_and_says_why_it_cannot_be(tmp_path, monkeypatch):
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    package = wheel(tmp_path, "lonely", "ANSWER = 42\n")
    peer = Peer("lonely", "none.py", ("lonely",), (package,))
    python = make_environment(peer, tmp_path / "peers")
    program = "import lonely; print(lonely.ANSWER); import multistep"
    there = subprocess.run(
        [python, "-c", program], capture_output=True, text=True, check=False, env={"PATH": os.environ["PATH"]}
    )
    assert there.stdout == "42\n"
    assert "No module named 'multistep'" in there.stderr
    written = (python.parents[1] / INSTALLED).stat().st_mtime_ns
    assert make_environment(peer, tmp_path / "peers") == python
    assert (python.parents[1] / INSTALLED).stat().st_mtime_ns == written
    broken = replace(peer, modules=("nothing_of_that_name",))
    with pytest.raises(PeerMissing, match=r"it cannot be imported .*nothing_of_that_name"):
        make_environment(broken, tmp_path / "peers")
    assert list((tmp_path / "peers").iterdir()) == [python.parents[1]]


@pytest.mark.slow
def test_the_command_goes_on_without_a_peer_and_says_so(tmp_path):
    tanks_file(tmp_path, samples=120)
    words = [sys.executable, "-m", "multistep", "bench", "identification", "--data", ".", "--dataset"]
    words += ["cartpole/mixed_replay", "--steps", "60", "--score-horizon", "20", "--seeds", "1"]
    words += ["--method", LINEAR, "jax-sysid", "--peers", "peers", "--workers", "1", "--out", "b"]
    environment = {**os.environ, "PIP_NO_INDEX": "1", "PIP_FIND_LINKS": "", "COLUMNS": "200"}

    def run():
        return subprocess.run(
            words, cwd=tmp_path, capture_output=True, text=True, check=False, env=environment
        )

    done = run()
    assert done.returncode == 0, done.stderr
    rows = {(row["benchmark"], row["method"]): row for row in RowLog(tmp_path / "b" / "fits.jsonl").read()}
    assert {key: row["outcome"] for key, row in rows.items()} == {
        ("cascaded_tanks", "linear"): "finished",
        ("cascaded_tanks", "jax-sysid"): "failed",
        ("cartpole/mixed_replay 0.02", "linear"): "finished",
    }
    summary = json.loads((tmp_path / "b" / "summary.json").read_text())
    assert "No matching distribution found for jax-sysid" in summary["absent"]["jax-sysid on cascaded_tanks"]
    assert "No matching distribution found for jax-sysid" in done.stdout
    assert summary["cartpole/mixed_replay 0.02"]["linear"]["r2bar_20"]["mean"] < 1
    run()
    again = RowLog(tmp_path / "b" / "fits.jsonl").read()
    kept = [row for row in again if row["outcome"] == "finished"]
    assert kept == [row for row in rows.values() if row["outcome"] == "finished"]


def test_what_cannot_be_run_is_refused_before_anything_is_written(tmp_path):
    config = IdentificationBenchConfig(dataset=(), out=tmp_path / "b")
    with pytest.raises(InputError, match=r"^There is nothing to run: name --data or --dataset"):
        run_identification_bench(config)
    with pytest.raises(InputError, match="no method jax-syside: name some of multistep, linear, jax-sysid, "):
        run_identification_bench(replace(config, method=("jax-syside",)))
    with pytest.raises(InputError, match=r"There is no cascaded_tanks\.csv in "):
        run_identification_bench(replace(config, data=tmp_path))
    assert not (tmp_path / "b").exists()


def environment_of(name):
    """Where the bench has made it, if it has."""
    return environments_folder() / f"{name}-{digest(PEERS[name])}"


@pytest.mark.slow
@pytest.mark.parametrize("name", ["jax-sysid", "deepSI"])
def test_a_peer_learns_a_linear_plant(name, records):
    if not (environment_of(name) / INSTALLED).exists():
        pytest.skip(f"no environment of {name} has been made")
    python = make_environment(PEERS[name], environments_folder())
    answer = ask(python, PEERS[name], plant_arrays(records, TANKS), seed=0, seconds=4.0)
    error = plant_rmse(answer, records, TANKS)["test"]
    assert error < 0.3 * records.tests["test"].states.std()
    assert name in answer.about


@pytest.mark.slow
def test_a_peer_learns_from_noisy_episodes():
    if not (environment_of("tsfast") / INSTALLED).exists():
        pytest.skip("no environment of tsfast has been made")
    train, valid, test = (oscillator_episodes(num, 60, noise=0.05) for num in (12, 2, 3))
    rollouts = Rollouts.of(test, 10, 10)
    python = make_environment(PEERS["tsfast"], environments_folder())
    answer = ask(python, PEERS["tsfast"], episode_arrays(train, valid, rollouts), seed=0, seconds=1.0)
    assert episode_scores(answer, test, rollouts).r2bar() > 0.5
