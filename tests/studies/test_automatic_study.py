import json
import subprocess
import sys

import pytest

from multistep.errors import InputError
from multistep.runs.row_log import RowLog
from multistep.studies.automatic import METHODS, AutomaticConfig, cell_rows
from multistep.studies.methods import chosen_methods


def row(method, r2bar, fold=0, noise=0.01):
    return {"dataset": "cartpole/random", "noise": noise, "method": method, "fold": fold, "r2bar": r2bar}


def test_a_cell_has_the_mean_of_every_method_beside_the_papers_best():
    rows = [row("automatic", 0.9), row("automatic", 0.8, fold=1), row("automatic", 0.1, fold=2)]
    rows += [row("one_step", 0.5), row("one_step", 0.7, fold=1)]
    parts = {"parts": {"measured": {"r2bar": 0.86, "fit_seconds": 7.0}}}
    rows += [row("smoothed", 0.83) | parts, row("smoothed", 0.83, fold=1) | parts]
    (cell,) = cell_rows(rows)
    assert cell["automatic"] == pytest.approx(0.85)  # of the two splits that the others have too
    assert cell["one_step"] == pytest.approx(0.6)
    assert cell["splits"] == 2
    assert (cell["once"], cell["once_seconds"], cell["smoothed"]) == (0.86, 7.0, 0.83)
    assert cell["below_best_part"] == pytest.approx(0.01)
    assert cell["paper_best"] == 0.954  # the table of R2bar(100), Cartpole random with 1 % noise
    assert cell["ceiling"] is None
    assert [cell["noise"] for cell in cell_rows([*rows, row("linear", 0.1, noise=0.0)])] == [0.0, 0.01]


def test_some_of_the_methods_can_be_run_by_name():
    assert list(chosen_methods(AutomaticConfig(), METHODS["smoke"])) == [
        "linear",
        "one_step",
        "smoothed",
        "automatic",
        "ceiling",
    ]
    assert list(chosen_methods(AutomaticConfig(method=("ceiling", "linear")), METHODS["smoke"])) == [
        "linear",
        "ceiling",
    ]
    with pytest.raises(InputError, match="There is no method lines: name one of linear, one_step, "):
        chosen_methods(AutomaticConfig(method=("lines",)), METHODS["smoke"])


@pytest.mark.slow
def test_the_study_runs_and_goes_on(tmp_path, monkeypatch):
    monkeypatch.setenv("MULTISTEP_DATASETS", str(tmp_path / "cache"))
    words = ["reproduce", "automatic", "--noise", "0.02", "--workers", "1", "--out", "a"]
    command = [sys.executable, "-m", "multistep", *words]
    answer = subprocess.run(command, cwd=tmp_path, check=True, capture_output=True, text=True)
    assert "of 1 cells the automatic recipe is no more than 0.005 below" in " ".join(answer.stdout.split())
    rows = RowLog(tmp_path / "a" / "fits.jsonl").read()
    assert {row["method"] for row in rows} == {"linear", "one_step", "smoothed", "automatic", "ceiling"}
    automatic = next(row for row in rows if row["method"] == "automatic")
    assert automatic["chosen"] in automatic["judged"]
    assert automatic["parts"][automatic["chosen"]]["r2bar"] == automatic["r2bar"]
    assert json.loads((tmp_path / "a" / "summary.json").read_text())["cells"] == 1
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
    assert RowLog(tmp_path / "a" / "fits.jsonl").read() == rows
