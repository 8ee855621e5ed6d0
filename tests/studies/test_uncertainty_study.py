import numpy as np
import polars as pl
import pytest

from multistep.errors import InputError
from multistep.report.uncertainty_figures import draw_uncertainty, uncertainty_sentence, uncertainty_table
from multistep.runs.row_log import RowLog
from multistep.studies.uncertainty import WAYS, UncertaintyConfig, run_uncertainty, table_of


def way(coverage, crps=0.1):
    held = {"1": coverage, "10": coverage}
    half = {"1": coverage - 0.4, "10": coverage - 0.4}
    return {"coverage_90": held, "coverage_50": half, "crps": crps, "r2bar": 0.9, "log_likelihood": 1.0}


def row(fold, **ways):
    return {"dataset": "cartpole/random", "noise": 0.01, "fold": fold, "outcome": "finished", "ways": ways}


def test_the_table_is_the_mean_over_the_splits():
    rows = [row(0, scaled=way(0.9), fixed=way(0.7)), row(1, scaled=way(0.8, 0.3), fixed=way(0.7))]
    fixed, scaled = table_of(rows)
    assert (fixed["way"], scaled["way"], scaled["splits"]) == ("fixed", "scaled", 2)
    assert scaled["coverage_90_at_10"] == pytest.approx(0.85)
    assert scaled["crps"] == pytest.approx(0.2)


def test_unknown_datasets_are_refused(tmp_path):
    with pytest.raises(InputError, match="no dataset nowhere"):
        run_uncertainty(UncertaintyConfig(dataset=("nowhere",), out=tmp_path / "study"))
    assert not (tmp_path / "study").exists()


@pytest.mark.slow
def test_the_study_runs_and_goes_on(tmp_path):
    config = UncertaintyConfig(noise=(0.02,), out=tmp_path)
    summary = run_uncertainty(config)
    (only,) = RowLog(tmp_path / "fits.jsonl").read()
    assert set(only["ways"]) == set(WAYS)
    # One network has no members to disagree, and takes its start for exact: next to nothing is within.
    assert only["ways"]["ensemble"]["coverage_90"]["1"] < 0.1
    assert 0.3 < only["ways"]["scaled"]["coverage_90"]["1"] <= 1
    assert summary["cells"] == 1
    table = pl.read_csv(tmp_path / "rows.csv")
    assert table["way"].to_list() == list(WAYS)
    assert np.isfinite(table["crps"].to_numpy()).all()
    assert run_uncertainty(config) == summary
    assert "Of 1 cells" in uncertainty_sentence(summary)
    assert uncertainty_table(tmp_path).row_count == len(WAYS) + 1
    text, figure = draw_uncertainty(tmp_path)
    assert text.read_text().count("cartpole/random") == len(WAYS)
    assert figure.stat().st_size > 10_000
