"""Lags and hidden states in every command that makes or takes a model."""

import json
import subprocess
import sys
from dataclasses import replace

import jax
import numpy as np
import polars as pl
import pytest

import multistep as ms
from multistep.commands.agent_plan import PlanConfig, run_plan
from multistep.commands.fit import FitFilesConfig, recipe_of, run_fit
from multistep.commands.memory_options import MemoriesToTry, MemoryOptions
from multistep.commands.select import SelectConfig, candidates_of, run_select
from multistep.commands.source import Source
from multistep.data import Columns
from multistep.dynamics import HiddenState, LaggedConfig, Lags, NoMemory
from multistep.report.sentences import select_sentence, select_table
from multistep.runs.workers import Workers
from multistep.selection.recipes import memory_in, num_past_of, with_memory
from multistep.training import PAPER
from systems import plant_episodes

COLUMNS = Columns(states=("y",), actions=("u",))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Logs of a plant of third order, a very short one, and a model with five lags."""
    folder = tmp_path_factory.mktemp("memory")
    plant = plant_episodes(num=8, steps=40)
    for number in range(len(plant)):
        ms.save(plant.take([number]), folder / "logs" / f"{number}.csv")
    ms.save(plant_episodes(num=1, steps=3, seed=1), folder / "short.csv")
    recipe = with_memory(ms.training.LeastSquares(), Lags(5))
    ms.save_model(ms.fit(plant, plant, recipe, key=jax.random.key(0)).model, folder / "five.safetensors")
    (folder / "rewards.py").write_text("def low(state, action, after):\n    return -(after[0] ** 2)\n")
    return folder


@pytest.fixture
def single_precision():
    with jax.enable_x64(False), jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
        yield


def config(folder, **changes):
    return FitFilesConfig(Source((str(folder / "logs" / "*.csv"),), COLUMNS), **changes)


@pytest.mark.parametrize(
    "changes",
    [{}, {"recipe": "linear"}, {"recipe": "small"}, {"recipe": "smoothed"}, {"training": ms.Once(horizon=7)}],
)
def test_one_lag_is_the_same_recipe_as_none(folder, changes):
    one, none = (recipe_of(config(folder, memory=MemoryOptions(lags=lags), **changes)) for lags in (1, None))
    assert one == none


@pytest.mark.slow
def test_one_lag_gives_the_same_bits_as_none(folder, tmp_path):
    tiny = ms.Once(network=ms.NetworkConfig(hidden_size=4), horizon=2, epochs=1, least_steps=5)
    for name, lags in (("one", 1), ("none", None)):
        with jax.numpy_dtype_promotion("standard"):
            run_fit(config(folder, memory=MemoryOptions(lags=lags), training=tiny, out=tmp_path / name))
    for file in ("model.safetensors", "rows.csv", "free_runs.csv"):
        assert (tmp_path / "one" / file).read_bytes() == (tmp_path / "none" / file).read_bytes()


def test_a_memory_goes_around_the_network_of_any_recipe():
    episodes = plant_episodes(num=1, steps=9)
    for recipe in (
        ms.Once(),
        ms.Smoothed.of(ms.Once()),
        ms.Automatic(),
        ms.training.LeastSquares(),
        ms.training.QuasiNewton(),
        ms.training.Ensemble(ms.Once()),
    ):
        for memory in (Lags(3), HiddenState(2, 4)):
            put = with_memory(recipe, memory)
            assert memory_in(put) == memory
            assert num_past_of(put, episodes) == memory.num_past
        assert with_memory(recipe, NoMemory()) is recipe
        assert (memory_in(recipe), num_past_of(recipe, episodes)) == (NoMemory(), 1)
    own = ms.Once(network=LaggedConfig(6))  # however it got there
    assert (memory_in(own), num_past_of(own, episodes)) == (Lags(6), 6)


def test_every_memory_is_tried_with_every_other_option(folder):
    source = Source((str(folder / "logs" / "*.csv"),), COLUMNS)
    options = {"horizons": (2,), "betas": (), "vary": ("epochs=1,2",)}
    found = candidates_of(SelectConfig(source, memory=MemoriesToTry(lags=(1, 3)), **options))
    assert [memory_in(each) for each in found] == [NoMemory(), Lags(3)] * 2
    assert found[::2] == candidates_of(SelectConfig(source, **options))
    assert MemoriesToTry((4, 5), (2,)).memories == [HiddenState(2, 4), HiddenState(2, 5)]
    assert MemoriesToTry(hidden=(2,)).memories == [HiddenState(2, 10)]
    with pytest.raises(ms.InputError, match="Batch norm and dropout are for models of measured states"):
        with_memory(PAPER, Lags(2))


@pytest.mark.slow
def test_the_lags_of_the_plant_are_selected(folder, tmp_path):
    summary = run_select(
        SelectConfig(
            Source((str(folder / "logs" / "*.csv"),), COLUMNS),
            recipe="linear",
            memory=MemoriesToTry(lags=(1, 3)),
            folds=2,
            where=Workers(workers=1),
            out=tmp_path,
        )
    )
    assert summary["best"]["memory"] == "3 lags"
    assert summary["best"]["mean"] > 0.999
    assert ms.load_model(tmp_path / "model.safetensors").num_past == 3
    assert pl.read_csv(tmp_path / "rows.csv")["memory"].to_list() == ["3 lags", "no memory"]
    rows = [json.loads(line) for line in (tmp_path / "fits.jsonl").read_text().splitlines()]
    assert {row["outcome"] for row in rows} == {"finished"}
    assert len({len(row["r2"]) for row in rows}) == 1  # all are scored as far ahead
    assert ", 3 lags has the highest mean R2bar(" in select_sentence(summary)
    assert [column.header for column in select_table(tmp_path).columns][2] == "memory"


def test_a_plan_starts_from_the_first_episode_that_is_long_enough(
    folder, tmp_path, monkeypatch, single_precision
):
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, "path", [*sys.path, str(folder)])
    run_plan(
        PlanConfig(
            (folder / "five.safetensors",),
            (str(folder / "short.csv"), str(folder / "logs" / "0.csv")),
            columns=COLUMNS,
            reward="rewards:low",
            margin=5.0,
            planner="random",
            num_sequences=20,
            plan_horizon=3,
            steps=4,
            out=tmp_path / "plan",
        )
    )
    rows = pl.read_csv(tmp_path / "plan" / "rows.csv")
    episode, model = plant_episodes(num=8, steps=40)[0], ms.load_model(folder / "five.safetensors")
    expected = model.rollout(episode.states[:5], episode.actions[:4], rows.select("u").to_numpy())
    np.testing.assert_allclose(rows["y"], [episode.states[4, 0], *expected[:-1, 0]], rtol=1e-5)


def test_the_environment_carries_the_lags(folder, single_precision):
    model, plant = ms.load_model(folder / "five.safetensors"), plant_episodes(num=8, steps=40)
    start = ms.Episodes.of([(plant[0].states[:6], plant[0].actions[:5])])
    start = replace(start, state_names=("y",), action_names=("u",))
    env = ms.ModelEnv(model, lambda state, action, after: after[0], start, num_envs=1, margin=100.0)
    first, _ = env.reset(seed=1)
    (place,) = np.flatnonzero(start.states[4:, 0].astype(np.float32) == first[0].astype(np.float32)) + 4
    actions = np.linspace(-0.5, 0.5, 6, dtype=np.float32)[:, None]
    states = np.stack([env.step(action[None])[0][0] for action in actions])
    expected = model.rollout(start.states[place - 4 : place + 1], start.actions[place - 4 : place], actions)
    np.testing.assert_allclose(states, expected, rtol=1e-4)


LOGS = "logs/*.csv --states y --actions u"
PLAN = "agent plan five.safetensors --reward rewards:low --num-sequences 5 --plan-horizon 2"
REFUSED = {
    f"fit {LOGS} --lags 60": "The model starts from 60 samples, but the longest validation episode has 41",
    f"fit {LOGS} --cut 5 --hidden 3": "starts from 10 samples, but the longest validation episode has 6: ask",
    f"fit {LOGS} --test short.csv --lags 6": "starts from 6 samples, but the longest test episode has 4",
    f"fit {LOGS} --lags 0": "0 lags: give the number of outputs to remember, 1 or more",
    f"fit {LOGS} --hidden 0": "A hidden state of 0 numbers, read from 10 outputs: both must be 1 or more",
    f"select {LOGS} --lags 1 60": "A candidate starts from 60 samples, and the test episodes of a fold have",
    f"select {LOGS} --lags auto": "--lags auto belongs to the automatic recipe",
    "score five.safetensors short.csv": "starts from 5 samples, and the longest of these episodes has 4,",
    "score five.safetensors logs/0.csv --filtered": "--filtered takes a model of one state",
    f"{PLAN} --starts logs/0.csv --state 1": "The model starts from 5 states: leave out --state",
    f"{PLAN} --starts short.csv": "starts from 5 states, which no episode of the data has: give longer ones",
}
PROGRAM = """
import json, sys
from multistep.cli import main
for words in json.loads(sys.argv[1]):
    print("#", file=sys.stderr)
    try:
        main([*words.split(), "--out", "nothing"])
    except SystemExit as end:
        print(end.code)
