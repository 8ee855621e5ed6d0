"""A stranger's dynamics, loss, weights, curriculum and recipe: the page on extending, executed."""

import re
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import multistep as ms
from systems import oscillator_episodes

PAGE = (Path(__file__).parents[1] / "docs" / "extending.md").read_text()
MINE, USE = re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)
(COMMANDS,) = re.findall(r"```sh\n(.*?)```", PAGE, flags=re.DOTALL)
REWARD = "def stay(state, action, next_state):\n    return -(next_state ** 2).sum()\n"


@pytest.fixture
def folder(tmp_path):
    """The files of the page, and logs like those that it reads."""
    (tmp_path / "mine.py").write_text(MINE)
    (tmp_path / "mine_reward.py").write_text(REWARD)
    plant = oscillator_episodes(20, 80)
    for number in range(len(plant)):
        episode = ms.Episodes.of([plant[number][:2]], state_names=["x", "v"], action_names=["u"])
        ms.save(episode, tmp_path / "logs" / f"{number}.csv")
    return tmp_path


@pytest.fixture
def mine(folder, monkeypatch):
    """The stranger's module, imported."""
    monkeypatch.syspath_prepend(folder)
    sys.modules.pop("mine", None)
    import mine

    with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
        yield mine
    del sys.modules["mine"]


def small(mine, network, **changes):
    own = {"loss": mine.Absolute(), "weights": mine.Ramp(0.5), "curriculum": mine.Doubling()}
    sizes = {"horizon": 8, "epochs": 5, "batch_size": 16, "learning_rate": 0.01}
    return ms.Once(network=network, **own | sizes | changes)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["GRU", "TwoLags"])
def test_a_strangers_dynamics_is_fitted_scored_saved_and_acted_in(mine, tmp_path, name):
    train, valid, test = (oscillator_episodes(n, 80, seed=seed) for seed, n in enumerate((12, 2, 4)))
    fit = ms.fit(train, valid, small(mine, getattr(mine, name)()), key=jax.random.key(0))
    assert [len(epoch.errors) for epoch in fit.history] == [1, 2, 4, 8, 8]
    np.testing.assert_allclose(fit.history[2].weights, np.sqrt(range(1, 5)) / np.sqrt(range(1, 5)).sum())
    scores = ms.score(fit.model, test, horizon=20)
    assert scores.r2bar() > 0.9
    past = fit.model.num_past
    assert list(scores.num_rollouts) == [4 * (80 - h + 1 - (past - 1)) for h in range(1, 21)]
    ms.save_model(fit.model, tmp_path / "model.safetensors")
    back = ms.load_model(tmp_path / "model.safetensors")
    assert eqx.tree_equal(back, fit.model)
    first = test[0]
    ahead = first.states[:past], first.actions[: past - 1], first.actions[past - 1 : past + 9]
    states = back.rollout(*ahead)
    assert np.abs(states - first.states[past : past + 10]).max() < 0.5
    env = ms.ModelEnv(
        back, lambda state, action, after: -(after**2).sum(), train, num_envs=6, rollout_steps=4
    )
    env.reset(seed=0)
    for _ in range(6):
        seen, rewards, *_ = env.step(env.action_space.sample())
    assert seen.shape == (6, 2)
    assert (rewards <= 0).all()
    planner = ms.agents.CrossEntropy(env.imagination, num_sequences=20, horizon=5, num_elites=5)
    observed = ms.data.Past(*(jnp.asarray(values) for values in ahead[:2]))
    action, _ = ms.agents.decide(planner, observed, planner.start(), jax.random.key(0))
    assert action.shape == (1,)
    with pytest.raises(ms.InputError, match=f"starts from {past} states"):
        ms.agents.decide(planner, observed.states[-1], planner.start(), jax.random.key(0))


