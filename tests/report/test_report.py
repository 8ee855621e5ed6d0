"""Tables, sentences and figures of a run, also of one that went wrong."""

import io

import numpy as np
import pytest
from rich.console import Console

from multistep.evaluation import Scores
from multistep.evaluation.rows import score_rows, score_summary, write_run
from multistep.report.curves import draw_r2_curves
from multistep.report.sentences import demo_sentence, model_sentence, score_table


def scores(values, diverged):
    """Two dimensions, the second of which never changes."""
    values = np.array(values)
    return Scores(
        np.stack([values, np.full_like(values, np.nan)], axis=1),
        np.array(diverged),
        np.full(len(values), 9),
        ("a", "b"),
    )


@pytest.fixture
def run(tmp_path):
    good, bad = scores([0.9, 0.8, 0.7], [0, 0, 0.0]), scores([0.9, -0.5, -np.inf], [0, 0, 0.25])
    rows = score_rows("multi_step", good) + score_rows("one_step", bad)
    write_run(tmp_path, "test", {}, rows, {"multi_step": score_summary(good), "one_step": score_summary(bad)})
    return tmp_path


def test_a_diverged_model_is_shown_as_such(run):
    console = Console(width=80, record=True, file=io.StringIO())
    console.print(score_table(run))
    one_step = next(line for line in console.export_text().splitlines() if "one-step" in line)
    assert one_step.count("-inf") == 2
    assert "25.0%" in one_step
    assert draw_r2_curves(run).read_bytes().startswith(b"\x89PNG")
    assert '"-inf"' in (run / "summary.json").read_text()


def test_sentences_do_not_flatter():
    bad = score_summary(scores([0.9, -0.5, -np.inf], [0, 0, 0.25]))
    sentence = model_sentence({"model": bad | {"outcome": "diverged", "epochs": 3}})
    assert "90.0% of the variance one step ahead and none on average over the next 3 steps" in sentence
    assert "diverged after 3 epochs" in sentence
    assert "25.0% of its rollouts left the finite range" in sentence
    good = score_summary(scores([0.9, 0.8, 0.7], [0, 0, 0.0]))
    assert "none; the true simulator" in demo_sentence(
        {"noise": 0.02, "one_step": bad, "multi_step": good, "ceiling": good}
    )


def test_what_became_of_the_noise_is_said():
    good = score_summary(scores([0.9, 0.8, 0.7], [0, 0, 0.0])) | {"horizon": 20, "validation_score": 0.8}
    assert model_sentence({"model": good}).endswith(
        "80.0% on average over the next 3 steps."
    )  # it was not looked for
    found = {
        "model": good,
        "measurement_noise": {"a": 0.1, "b": 0.01},
        "noise_at_most": {"a": 0.11, "b": 0.05},
    }
    once = found | {
        "chosen": "measured",
        "notes": ["The noise is small."],
        "parts": {"measured": good},
    }
    assert model_sentence(once).endswith(
        "Deviation of the noise found on the measured states: a 0.1, b 0.01. The data alone allow for up to "
        "b 0.05: if your "
        "sensors have that much, train for longer. The first model is kept: the noise is small."
    )
    again = found | {
        "chosen": "smoothed",
        "notes": [],
        "parts": {"measured": good | {"validation_score": 0.81}},
    }
    assert model_sentence(again).endswith("to the episodes without that noise, with a horizon of 20.")
    worse = again | {"parts": {"measured": good | {"validation_score": 0.95}}}
    assert model_sentence(worse).endswith(
        "The first model predicted the validation episodes better (0.950 against 0.800): for the noise on "
        "them, or because it is too poor to smooth with; compare with --recipe once."
    )
