"""The rows in `results/` are of jobs that the code asks for: a study goes on from them."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from multistep.runs.provenance import digest
from multistep.runs.row_log import RowLog
from multistep.runs.workers import Workers
from multistep.studies.dynamic import DynamicConfig, run_dynamic
from multistep.studies.likelihood import LikelihoodConfig
from multistep.studies.likelihood import prepare as prepare_likelihood
from multistep.studies.static import StaticConfig, prepare
from multistep.tasks.catalogue import find_dataset

RESULTS = Path(__file__).parents[2] / "results"


@pytest.mark.parametrize(("name", "folder"), [("paper", "static"), ("quick", "static_quick")])
def test_every_fit_of_the_static_study_is_published(name, folder):
    jobs, _ = prepare(
        StaticConfig(scale=name, dataset=("cartpole/random",)), [find_dataset("cartpole/random")]
    )
    rows = RowLog(RESULTS / folder / "fits.jsonl").read()
    # The last digits of a simulation, and with them the name of its episodes, are those of the processor.
    names = {row["noise"]: row["data"] for row in rows if row["dataset"] == "cartpole/random"}
    published = {row["job"] for row in rows}
    for job in jobs:
        assert digest(replace(job, data=names[job.labels()["noise"]])) in published


def test_every_fit_of_the_likelihood_study_is_published():
    jobs, _ = prepare_likelihood(LikelihoodConfig(scale="quick"))
    rows = RowLog(RESULTS / "likelihood" / "fits.jsonl").read()
    names = {row["noise"]: row["data"] for row in rows}  # of the processor that made the episodes
    published = {row["job"] for row in rows}
    for job in jobs:
        name = names[job.fit.names["noise"]]
        assert digest(replace(job, data=name, fit=replace(job.fit, data=name))) in published


def test_the_dynamic_study_is_whole(tmp_path):
    """Whichever betas were chosen: the rows give the same table."""
    shutil.copytree(RESULTS / "dynamic_quick", tmp_path, dirs_exist_ok=True)
    run_dynamic(DynamicConfig(scale="quick", out=tmp_path, where=Workers(workers=1)))
    for name in ("agents.jsonl", "rows.csv"):
        assert (tmp_path / name).read_bytes() == (RESULTS / "dynamic_quick" / name).read_bytes()
