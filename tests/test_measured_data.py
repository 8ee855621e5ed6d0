"""Logs of real plants, where they are at hand (they are not part of the repository)."""

from pathlib import Path

import numpy as np
import pytest

import multistep as ms
from multistep.data import remarks_on, with_angles
from test_cli import run

DATA = Path(__file__).parents[2] / "shared" / "data"
SMALL = ["--network.hidden-size", "16", "--epochs", "1", "--least-steps", "300", "--horizon", "5"]
pytestmark = pytest.mark.skipif(not DATA.exists(), reason="the measured data are not here")


@pytest.mark.slow
def test_cascaded_tanks_as_they_are(tmp_path):
    columns = ["--states", "y=yEst,yVal", "--actions", "u=uEst,uVal"]
    seen = run("inspect", DATA / "cascaded_tanks.csv", *columns, "--out", "seen", folder=tmp_path)
    assert seen.stdout.startswith(
        "2 episodes of 1023 steps in one file, 2046 steps in all; no value is missing."
    )
    run("fit", DATA / "cascaded_tanks.csv", *columns, *SMALL, "--cut", 100, "--out", "fit", folder=tmp_path)
    assert (tmp_path / "fit" / "model.safetensors").exists()
    unnamed = run("fit", DATA / "cascaded_tanks.csv", folder=tmp_path, code=2)
    assert "(--states on the command line); it has uEst, uVal, yEst, yVal, Ts" in unnamed.stderr
    only = ms.load(DATA / "cascaded_tanks.csv", states=["yVal"], actions=["uVal"])
    np.testing.assert_array_equal(only.states[[0, -1], 0], [4.9728, 3.7179])


def test_pendulum_with_its_time(tmp_path):
    columns = ["--states", "position", "velocity", "--actions", "torque", "--time", "time"]
    seen = run("inspect", DATA / "simple_pendulum" / "*.csv", *columns, "--out", "seen", folder=tmp_path)
    assert "7 episodes of 999 to 7998 steps in 7 files" in seen.stdout
    assert "2 gaps" in seen.stdout
    assert "one model of one step cannot be right for both" in seen.stderr


def load(name):
    """Each recording, as it is used."""
    benchmark = DATA / "benchmarks"
    pendulum = {"states": ["position", "velocity"], "actions": ["torque"], "time": "time"}
    if name == "tanks":
        return ms.load(DATA / "cascaded_tanks.csv", states=["y=yEst,yVal"], actions=["u=uEst,uVal"])
    if name == "emps":
        return ms.load(benchmark / "emps_*.parquet", states=["qm"], actions=["vir"], time="t")
    if name in ("silverbox", "wiener_hammerstein"):
        return ms.load(benchmark / f"{name}.parquet", states=["y"], actions=["u"])
    return ms.load(DATA / "simple_pendulum" / f"{name}.csv", **pendulum)


RECORDINGS = ["tanks", "emps", "silverbox", "wiener_hammerstein"]
RECORDINGS += [
    "ddp",
    "direct_collocation",
    "energy_shaping",
    "ilqr",
    "pd_failure",
    "pd_identification",
    "sac",
]


@pytest.mark.filterwarnings("ignore:.*gaps? in time")
@pytest.mark.parametrize("name", RECORDINGS)
def test_nothing_is_wrong_with_measured_data(name):
    assert remarks_on(load(name)) == []


@pytest.mark.filterwarnings("ignore:.*gaps? in time", "ignore:The usual time step")
def test_one_of_the_pendulums_has_turned():
    """Its position ends at -15 radians, which is odd for a position and not for an angle."""
    episodes = load("*")
    (remark,) = remarks_on(episodes)
    assert "sac.csv is unlike the other logs: the mean of position is -15.39" in remark
    assert remarks_on(with_angles(episodes, ["position"])) == []
