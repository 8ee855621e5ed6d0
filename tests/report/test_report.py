"""Tables, sentences and figures of a run, also of one that went wrong."""

import io
from dataclasses import replace

import numpy as np
import pytest
from matplotlib.figure import Figure
from rich.console import Console

from multistep.evaluation import Scores
from multistep.evaluation.rows import score_rows, score_summary
from multistep.report.agent_figures import draw_learning, draw_plan
from multistep.report.curves import draw_r2_curves
from multistep.report.dynamic_figures import draw_dynamic
from multistep.report.overview import draw_overview
from multistep.report.sentences import (
    demo_sentence,
    free_run_table,
    inspect_sentence,
    inspect_table,
    model_sentence,
    records_table,
    score_table,
)
from multistep.report.traces import draw_traces
from multistep.runs.run_folder import write_json, write_rows, write_run


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
def drawn(monkeypatch):
    """The axes of the figures that were written, in the order of their panels."""
    panels = []
    savefig = Figure.savefig

    def keep(figure, *given, **options):
        panels.extend(figure.get_axes())
        savefig(figure, *given, **options)

    monkeypatch.setattr(Figure, "savefig", keep)
    return panels


def curves(axes):
    """What the lines of a panel show, by their labels."""
    return {line.get_label(): (list(line.get_xdata()), list(line.get_ydata())) for line in axes.get_lines()}


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
    assert '"-inf"' in (run / "summary.json").read_text()


def test_the_curves_are_the_rows(run, drawn):
    assert draw_r2_curves(run).read_bytes().startswith(b"\x89PNG")
    (axes,) = drawn
    assert curves(axes) == {
        "multi-step loss, mean 0.800": ([1, 2, 3], [0.9, 0.8, 0.7]),
        "one-step loss, mean -inf": ([1, 2, 3], [0.9, -0.5, -np.inf]),
    }
    assert axes.get_ylim() == (-0.25, 1.02)  # the one that left is cut off, not the good one squeezed


def test_learning_and_plan_show_every_step(tmp_path, drawn):
    write_rows(tmp_path / "rows.csv", [{"steps": 10 * n, "rollout_return": n**2} for n in range(4)])
    draw_learning(tmp_path)
    (shown,) = curves(drawn[0]).values()
    assert shown == ([0, 10, 20, 30], [0, 1, 4, 9])
    steps = [{"step": n, "x": n / 2, "v": -n, "u": 0.1, "reward": n} for n in range(3)]
    write_rows(tmp_path / "rows.csv", steps)
    write_json(tmp_path / "summary.json", {"states": ["x", "v"], "actions": ["u"]})
    draw_plan(tmp_path)
    states, actions, rewards = (curves(axes) for axes in drawn[1:])
    assert states == {"x": ([0, 1, 2], [0, 0.5, 1]), "v": ([0, 1, 2], [0, -1, -2])}
    assert actions == {"u": ([0, 1, 2], [0.1, 0.1, 0.1])}
    assert list(rewards.values()) == [([0, 1, 2], [0, 1, 2])]


def test_returns_are_bars_with_their_intervals(tmp_path, drawn):
    given = {"horizon": 4, "weights": "exponential:1.0", "r2bar_50": 0.9}
    returns = {0.0: ((800.0, 700.0), (850.0, 840.0)), 0.01: ((300.0, 100.0), (np.nan, np.nan))}
    rows = [
        {
            "variant": variant,
            "noise": noise,
            "return_mean": mean,
            "return_low": low,
            "return_high": 2 * mean - low,
        }
        | given
        for noise, pairs in returns.items()
        for variant, (mean, low) in zip(("one-step", "beta by R2"), pairs, strict=True)
    ]
    write_rows(tmp_path / "rows.csv", rows)
    write_json(tmp_path / "summary.json", {"paper_one_step_without_noise": 712})
    draw_dynamic(tmp_path)
    clean, noisy = drawn
    assert [bar.get_height() for bar in clean.patches] == [800, 850]
    assert [bar.get_height() for bar in noisy.patches] == [300, 0]  # an agent that was lost has none
    ends = clean.collections[0].get_segments()
    np.testing.assert_allclose([end[:, 1] for end in ends], [[700, 900], [840, 860]])
    assert [label.get_text() for label in clean.get_xticklabels()] == [
        "h = 4\none-step",
        "h = 4\nR2:\nbeta 1.0",
    ]
    # The paper's figure is for episodes without noise.
    assert any(list(line.get_ydata()) == [712, 712] for line in clean.get_lines())
    assert not any(list(line.get_ydata()) == [712, 712] for line in noisy.get_lines())