def test_rollouts_with_memory_are_the_models_own(mine):
    """The environment carries the memory: its states are those of one long rollout."""
    train = oscillator_episodes(6, 40)
    model = ms.fit(train, train, small(mine, mine.TwoLags(), epochs=3), key=jax.random.key(0)).model
    start = ms.Episodes.of([(train[0].states[:3], train[0].actions[:2])])
    env = ms.ModelEnv(model, lambda state, action, after: after[0], start, num_envs=1, margin=100.0)
    actions = np.linspace(-1, 1, 7, dtype=np.float32)[:, None]
    first, _ = env.reset(seed=3)
    (place,) = np.flatnonzero((train[0].states[1:3] == first[0]).all(axis=1)) + 1
    states = np.stack([env.step(action[None])[0][0] for action in actions])
    expected = model.rollout(
        train[0].states[place - 1 : place + 1], train[0].actions[place - 1 : place], actions
    )
    np.testing.assert_allclose(states, expected, rtol=1e-5)


@pytest.mark.slow
def test_a_strangers_recipe_is_selected(mine, tmp_path):
    episodes = oscillator_episodes(6, 40, noise=0.01)
    recipes = [mine.Averaged(small(mine, mine.TwoLags(), epochs=epochs)) for epochs in (1, 4)]
    found = ms.select(episodes, recipes, seed=0, out=tmp_path, num_folds=2, horizon=10, num_workers=1)
    assert found.best.config == recipes[1]
    assert found.best.problem is None
    fit = ms.refit(episodes, found.best.config, seed=0, horizon=10)
    assert set(fit.parts) == {"first", "second"}
    halves = [part.model.learned.weight for part in fit.parts.values()]
    np.testing.assert_allclose(fit.model.learned.weight, (halves[0] + halves[1]) / 2, rtol=1e-6)


@pytest.mark.slow
def test_the_program_of_the_page_killed_and_resumed_ends_with_the_same_bits(folder):
    def command(name):
        program = USE.replace("lagged.", f"{name}.").replace("epochs=6", "epochs=60")
        return [sys.executable, "-c", program]

    process = subprocess.Popen(command("killed"), cwd=folder)
    while process.poll() is None and not (folder / "killed.first").exists():
        time.sleep(0.01)
    time.sleep(0.3)
    assert process.poll() is None, "the fit was over before it could be killed"
    process.send_signal(signal.SIGKILL)
    process.wait()
    for name in ("killed", "whole"):
        answer = subprocess.run(command(name), cwd=folder, check=True, capture_output=True, text=True)
        assert float(answer.stdout) > 0.9
    assert (folder / "killed.safetensors").read_bytes() == (folder / "whole.safetensors").read_bytes()


@pytest.mark.slow
def test_the_commands_of_the_page(folder):
    answers = {}
    for line in COMMANDS.splitlines():
        words = shlex.split(line)
        answers[words[1]] = run(words, folder)
    assert "of the variance one step ahead" in answers["fit"].stdout
    assert "4 candidates" in answers["select"].stdout
    assert "mine:Ramp:power=2" in answers["select"].stdout
    assert (folder / "runs" / "plan" / "plan.png").exists()
    score = shlex.split(COMMANDS.splitlines()[1])
    at = score.index("--kind")
    refused = run([*score[:at], *score[at + 2 :]], folder, code=2)
    assert "is of the kind mine:GRU, which is not one of multistep's" in refused.stderr
    assert "Traceback" not in refused.stderr


@pytest.mark.parametrize(
    ("option", "value", "words"),
    [
        ("--loss", "mine:Nothing", "The module mine has no loss Nothing"),
        ("--loss", "mine:Ramp", "is a Ramp, not a AbstractLoss"),
        ("--weights", "nowhere:Ramp", "The module nowhere of the weights"),
        (
            "--recipe",
            "twice",
            "There is no recipe 'twice': write automatic, once, smoothed, linear, small, aggregated, "
            "validated, or module:Name",
        ),
        ("--architecture", "mine:GRU:depth=3", "cannot be made"),
    ],
)
def test_what_cannot_be_found_gets_a_sentence(folder, option, value, words):
    command = ["multistep", "fit", "logs/*.csv", "--states", "x", "v", "--actions", "u", option, value]
    refused = run(command, folder, code=2)
    assert words in " ".join(refused.stderr.replace("│", " ").split())
    assert "Traceback" not in refused.stderr
    assert not (folder / "runs").exists()


def run(words, folder, code=0):
    answer = subprocess.run([sys.executable, "-m", *words], cwd=folder, capture_output=True, text=True)
    assert answer.returncode == code, answer.stderr[-2000:]
    return answer
