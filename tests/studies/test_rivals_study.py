import csv
import json
import subprocess
import sys

import numpy as np
import pytest

from multistep.errors import InputError
from multistep.report.rival_figures import draw_rivals, rivals_sentence
from multistep.runs.row_log import RowLog
from multistep.studies.rivals import (
    MODEL_STEPS,
    RivalsConfig,
    cell_rows,
    recipes,
    run_rivals,
    verdicts,
    write_table,
)
from systems import random_episodes


def row(method, r2bar, fold=0, noise=0.0, dataset="cartpole/random"):
    names = {"dataset": dataset, "noise": noise, "method": method, "fold": fold}
    numbers = {"clean_r2bar": 0.5, "fit_seconds": 2.0 * fold, "most_model_steps": 1000}
    return names | {"r2bar": r2bar, "r2": [0.99 - fold, 0.1]} | numbers


ROWS = [
    *(row("uniform", score, fold) for fold, score in enumerate((0.6, 0.8, 0.1))),
    *(row("noisy", score, fold) for fold, score in enumerate((0.5, 0.7))),
    *(row("multistep", score, fold) for fold, score in enumerate((0.9, 0.75))),
    *(row("paper", score, fold) for fold, score in enumerate((0.3, 0.4))),
    *(row("ceiling", score, fold) for fold, score in enumerate((1.0, 1.0))),
    *(row(name, 0.9, noise=0.01) for name in ("noisy", "multistep")),
    row("direct", "-inf", noise=0.01),
]


def test_a_row_of_the_table_has_the_mean_and_the_range_over_the_splits_that_all_have():
    table = {(cell["noise"], cell["method"]): cell for cell in cell_rows(ROWS)}
    uniform = table[0.0, "uniform"]
    assert [uniform[name] for name in ("r2bar", "lowest", "highest")] == pytest.approx([0.7, 0.6, 0.8])
    assert uniform["r2_1"] == pytest.approx(0.49)
    assert (uniform["splits"], uniform["seconds"], uniform["model_steps"]) == (2, 1.0, 1000)
    assert table[0.01, "direct"]["r2bar"] == -np.inf
    assert [noise for noise, _ in table] == [0.0] * 5 + [0.01] * 3


def test_ours_is_held_against_the_best_rival_split_by_split():
    first, second = verdicts(ROWS)
    assert (first["ours"], first["rival"]) == ("multistep", "uniform")
    assert (first["splits"], first["splits_ahead"]) == (2, 1)
    assert first["ours_r2bar"] == pytest.approx(0.825)
    assert (second["rival"], second["splits_ahead"]) == ("noisy", 0)  # as good is not ahead
    assert verdicts([row("uniform", 0.5), row("ceiling", 1.0)]) == []
    sentence = rivals_sentence({"cells": [first, second]})
    assert sentence.startswith(
        "One of ours is ahead of the best rival in all splits in 0 of 2 cells; not in "
    )
    assert (
        "cartpole/random with 0% noise (uniform multi-step, h=10 0.700, ours 0.825, ahead in 1 of 2)"
        in sentence
    )


def test_table_and_figure_are_of_the_rows(tmp_path):
    write_table(RivalsConfig(out=tmp_path), ROWS)
    table, figure = draw_rivals(tmp_path)
    lines = table.read_text().splitlines()
    assert "| | cartpole/random 0% | cartpole/random 1% |" in lines
    assert "| ours: balanced, h=40 | **825** (750 to 900) | **900** |" in lines
    assert "| true simulator | 1000 (1000 to 1000) |  |" in lines
    assert "| direct, a network per h |  | -inf |" in lines
    assert figure.stat().st_size > 10_000


@pytest.mark.parametrize("model_steps", [MODEL_STEPS["quick"], MODEL_STEPS["paper"]])
def test_all_trainings_take_as_many_model_steps(model_steps):
    """But for the rollouts between the fits of data as demonstrator, and less than one gradient step."""
    train = random_episodes([1000] * 36, state_size=1, action_size=1)
    for name, recipe in recipes(model_steps).items():
        between = 3 * train.num_steps if name == "aggregated" else 0
        fits = 4 if name == "aggregated" else 1
        taken = recipe.most_steps(train)
        assert 0 <= model_steps + between - taken < fits * 64 * 40, name


def test_bad_options_get_one_sentence(tmp_path):
    with pytest.raises(InputError, match="Trainings of 0 model steps: they take 1 or more"):
        run_rivals(RivalsConfig(model_steps=0, out=tmp_path))
    with pytest.raises(InputError, match="There is no method dagger: name one of one_step, validated, "):
        run_rivals(RivalsConfig(method=("dagger",), out=tmp_path))


@pytest.mark.slow
def test_the_study_runs_and_goes_on(tmp_path, monkeypatch):
    monkeypatch.setenv("MULTISTEP_DATASETS", str(tmp_path / "cache"))
    words = ["reproduce", "rivals", "--noise", "0.02", "--workers", "1", "--out", "a"]
    command = [sys.executable, "-m", "multistep", *words, "--method", "hallucinated", "multistep"]
    answer = subprocess.run(command, cwd=tmp_path, check=True, capture_output=True, text=True)
    with pytest.raises(InputError, match="or this one with another scale or seed or model_steps"):
        run_rivals(RivalsConfig(model_steps=10_000, out=tmp_path / "a"))
    rows = RowLog(tmp_path / "a" / "fits.jsonl").read()
    assert [row["method"] for row in rows] == ["hallucinated", "multistep"]
    summary = json.loads((tmp_path / "a" / "summary.json").read_text())
    (cell,) = summary["cells"]
    assert (cell["ours_r2bar"], cell["rival_r2bar"]) == (rows[1]["r2bar"], rows[0]["r2bar"])
    assert 0.7 * MODEL_STEPS["smoke"] < summary["fewest_model_steps"] <= MODEL_STEPS["smoke"]
    with open(tmp_path / "a" / "rows.csv") as file:
        table = {row["method"]: row for row in csv.DictReader(file)}
    for row in rows:
        assert float(table[row["method"]]["r2_1"]) == row["r2"][0]
        assert float(table[row["method"]]["model_steps"]) == row["most_model_steps"]
    assert float(table["hallucinated"]["r2_1"]) > 0.8
    assert (tmp_path / "a" / "rivals.png").exists()
    assert "hallucinated replay" in answer.stdout
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
    assert RowLog(tmp_path / "a" / "fits.jsonl").read() == rows
