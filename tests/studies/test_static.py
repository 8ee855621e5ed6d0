import json
import math
import statistics
from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from rich.console import Console

from multistep.bench.search import SearchBenchConfig, run_search_bench
from multistep.data import add_noise
from multistep.errors import InputError
from multistep.report.static_figures import draw_static, static_sentence, static_table, write_table
from multistep.runs.row_log import RowLog
from multistep.runs.run_folder import write_rows
from multistep.runs.workers import Workers
from multistep.studies import static_tables
from multistep.studies.static import SIZES, StaticConfig, prepare, run_static
from multistep.tasks import CARTPOLE
from multistep.tasks.cache import load_dataset
from multistep.tasks.catalogue import find_dataset
from multistep.training import DEFAULT, PAPER

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    """The smallest form of the study, run for real: its configuration, rows and summary."""
    folder = tmp_path_factory.mktemp("static")
    config = StaticConfig(out=folder / "out", cache=folder / "datasets", where=Workers(workers=1))
    summary = run_static(config)
    rows = [json.loads(line) for line in (config.out / "fits.jsonl").read_text().splitlines()]
    return config, rows, summary


def test_one_row_per_fit_and_ceiling(study):
    _, rows, summary = study
    fits = [row for row in rows if row["kind"] == "fit"]
    assert len(fits) == 2 * (1 + 2) * 2  # noises, one-step and two betas, folds
    assert len(rows) - len(fits) == 2 * 2
    assert summary["outcomes"] == {"finished": 16}
    assert all(len(row["r2"]) == 20 for row in rows)


def test_cells_are_the_best_betas_by_brute_force(study):
    config, rows, _ = study
    cells = pl.read_csv(config.out / "rows.csv")
    assert cells.select("noise", "horizon").rows() == [(0.0, 1), (0.0, 2), (0.02, 1), (0.02, 2)]
    for cell in cells.iter_rows(named=True):
        by_weights = {}
        for row in rows:
            if (row["kind"], row["noise"], row["horizon"]) == ("fit", cell["noise"], cell["horizon"]):
                by_weights.setdefault(row["weights"], []).append(np.mean(row["r2"]))
        best = max(by_weights, key=lambda weights: statistics.mean(by_weights[weights]))
        assert cell["weights"] == best
        assert cell["mean"] == pytest.approx(statistics.mean(by_weights[best]))
        assert cell["deviation"] == pytest.approx(statistics.stdev(by_weights[best]))
        assert cell["betas"] == cell["betas_in_all"] == len(by_weights)
        if cell["horizon"] == 2:
            assert cell["effective_horizon"] == pytest.approx(
                (1 + 2 * cell["beta"]) / (1 + cell["beta"]), rel=1e-6
            )
        ceilings = [
            np.mean(row["r2"]) for row in rows if (row["kind"], row["noise"]) == ("ceiling", cell["noise"])
        ]
        assert cell["ceiling"] == pytest.approx(statistics.mean(ceilings))
        assert cell["paper"] is None  # 20 steps cannot be compared with the paper's 100


def test_the_gain_is_paired_by_fold(study):
    config, rows, _ = study
    cell = pl.read_csv(config.out / "rows.csv").row(-1, named=True)
    halves = {
        (row["horizon"], row["fold"]): np.mean(row["r2"][:10])
        for row in rows
        if row["kind"] == "fit" and row["noise"] == 0.02 and row["weights"] in ("uniform", cell["weights"])
    }
    gains = [(halves[2, fold] - halves[1, fold]) / abs(halves[1, fold]) for fold in (0, 1)]
    error = 12.706 * statistics.stdev(gains) / math.sqrt(2)  # Student's quantile of one degree of freedom
    assert cell["gain"] == pytest.approx(statistics.mean(gains))
    assert (cell["gain_low"], cell["gain_high"]) == (
        pytest.approx(np.mean(gains) - error, rel=1e-4),
        pytest.approx(np.mean(gains) + error, rel=1e-4),
    )


