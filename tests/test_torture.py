"""A small part of `make torture`, and that it finds what is lost."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import multistep

ROOT = Path(__file__).parents[1]


@pytest.mark.slow
def test_a_small_part_of_the_torture_loses_nothing():
    kinds = ["csv", "npz", "parquet", "model", "rows", "agent.zip"]
    command = [sys.executable, "-m", "torture", "--share", "0.002", "--only", "damage", "--kinds", *kinds]
    places = os.pathsep.join([str(Path(multistep.__file__).parents[1]), str(ROOT)])
    answer = subprocess.run(
        command,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": places},
        capture_output=True,
        text=True,
        check=False,
    )
    assert answer.returncode == 0, answer.stdout + answer.stderr
    assert answer.stdout.count("damaged: ") == len(kinds)
    assert "LOST" not in answer.stdout


def test_the_torture_counts_what_is_lost(monkeypatch, tmp_path, capsys):
    monkeypatch.syspath_prepend(str(ROOT))
    from torture import fuzz
    from torture.table import Clock, Tried, print_table
    from torture.work import problem_of

    log, tried = tmp_path / "log", Tried("damaged: x")
    log.write_text("0 refused\n1 read\n2 lost ValueError: here\n3 ")
    following = fuzz._counted(log, tmp_path, "x", 0, tried, -9, Clock(1))
    assert (following, tried.times, tried.refused, len(tried.lost)) == (4, 4, 1, 2)
    print_table([tried])
    shown = capsys.readouterr().out
    assert "seed 2: ValueError: here" in shown
    assert "seed 3: it hung" in shown
    assert problem_of(0, "") is None
    assert problem_of(2, "note: x\nmultistep: No.\n") is None
    assert "a traceback" in problem_of(1, "Traceback (most recent call last):\n  x\nValueError: y")
    assert "exit code -11" in problem_of(-11, "")
    assert "no sentence" in problem_of(2, "usage")
