"""`multistep agent` in small: a tiny model of a few Cartpole steps, an agent of a few hundred steps in it."""

import json
import sys
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import polars as pl
import pytest

from multistep.agents.acting import act
from multistep.agents.observing import Filtered
from multistep.agents.planners import PolicyGuided
from multistep.agents.policy import policy_of
from multistep.commands.agent_evaluate import EvaluateConfig, run_evaluate
from multistep.commands.agent_plan import PlanConfig, run_plan
from multistep.commands.agent_train import TrainConfig, run_train
from multistep.data import add_noise, load, save
from multistep.dynamics import NetworkConfig, load_model, save_model
from multistep.errors import InputError
from multistep.evaluation import R2Bar
from multistep.report.agent_figures import (
    draw_learning,
    draw_plan,
    evaluate_sentence,
    plan_sentence,
    train_sentence,
)
from multistep.runs.workers import Workers
from multistep.selection.fit import fit
from multistep.tasks import CARTPOLE, SWIMMER
from multistep.training import Once, fit_observer

# Of torch, flax and what they import.
pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning"),
]
SMALL = {"num_sequences": 10, "plan_horizon": 2}


@pytest.fixture(autouse=True)
def single_precision():
    with jax.enable_x64(False), jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
        yield


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Episodes, a model of them, and an agent in it."""
    path = tmp_path_factory.mktemp("agent")
    with jax.enable_x64(False), jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
        episodes = CARTPOLE.collect_random(3, key=jax.random.key(0), num_steps=60)
        config = Once(network=NetworkConfig(hidden_size=16), horizon=2, epochs=2, least_steps=20)
        save(episodes, path / "episodes.npz")
        save_model(
            fit(episodes, episodes, config, key=jax.random.key(0), score=R2Bar(10)).model,
            path / "model.safetensors",
        )
        run_train(_train(path))
    return path


def _train(path):
    return TrainConfig(
        (path / "model.safetensors",),
        (str(path / "episodes.npz"),),
        task="cartpole",
        steps=200,
        num_envs=20,
        rollout_steps=5,
        out=path / "agent",
    )


def _plan(path, **options):
    model, starts = (path / "model.safetensors",), (str(path / "episodes.npz"),)
    return PlanConfig(
        model, starts, **({"task": "cartpole", "steps": 4, "out": path / "plan"} | SMALL | options)
    )


def _evaluate(path, **options):
    model, starts = (path / "model.safetensors",), (str(path / "episodes.npz"),)
    given = {
        "task": "cartpole",
        "episodes": 2,
        "steps": 8,
        "noise": 0.01,
        "where": Workers(workers=1),
        "out": path / "evaluate",
    }
    return EvaluateConfig(
        model, starts, **(given | {"agent": path / "agent" / "agent.zip"} | SMALL | options)
    )


def test_training_leaves_an_agent_that_sbx_loads(folder):
    from sbx import SAC

    assert SAC.load(folder / "agent" / "agent.zip").num_timesteps == 200
    again = run_train(_train(folder))  # all of it is done
    assert again["steps"] == 200
    assert np.isfinite(again["rollout_return"])
    assert pl.read_csv(folder / "agent" / "rows.csv")["steps"].to_list() == [200]
    assert "SAC took 200 steps in the model" in train_sentence(again)
    assert draw_learning(folder / "agent").exists()
    with pytest.raises(InputError, match="trained on another model or with other settings"):
        run_train(replace(_train(folder), seed=1))
    assert json.loads((folder / "agent" / "config.json").read_text())["config"]["seed"] == 0


@pytest.mark.parametrize("planner", ["cem", "random", "guided"])
def test_a_plan_is_an_episode_of_the_model(folder, planner):
    agent = folder / "agent" / "agent.zip" if planner == "guided" else None
    summary = run_plan(_plan(folder, planner=planner, agent=agent))
    rows = pl.read_csv(folder / "plan" / "rows.csv")
    states, actions = (
        rows.select(CARTPOLE.state_names).to_numpy(),
        rows.select(CARTPOLE.action_names).to_numpy(),
    )
    start, model = jnp.asarray(states[0], float), load_model(folder / "model.safetensors")
    predicted = model.rollout(start, jnp.asarray(actions, float))
    np.testing.assert_allclose(states[1:], predicted[:3], atol=1e-5)
    before = jnp.concatenate([start[None], predicted[:-1]])
    rewards = jax.vmap(CARTPOLE.reward)(before, jnp.asarray(actions, float), predicted)
    np.testing.assert_allclose(rows["reward"], rewards, atol=1e-5)
    assert summary["return"] == pytest.approx(float(rewards.sum()), abs=1e-4)
    assert "Over 4 steps in the model the plan earns" in plan_sentence(summary)
    assert draw_plan(folder / "plan").exists()


def test_evaluation_is_acting_in_the_real_environment(folder):
    from sbx import SAC

    from multistep.agents.imagination import imagine

    summary = run_evaluate(_evaluate(folder))
    rows = pl.read_csv(folder / "evaluate" / "rows.csv")
    starts = load(folder / "episodes.npz")
    imagination = imagine(load_model(folder / "model.safetensors"), CARTPOLE.reward, starts)
    planner = PolicyGuided(imagination, policy_of(SAC.load(folder / "agent" / "agent.zip")), 10, 2)
    deviation = 0.01 * np.ptp(starts.states, axis=0).astype(float)
    expected = [act(planner, CARTPOLE, seed=seed, noise=deviation, num_steps=8).total for seed in (0, 1)]
    np.testing.assert_allclose(rows["return"], expected, rtol=1e-4)
    assert summary["return_mean"] == pytest.approx(np.mean(expected), rel=1e-4)
    half = 12.706 * np.std(expected, ddof=1) / np.sqrt(2)  # Student's quantile of one degree of freedom
    assert summary["return_high"] == pytest.approx(np.mean(expected) + half, rel=1e-3)
    assert np.shape(summary["poses"]) == (10, 4)
    assert "over 2 episodes of cartpole that are seen with 1.0% noise" in evaluate_sentence(summary)


def test_with_a_filter_the_planner_decides_behind_an_observer(folder):
    from sbx import SAC

    from multistep.agents.imagination import imagine

    run_evaluate(_evaluate(folder, episodes=1, steps=40, noise=0.2, filter=True, out=folder / "filtered"))
    (found,) = pl.read_csv(folder / "filtered" / "rows.csv")["return"]
    starts, model = load(folder / "episodes.npz"), load_model(folder / "model.safetensors")
    planner = PolicyGuided(
        imagine(model, CARTPOLE.reward, starts), policy_of(SAC.load(folder / "agent" / "agent.zip")), 10, 2
    )
    observer = fit_observer(model, add_noise(starts, 0.2, key=jax.random.key(0)))
    deviation = 0.2 * np.ptp(starts.states, axis=0).astype(float)
    expected, unfiltered = (
        act(behind, CARTPOLE, seed=0, noise=deviation, num_steps=40).total
        for behind in (Filtered(planner, observer, 1), planner)
    )
    assert found == pytest.approx(expected, rel=1e-4)
    assert found != pytest.approx(unfiltered, rel=1e-3)
    with pytest.raises(InputError, match="holds what 'multistep agent train' has left"):
        run_plan(_plan(folder, out=folder / "agent"))


def test_own_rewards_by_name(folder, tmp_path, monkeypatch):
    (tmp_path / "own_rewards.py").write_text(
        "def upright(state, action, next_state):\n    return next_state[1]\n"
        "def many(state, action, next_state):\n    return next_state\n"
        "def nothing(state, action, next_state):\n    return 0.0 * next_state[0] / (next_state[0] - "
        "next_state[0])\n"
    )
    (tmp_path / "broken_rewards.py").write_text("import nowhere_to_be_found\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    summary = run_plan(_plan(folder, task=None, reward="own_rewards:upright"))
    rows = pl.read_csv(folder / "plan" / "rows.csv")
    np.testing.assert_allclose(rows["reward"][:-1], rows["cos_theta"][1:], atol=1e-6)
    assert summary["return"] == pytest.approx(rows["reward"].sum(), abs=1e-5)
    for name, message in {
        "own_rewards:many": r"many must return one number .*, but returned \(5,\)",
        "own_rewards:nothing": "nothing is nan at step 1 of the data",
        "own_rewards:missing": "The module own_rewards has no reward missing",
        "broken_rewards:any": "broken_rewards:any cannot be imported: No module named 'nowhere",
        "upright": "is not of the form module:name",
    }.items():
        with pytest.raises(InputError, match=message):
            run_plan(_plan(folder, task=None, reward=name))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"task": None}, "There is nothing to earn"),
        ({"task": "swimmer"}, r"has 5 state dimensions \(.*\), the task swimmer 8"),
        ({"state": (1.0, 2.0)}, "The state has 2 numbers, the model 5"),
        ({"steps": 0}, "plan at least 1"),
        ({"num_sequences": 0}, "give at least 1 of each"),
        ({"seed": -1}, "The seed is -1: it must be from 0 to 4294967295"),
        ({"seed": 2**32}, "it must be from 0 to 4294967295"),
        ({"state": (100.0, 1.0, 0.0, 0.0, 0.0)}, "The state has x = 100, but the model is rolled out within"),
        ({"state": (float("nan"), 1.0, 0.0, 0.0, 0.0)}, "The state has x = nan"),
        ({"action_low": (-0.5,)}, "give both --action-low and --action-high"),
        ({"planner": "guided"}, "The guided planner needs an agent"),
    ],
)
def test_what_cannot_be_planned_is_said_in_a_sentence(folder, options, message):
    with pytest.raises(InputError, match=message):
        run_plan(_plan(folder, **options))


def test_actions_are_planned_within_the_range_that_is_asked_for(folder):
    run_plan(_plan(folder, planner="random", action_low=(0.2,), action_high=(0.3,)))
    assert pl.read_csv(folder / "plan" / "rows.csv")[CARTPOLE.action_names[0]].is_between(0.2, 0.3).all()


def test_a_model_with_the_tasks_actions_in_another_order_is_refused(tmp_path):
    episodes = SWIMMER.collect_random(3, key=jax.random.key(0), num_steps=20)
    turned = replace(episodes, actions=episodes.actions[:, ::-1], action_names=episodes.action_names[::-1])
    config = Once(network=NetworkConfig(hidden_size=8), horizon=1, epochs=1, least_steps=1)
    save(turned, tmp_path / "episodes.npz")
    save_model(
        fit(turned, turned, config, key=jax.random.key(0), score=R2Bar(5)).model,
        tmp_path / "model.safetensors",
    )
    with pytest.raises(InputError, match=r"action dimensions .* swimmer has them in another order"):
        run_plan(_plan(tmp_path, task="swimmer"))


def test_an_agent_of_another_model_is_refused(folder, tmp_path):
    model = load_model(folder / "model.safetensors")
    other = jax.tree.map(lambda leaf: leaf * 1.01 if isinstance(leaf, jax.Array) else leaf, model)
    save_model(other, tmp_path / "other.safetensors")
    with pytest.raises(
        InputError, match=r"agent.zip was trained in another model: name the model that it was trained in"
    ):
        run_plan(
            replace(
                _plan(folder, agent=folder / "agent" / "agent.zip"), model=(tmp_path / "other.safetensors",)
            )
        )
    with pytest.raises(InputError, match=r"There is no file .*missing.zip"):
        run_plan(_plan(folder, agent=tmp_path / "missing.zip"))
    (tmp_path / "agent.json").write_text("{")
    for name in ("agent.zip", "agent.safetensors"):
        (tmp_path / name).write_bytes((folder / "agent" / name).read_bytes())
    with pytest.raises(InputError, match=r"agent.json is damaged: delete it"):
        run_plan(_plan(folder, agent=tmp_path / "agent.zip"))
    (tmp_path / "agent.json").unlink()
    volts = load(folder / "episodes.npz")
    save(replace(volts, actions=5 * volts.actions), tmp_path / "volts.npz")
    with pytest.raises(InputError, match="have another range than the data's: name its own --starts"):
        run_plan(replace(_plan(folder, agent=tmp_path / "agent.zip"), starts=(str(tmp_path / "volts.npz"),)))
    with pytest.raises(InputError, match=r"episodes.npz is not an agent that sbx can load"):
        run_plan(_plan(folder, agent=folder / "episodes.npz"))
    for options in ({"steps": 0}, {"steps": 1001}, {"episodes": 0}):
        with pytest.raises(InputError, match="Act at least 1 episode, of 1 to 1000 steps"):
            run_evaluate(_evaluate(folder, **options))
    with pytest.raises(InputError, match="The noise is nan"):
        run_evaluate(_evaluate(folder, noise=float("nan")))
    with pytest.raises(InputError, match="Evaluating needs an environment to act in"):
        run_evaluate(_evaluate(folder, task=None, reward="own_rewards:upright"))