def test_a_ceiling_row_is_the_tasks_ceiling(study):
    """The same noise and the same test episode, by another road."""
    import jax

    config, rows, _ = study
    jobs, data = prepare(config, [find_dataset("cartpole/random")])
    [job] = [job for job in jobs if job.labels()["kind"] == "ceiling" and job.labels()["noise"] == 0.02][:1]
    clean = load_dataset("cartpole/random", config.cache).take(range(18))
    short = type(clean).of([(clean[n].states[:101], clean[n].actions[:100]) for n in range(18)])
    short = replace(short, state_names=clean.state_names, action_names=clean.action_names)
    noisy = add_noise(short, 0.02, key=jax.random.key(0))
    np.testing.assert_array_equal(noisy.states, data[job.data].states)
    expected = CARTPOLE.ceiling(noisy.take(job.fold.test), horizon=20)
    [row] = [
        row for row in rows if (row["kind"], row["noise"], row["fold"]) == ("ceiling", 0.02, job.fold.number)
    ]
    np.testing.assert_allclose(row["r2"], expected.r2, atol=1e-6)


def test_the_same_command_runs_nothing_again(study):
    config, _, summary = study
    before = (config.out / "fits.jsonl").read_bytes()
    assert run_static(config) == summary
    assert (config.out / "fits.jsonl").read_bytes() == before


def test_another_seed_needs_another_folder(study):
    with pytest.raises(InputError, match="holds another run, or this one with another scale or seed"):
        run_static(replace(study[0], seed=1))


def test_table_and_figures_are_drawn_from_rows_alone(study, tmp_path):
    config, *_ = study
    for name in ("rows.csv", "betas.csv", "curves.csv"):
        (tmp_path / name).write_bytes((config.out / name).read_bytes())
    paths = draw_static(tmp_path)
    assert [path.name for path in paths] == ["table.md", "gains.png", "betas.png", "curves.png"]
    assert all(path.stat().st_size > 100 for path in paths)
    cells = pl.read_csv(config.out / "rows.csv")
    table = paths[0].read_text()
    for mean, deviation in cells.select("mean", "deviation").rows():
        assert f"{1000 * mean:.0f} ± {1000 * deviation:.0f}" in table
    with (console := Console(width=80)).capture() as printed:
        console.print(static_table(tmp_path))
    for mean, deviation, beta in cells.select("mean", "deviation", "beta").rows():
        score = f"{1000 * mean:.0f} +- {1000 * deviation:.0f}"
        assert (score if beta is None else f"{score} [{beta:g}]") in printed.get()


def test_the_papers_grid_is_prepared(study):
    config = replace(study[0], scale="paper", dataset=("cartpole/random",))
    jobs, data = prepare(config, [find_dataset("cartpole/random")])
    kinds = [(job.labels()["kind"], job.labels().get("preset")) for job in jobs]
    assert kinds.count(("fit", None)) == 2952 // 8
    assert kinds.count(("ceiling", None)) == kinds.count(("fit", "default")) == 9
    fits = [job for job in jobs if job.labels()["kind"] == "fit"]
    assert {job.config for job in fits if job.config.horizon == 40} == {DEFAULT}
    assert {job.config.epochs for job in fits if job.config.horizon < 40} == {PAPER.epochs}
    assert {tuple(map(len, (job.fold.train, job.fold.valid, job.fold.test))) for job in fits} == {(36, 4, 10)}
    assert len(data) == 3
    part = replace(config, noise=(0.02,), horizons=(1, 4), betas=(1.5,))
    assert (
        len(
            [
                job
                for job in prepare(part, [find_dataset("cartpole/random")])[0]
                if job.labels()["kind"] == "fit"
            ]
        )
        == 6
    )


