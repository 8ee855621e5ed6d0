"""Logs of real plants, where they are at hand (they are not part of the repository)."""

from pathlib import Path

import numpy as np
import pytest

import multistep as ms
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