def test_the_overview_shows_ranges_and_trajectories(tmp_path, drawn):
    values = {"missing": 0, "lowest": -2.0, "highest": 3.0, "mean": 0.5, "deviation": 1.0, "constant": False}
    more = {"same_as": "", "noise": 0.1, "noise_of_range": 0.02}
    write_rows(tmp_path / "rows.csv", [{"kind": "state", "name": "cost $x$"} | values | more])
    lengths = [5, 7]
    episodes = [{"file": "a", "first_row": 0, "length": n, "return": None} for n in lengths]
    write_rows(tmp_path / "episodes.csv", episodes)
    steps = [{"episode": e, "step": n, "column_0": e + n} for e in (0, 3) for n in range(2)]
    write_rows(tmp_path / "trajectories.csv", steps)
    draw_overview(tmp_path)
    counts, ranges, trajectories = drawn
    assert sum(bar.get_height() for bar in counts.patches) == len(lengths)
    assert counts.get_title() == "2 episodes, mean length 6"
    whole, usual, _ = ranges.get_lines()
    assert list(whole.get_xdata()) == [-2, 3]
    assert list(usual.get_xdata()) == [-0.5, 1.5]
    assert curves(trajectories) == {"episode 0": ([0, 1], [0, 1]), "episode 3": ([0, 1], [3, 4])}


def test_sentences_do_not_flatter():
    bad = score_summary(scores([0.9, -0.5, -np.inf], [0, 0, 0.25]))
    sentence = model_sentence({"model": bad | {"outcome": "diverged", "epochs": 3}})
    assert "90.0% of the variance one step ahead and none on average over the next 3 steps" in sentence
    assert "diverged after 3 epochs" in sentence
    assert "25.0% of its rollouts left the finite range" in sentence
    short = score_summary(scores([0.9], [0.0]))
    assert model_sentence({"model": short}) == "The model explains 90.0% of the variance one step ahead."
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


def text_of(table):
    """As the command line shows it: brackets are brackets."""
    console = Console(width=100, record=True, file=io.StringIO(), markup=False)
    console.print(table)
    return console.export_text()


def test_units_stand_in_brackets_in_every_table(tmp_path):
    errors = {"rmse": {"level": 0.5}, "nrmse": {"level": 0.1}, "units": {"level": "m"}}
    shown = text_of(free_run_table({"free_run": errors | {"records": 2, "num_past": 1}}))
    assert " level [m] " in shown
    write_rows(
        tmp_path / "free_runs.csv",
        [{"record": "a[1].csv", "steps": 9, "error_of_deviation": 0.1, "rmse_level": 0.5}],
    )
    shown = text_of(records_table(tmp_path, {"level": "m"}))
    assert "RMSE level [m]" in shown
    assert "seconds" not in shown
    timed = {"record": "a[1].csv", "steps": 9, "seconds": 0.45, "error_of_deviation": 0.1}
    write_rows(tmp_path / "free_runs.csv", [timed | {"rmse_level": 0.5}])
    assert " 0.45 " in text_of(records_table(tmp_path, {}))
    assert "a[1].csv" in shown
    values = dict.fromkeys(("lowest", "highest", "mean", "deviation"), 1.0)
    row = {"kind": "state", "name": "level", "missing": 0, "constant": False, "same_as": ""}
    row |= values | {"noise": None, "noise_of_range": None}
    write_rows(tmp_path / "rows.csv", [row])
    assert "level" in text_of(inspect_table(tmp_path))  # as it was before units were kept
    write_rows(tmp_path / "rows.csv", [row | {"unit": "m"}])
    assert " level [m] " in text_of(inspect_table(tmp_path))