def test_the_papers_numbers():
    cells = static_tables.paper_cells()
    assert len(cells) == 8 * 3 * 5
    assert set(cells["dataset"]) == {find_dataset(name).name for name in cells["dataset"]}
    best = cells.filter(
        (pl.col("dataset") == "cartpole/random") & (pl.col("noise") == 0.02) & (pl.col("horizon") == 10)
    )
    assert best.select("paper", "paper_deviation", "paper_beta", "highlighted").row(0) == (
        0.836,
        0.007,
        0.75,
        True,
    )
    assert len(static_tables.paper_betas()) == 6 * 4


def rows_like_the_papers(one_step, ten_steps, noise=0.02):
    """Rows of three folds with these scores, constant over 100 steps."""
    return [
        {
            "kind": "fit",
            "dataset": "cartpole/random",
            "noise": noise,
            "horizon": horizon,
            "weights": "uniform" if horizon == 1 else f"exponential:{beta}",
            "fold": fold,
            "r2": [score] * 100,
            "seconds": 1.0,
            "outcome": "finished",
        }
        for horizon, scores, beta in (
            (1, one_step, 1),
            (10, ten_steps, 0.75),
            (10, [s - 0.2 for s in ten_steps], 2),
        )
        for fold, score in enumerate(scores)
    ]


def test_verdicts_beside_the_paper():
    rows = rows_like_the_papers((0.50, 0.52, 0.51), (0.83, 0.84, 0.85))
    cells = static_tables.cell_table(static_tables.fit_table(rows), 3, 2)
    assert cells["above_paper"].to_list() == [
        pytest.approx((0.51 - 0.508) / 0.016),
        pytest.approx((0.84 - 0.836) / 0.007),
    ]
    assert cells["beta"].to_list() == [None, 0.75]
    names = {name: len(found) for name, found in static_tables.verdicts(cells).items()}
    assert names == {
        "one_step_as_in_paper": 1,
        "one_step_unlike_paper": 0,
        "gain_significant_in_both": 1,
        "gain_significant_in_paper_only": 0,
    }


def test_verdicts_that_disagree():
    rows = rows_like_the_papers((0.61, 0.52, 0.67), (0.61, 0.60, 0.62))
    cells = static_tables.cell_table(static_tables.fit_table(rows), 3, 2)
    names = {name: len(found) for name, found in static_tables.verdicts(cells).items()}
    assert names["one_step_unlike_paper"] == names["gain_significant_in_paper_only"] == 1


def test_candidates_that_lack_a_fold_or_failed_have_no_say(tmp_path):
    rows = rows_like_the_papers((0.5, 0.5, 0.5), (0.8, 0.8, 0.8))
    del rows[3]  # a fold of beta 0.75
    rows.append({**rows[0], "horizon": 2, "outcome": "failed"})
    cells = static_tables.cell_table(static_tables.fit_table(rows), 3, 2)
    assert cells.select("horizon", "beta").rows() == [(1, None), (10, 2.0)]
    assert cells.select("betas", "betas_in_all").rows() == [(1, 1), (1, 2)]
    assert static_tables.beta_table(cells).is_empty()  # the best of a part of the betas is not the best
    verdicts = static_tables.verdicts(cells)
    assert not verdicts["gain_significant_in_both"] + verdicts["gain_significant_in_paper_only"]
    write_rows(tmp_path / "rows.csv", cells)
    assert "600 ± 0 [2], 1 of 2 betas" in write_table(tmp_path).read_text().replace("**", "")


def test_minus_infinity_is_no_gain():
    rows = rows_like_the_papers((0.5, 0.5, 0.5), (0.8, 0.8, float("-inf")))
    rows = [row for row in rows if row["weights"] != "exponential:2"]
    cells = static_tables.cell_table(static_tables.fit_table(rows), 3, 1)
    assert len(static_tables.verdicts(cells)["gain_significant_in_paper_only"]) == 1
    diverged = rows_like_the_papers((0.5, 0.5, 0.5), (0.8, 0.8, 0.8))
    diverged[3]["outcome"] = "diverged"
    assert static_tables.cell_table(static_tables.fit_table(diverged), 3, 2)["beta"].to_list() == [None, 2.0]


