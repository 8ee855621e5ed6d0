import json

import jax
import numpy as np
import polars as pl
import pytest

import multistep as ms
from multistep.commands.ensemble_options import EnsembleOptions
from multistep.commands.fit import FitFilesConfig, run_fit
from multistep.commands.score import ScoreFilesConfig, run_score
from multistep.commands.source import Source
from multistep.dynamics.ensemble import Averaged
from multistep.errors import InputError
from multistep.report.calibration_figures import draw_calibration
from multistep.report.sentences import interval_sentences
from multistep.runs.workers import Workers
from multistep.training import Once
from systems import oscillator_episodes

FEW = Once(horizon=2, epochs=1, least_steps=40)
ONE_BY_ONE = Workers(workers=1)


@pytest.fixture(scope="module", autouse=True)
def standard_promotion():
    """Adam of optax mixes integer counts with floats."""
    with jax.numpy_dtype_promotion("standard"):
        yield


@pytest.fixture(scope="module")
def runs(tmp_path_factory, standard_promotion):
    folder = tmp_path_factory.mktemp("runs")
    ms.save(oscillator_episodes(24, 40, noise=0.05), folder / "data.npz")
    far = oscillator_episodes(3, 40, noise=0.05, seed=3)
    ms.save(far.with_states(30 * far.states), folder / "far.npz")
    config = FitFilesConfig(
        Source((str(folder / "data.npz"),)),
        split=(12.0, 6.0, 6.0),
        recipe="once",
        training=FEW,
        ensemble=EnsembleOptions(3, where=ONE_BY_ONE),
        score_horizon=10,
        out=folder / "fit",
    )
    return folder, run_fit(config)


@pytest.mark.slow
def test_fit_says_how_many_measurements_its_intervals_held(runs):
    folder, summary = runs
    model = ms.load_model(folder / "fit" / "model.safetensors")
    assert isinstance(model.learned, Averaged)
    assert len(model.learned.members) == 3
    intervals = summary["intervals"]
    assert intervals["calibrated_on_episodes"] == 6
    rows = pl.read_csv(folder / "fit" / "calibration.csv")
    own = rows.filter(pl.col("horizon") == 10)["coverage_90"].mean()
    assert intervals["coverage_90"]["10"] == pytest.approx(own)
    assert 0.75 < own <= 1
    (sentence,) = interval_sentences(summary)
    assert f"{100 * intervals['coverage_50']['1']:.0f} / " in sentence
    assert "NOT calibrated" not in sentence
    assert draw_calibration(folder / "fit").stat().st_size > 10_000


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*outside of the range")
def test_score_names_the_episodes_that_are_unlike_the_training(runs):
    folder, _ = runs
    model = folder / "fit" / "model.safetensors"
    far = run_score(ScoreFilesConfig(model, Source((str(folder / "far.npz"),)), out=folder / "far"))
    assert len(far["unlike_training"]) == 3
    times = [each["times"] for each in far["unlike_training"]]
    assert times == sorted(times, reverse=True)
    assert times[-1] > 1.5
    assert "may be outside" in list(interval_sentences(far))[1]
    same = run_score(ScoreFilesConfig(model, Source((str(folder / "data.npz"),)), out=folder / "same"))
    assert len(same["unlike_training"]) <= 2
    assert np.isfinite(
        json.loads((folder / "same" / "summary.json").read_text())["intervals"]["crps"]["position"]
    )


@pytest.mark.slow
def test_a_model_that_knew_how_sure_it_was_knows_it_after_going_on(runs):
    folder, _ = runs
    config = FitFilesConfig(
        Source((str(folder / "data.npz"),)),
        split=(12.0, 6.0, 6.0),
        from_model=folder / "fit" / "model.safetensors",
        training=FEW,
        score_horizon=10,
        out=folder / "more",
    )
    assert run_fit(config)["intervals"]["calibrated_on_episodes"] == 6


def test_members_are_what_workers_are_for():
    assert EnsembleOptions().around(FEW) is FEW
    for options in (EnsembleOptions(bootstrap=True), EnsembleOptions(where=Workers(workers=2))):
        with pytest.raises(InputError, match="add --members"):
            options.around(FEW)
    with pytest.raises(InputError, match="ensemble of 0 models"):
        EnsembleOptions(0).around(FEW)
    assert EnsembleOptions(5, where=ONE_BY_ONE).around(FEW).where is None
    # The same words every time: a checkpoint goes on with the same recipe only.
    member = EnsembleOptions(5).around(ms.Automatic(without=("small", "calibration"))).recipe
    assert member.without == ("small", "calibration", "cross_fitting")
