import json
import math
import statistics
from dataclasses import replace

import jax
import numpy as np
import pytest

from multistep.errors import InputError
from multistep.losses import Exponential
from multistep.runs.row_log import RowLog
from multistep.selection.candidates import grid
from multistep.selection.ranked import Ranked, ranked_of
from multistep.selection.search import Halving
from multistep.selection.select import Selection, refit, select
from multistep.training import Outcome


@pytest.fixture(scope="module")
def selected(oscillators, small, tmp_path_factory):
    """A selection of three candidates, of which one cannot be trained: its folder, the candidates, the
    result."""
    out = tmp_path_factory.mktemp("select")
    candidates = [*grid(small, (1, 3), (1.0,)), replace(small, horizon=61)]
    with jax.numpy_dtype_promotion("standard"):
        return out, candidates, select(oscillators, candidates, seed=0, out=out, horizon=20)


def rows_of(out):
    return [json.loads(line) for line in (out / "fits.jsonl").read_text().splitlines()]


def test_the_ranking_is_by_the_mean_over_the_folds(selected):
    out, candidates, selection = selected
    rows = rows_of(out)
    assert len(rows) == 9
    for ranked in selection.ranking[:2]:
        scores = [np.mean(row["r2"]) for row in rows if row["horizon"] == ranked.config.settings.horizon]
        assert ranked.mean == pytest.approx(statistics.mean(scores), abs=1e-6)
        assert ranked.deviation == pytest.approx(statistics.stdev(scores), abs=1e-6)
        assert ranked.problem is None
    means = [ranked.mean for ranked in selection.ranking]
    assert means == sorted(means, reverse=True)
    assert selection.best.config in candidates[:2]
    assert selection.seconds == pytest.approx(sum(row["seconds"] for row in rows))
    assert selection.horizon == 20


def test_a_candidate_that_fails_comes_last_with_its_reason(selected):
    *_, selection = selected
    last = selection.ranking[-1]
    assert last.mean == -math.inf
    assert math.isnan(last.deviation)
    assert last.problem is not None
    assert "shorter than the horizon of 61 steps" in last.problem
    assert last not in selection.as_good


@pytest.mark.slow
def test_the_same_call_runs_nothing_again_and_halving_uses_what_is_there(selected, oscillators):
    out, candidates, selection = selected
    before = (out / "fits.jsonl").read_bytes()
    assert select(oscillators, candidates, seed=0, out=out, horizon=20) == selection
    assert (out / "fits.jsonl").read_bytes() == before
    halved = select(
        oscillators, candidates, seed=0, out=out, horizon=20, search=Halving(factor=2, num_rungs=2)
    )
    assert halved.best in selection.ranking
    assert len(halved.ranking) < 3
    assert all(row["epochs"] == 2 for row in rows_of(out)[9:])


@pytest.mark.slow
def test_failed_fits_are_run_again_if_asked(selected, oscillators, tmp_path):
    """One finished fit is made to look like a failed one: it stays so, until it is asked for again."""
    out, candidates, selection = selected
    rows = [row for row in rows_of(out) if row["epochs"] == 4]
    victim = next(
        number for number, row in enumerate(rows) if row["horizon"] == selection.best.config.settings.horizon
    )
    rows[victim] |= {"outcome": "failed", "reason": "the disk was full"}
    log = RowLog(tmp_path / "fits.jsonl")
    with log.writing():
        for row in rows:
            log.append({name: value for name, value in row.items() if name != "check"})
    kept = select(oscillators, candidates, seed=0, out=tmp_path, horizon=20)
    assert kept.best.config != selection.best.config
    assert "the disk was full" in {ranked.problem for ranked in kept.ranking}
    again = select(oscillators, candidates, seed=0, out=tmp_path, horizon=20, retry_failed=True)
    assert again.best.config == selection.best.config
    assert again.best.scores == pytest.approx(selection.best.scores, abs=1e-6)


def test_refit_trains_on_every_episode(oscillators, small):
    longer = replace(small, horizon=3, weights=Exponential(1.0))
    fitted = refit(oscillators, longer, seed=0)
    assert fitted.outcome is Outcome.FINISHED
    np.testing.assert_allclose(fitted.model.normaliser.state_mean, oscillators.states.mean(axis=0), rtol=1e-6)


def test_mean_and_deviation_of_a_candidate(small):
    rows = [
        {"outcome": "finished", "reason": None, "r2bar": score, "seconds": 1.0} for score in (0.5, 0.6, 0.7)
    ]
    ranked = ranked_of(small, rows)
    assert (ranked.mean, ranked.deviation, ranked.problem) == (pytest.approx(0.6), pytest.approx(0.1), None)
    lost = ranked_of(small, [*rows[:2], {**rows[2], "outcome": "diverged", "reason": "it diverged"}])
    assert lost.scores == (0.5, 0.6, -math.inf)
    assert lost.problem == "it diverged"
    out_of_range = ranked_of(small, [*rows[:2], {**rows[2], "r2bar": "-inf", "reason": "rollouts left"}])
    assert out_of_range.problem == "rollouts left"


def test_who_is_as_good_as_the_best(small):
    ranking = tuple(
        Ranked(small, scores, 1.0, None) for scores in ((0.7, 0.9), (0.7, 0.7), (0.6, 0.6), (0.9, -math.inf))
    )
    selection = Selection(ranking, 20, 4, 4.0)
    assert selection.best is ranking[0]
    assert selection.as_good == ranking[:2]  # the best has 0.8 +- 0.14


def test_three_episodes_are_enough_for_a_refit(oscillators, small):
    assert refit(oscillators.take([0, 1, 2]), small, seed=0).outcome is Outcome.FINISHED


def test_nothing_to_select_from(oscillators, small, tmp_path):
    with pytest.raises(InputError, match="There are no candidates"):
        select(oscillators, [], seed=0, out=tmp_path)
    with pytest.raises(InputError, match="3 folds"):
        select(oscillators.take([0, 1]), [small], seed=0, out=tmp_path)
    with pytest.raises(InputError, match=r"R2bar\(0\) was asked for"):
        select(oscillators, [small], seed=0, out=tmp_path, horizon=0)
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="Cannot write"):
        select(oscillators, [small], seed=0, out=tmp_path / "file")


def test_no_candidate_that_can_be_trained(oscillators, small, tmp_path):
    with pytest.raises(
        InputError, match=r"No candidate has a finite score on all folds.*shorter than the horizon of 61"
    ):
        select(oscillators, [replace(small, horizon=61)], seed=0, out=tmp_path, num_workers=1)