@pytest.mark.parametrize(
    "which", ["one-step only", "nothing whole", "all failed", "not a grid", "no finite gain"]
)
def test_tables_and_figures_of_a_part_of_the_study(which, tmp_path):
    rows = rows_like_the_papers((0.5, 0.5, 0.5), (0.8, 0.8, 0.8))
    rows = {
        "one-step only": rows[:3],
        "nothing whole": rows[:2],
        "all failed": [{**row, "outcome": "failed"} for row in rows],
        "no finite gain": rows_like_the_papers((0.5, 0.5, 0.5), (0.8, 0.8, float("-inf"))),
        "not a grid": rows + [{**row, "dataset": "swimmer/random", "noise": 0.0} for row in rows],
    }[which]
    fits = static_tables.fit_table(rows)
    cells = static_tables.cell_table(fits, 3, 2)
    write_rows(tmp_path / "rows.csv", cells)
    write_rows(tmp_path / "betas.csv", static_tables.beta_table(cells))
    write_rows(tmp_path / "curves.csv", static_tables.curve_table(fits, cells))
    assert all(path.exists() for path in draw_static(tmp_path))
    parts = cells.select("dataset", "noise").unique()
    assert static_table(tmp_path).row_count == len(cells) + 2 * len(
        parts
    )  # with a heading and the simulator each


def test_the_benchmark_of_searches_stands_on_the_rows_of_a_study(study, tmp_path):
    config, rows, _ = study
    options = {
        "scale": "smoke",
        "grid": config.out,
        "cache": config.cache,
        "where": Workers(workers=1),
        "out": tmp_path,
    }
    run_search_bench(SearchBenchConfig(noise=(0.02,), **options))
    (found,) = pl.read_csv(tmp_path / "rows.csv").iter_rows(named=True)
    scores = {}
    for row in rows:
        if (row["kind"], row["noise"]) == ("fit", 0.02):
            scores.setdefault((row["horizon"], row["weights"]), []).append(np.mean(row["r2"]))
    winner = max(scores, key=lambda candidate: np.mean(scores[candidate]))
    assert (found["grid_horizon"], found["grid_weights"]) == winner
    means = {
        name: np.mean(scores[found[f"{name}_horizon"], found[f"{name}_weights"]])
        for name in ("grid", "halving")
    }
    below = (means["grid"] - means["halving"]) / np.std(scores[winner], ddof=1)
    assert found["below_winner"] == pytest.approx(below, abs=1e-5)
    # Of two epochs the shortest rung has one, for all three candidates; what goes on from it is trained in
    # full.
    trained = len(RowLog(tmp_path / "fits.jsonl").read())
    assert trained == 3 * 2
    assert 0.5 < found["cost_of_grid"] < 1.5
    with pytest.raises(InputError, match="lacks 6 of 6 fits of the grid"):
        run_search_bench(SearchBenchConfig(noise=(0.01,), **options))


def test_rows_of_other_episodes_are_refused(study, tmp_path):
    """A dataset that was collected again is another one: its cells are not mixed with the old ones."""
    config, rows, _ = study
    log = RowLog(tmp_path / "fits.jsonl")
    with log.writing():
        for row in rows:
            log.append({name: value for name, value in row.items() if name != "check"} | {"data": "other"})
    with pytest.raises(InputError, match="holds fits to other episodes of cartpole/random"):
        run_static(replace(config, out=tmp_path))


def test_the_sentence_says_what_is_missing(study):
    sentence = static_sentence(study[2] | {"outcomes": {"finished": 3, "failed": 1}})
    assert sentence.startswith("4 rows")
    assert "1 failed" in sentence
    assert "swimmer/random" in sentence  # not collected in this cache


def test_quick_is_less_than_paper_and_smoke_less_than_quick():
    smoke, quick, paper = SIZES["smoke"], SIZES["quick"], SIZES["paper"]
    assert smoke.epochs < quick.epochs < paper.epochs
    assert set(smoke.horizons) < set(quick.horizons) < set(paper.horizons)