"""


@pytest.mark.slow
def test_what_a_memory_cannot_do_is_said_in_a_sentence(folder):
    answer = subprocess.run(
        [sys.executable, "-c", PROGRAM, json.dumps(list(REFUSED))], cwd=folder, capture_output=True, text=True
    )
    assert answer.stdout.split() == ["2"] * len(REFUSED)
    _, *said = answer.stderr.split("#\n")
    for words, sentence, expected in zip(REFUSED, said, REFUSED.values(), strict=True):
        assert expected in sentence, f"{words}: {sentence}"
        (last,) = [line for line in sentence.splitlines() if line.startswith("multistep: ")]
        assert last.endswith(".")
        assert "Traceback" not in sentence
    assert not (folder / "nothing").exists()


def test_a_rollout_from_a_single_state_is_refused(folder):
    model = ms.load_model(folder / "five.safetensors")
    with pytest.raises(ms.InputError, match="start from 5 states and the 4 actions between them"):
        model.rollout(np.zeros((1, 1)), np.zeros((0, 1)), np.zeros((3, 1)))


def test_a_rollout_as_from_one_state_says_how_to_call_it(folder):
    model = ms.load_model(folder / "five.safetensors")
    with pytest.raises(ms.InputError, match=r"the 4 actions .* rollout\(past_states, past_actions, act"):
        model.rollout(np.zeros(1), np.zeros((3, 1)))