def test_one_of_a_kind_is_said_as_one():
    time = {"usual_step": 0.05, "shortest_step": 0.05, "longest_step": 0.05, "gaps": 1}
    summary = {"files": 1, "episodes": 1, "steps": 1, "shortest": 1, "longest": 1, "missing": 1}
    summary |= {"return_mean": None, "time": time, "wrapped_angles": []}
    assert inspect_sentence(summary) == (
        "1 episode of 1 step in one file, 1 step in all; time step 0.05 s, 1 gap; 1 value is missing."
    )
    uneven = summary | {"time": time | {"longest_step": 0.07, "gaps": 0}, "longest": 9}
    assert "1 to 9 steps" in inspect_sentence(uneven)
    assert "time step 0.05 s (0.05 to 0.07), 0 gaps" in inspect_sentence(uneven)


def test_errors_by_horizon_are_in_units_and_seconds(tmp_path, drawn):
    found = replace(scores([0.9, 0.8], [0.0, 0.0]), rmse=np.array([[0.5, 3.0], [0.75, np.inf]]))
    rows = score_rows("model", found)
    assert [row["rmse_a"] for row in rows] == [0.5, 0.75]
    write_rows(tmp_path / "rows.csv", rows)
    draw_r2_curves(tmp_path)
    assert len(drawn) == 1  # of a run that does not know its time step
    write_json(tmp_path / "summary.json", {"time_step": 0.05, "units": {"a": "mm"}})
    draw_r2_curves(tmp_path)
    (first, second), (r2,) = drawn[1:3], drawn[3:]
    assert r2.get_ylabel() == "R2(h) on test episodes"
    assert curves(first) == {"model": ([0.05, 0.1], [0.5, 0.75])}
    assert (first.get_xlabel(), first.get_ylabel()) == ("seconds ahead", "RMSE of a [mm]")
    assert (second.get_ylabel(), second.get_ylim()[1]) == ("RMSE of b", 1.05 * 3)


@pytest.mark.parametrize("has_unit", [True, False])
def test_the_difference_has_an_axis_of_its_own(tmp_path, drawn, has_unit):
    rows = [
        {"role": "record", "record": "a.csv", "sample": n, "time": 0.1 * n, "output": "level"}
        | ({"unit": "mm"} if has_unit else {})
        | {"measured": 500.0 + n % 7, "predicted": 500.0 + n % 7 - 0.01 * (n % 2)}
        for n in range(50)
    ]
    write_rows(tmp_path / "traces.csv", rows)
    draw_traces(tmp_path)
    above, below, correlation = drawn
    assert set(curves(above)) == {"measured", "predicted"}
    assert above.get_ylim()[0] > 490
    (difference,) = below.get_lines()
    np.testing.assert_allclose(difference.get_ydata(), [0.01 * (n % 2) for n in range(50)], atol=1e-9)
    assert max(map(abs, below.get_ylim())) < 0.02
    assert above.get_ylabel() == ("level [mm]" if has_unit else "level")
    assert below.get_xlabel() == "time [s]"
    assert correlation.get_title() == "autocorrelation of the difference"


def test_records_are_named_without_their_folders_if_that_tells_them_apart(tmp_path):
    def names(*records):
        rows = "".join(f'"{record}",9,0.5,0.1\n' for record in records)
        (tmp_path / "free_runs.csv").write_text("record,steps,error_of_deviation,rmse_y\n" + rows)
        return text_of(records_table(tmp_path, {}))

    assert "logs/" not in names("logs/a.csv, episode 1", "logs/b.csv")
    assert "old/a.csv" in names("new/a.csv", "old/a.csv")
