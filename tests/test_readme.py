"""The README's examples, executed as they stand."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import multistep as ms

README = (Path(__file__).parents[1] / "README.md").read_text()
SMALL = ["--network.hidden-size", "16", "--least-steps", "1", "--epochs", "1", "--horizon", "5"]


def blocks(language):
    return re.findall(rf"```{language}\n(.*?)```", README, flags=re.DOTALL)


# Other tests run beside it: two threads on a core that is taken nearly double its time.
ONE_THREAD = "from multistep.runs.process import use_one_thread\nuse_one_thread()\n"
TRUE_PENDULUM = """
import jax.numpy as jnp
from multistep.dynamics import AbstractModel

class Pendulum(AbstractModel):
    def step(self, state, action):
        angle, speed = state
        return jnp.stack([angle + 0.05 * speed, 0.99 * speed - 0.05 * (9.8 * jnp.sin(angle) - action[0])])

print(ms.score(Pendulum(), test, horizon=100).r2bar())
"""


@pytest.mark.slow
def test_the_example_needs_no_data_and_comes_near_the_true_pendulum(tmp_path):
    (example,) = blocks("python")
    program = ONE_THREAD + example + TRUE_PENDULUM
    answer = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    learned, true = map(float, answer.stdout.split())
    assert true - 0.05 < learned < true + 0.05


@pytest.fixture
def logs(tmp_path):
    rng = np.random.default_rng(0)
    for folder in ("logs", "new_logs"):
        for number in range(10):
            steps = rng.standard_normal((41, 2)).cumsum(axis=0)
            episodes = ms.Episodes.of(
                [(steps, rng.standard_normal((40, 1)))], state_names=["x", "theta"], action_names=["u"]
            )
            ms.save(episodes, tmp_path / folder / f"{number}.csv")
    return tmp_path


@pytest.mark.slow
def test_the_commands_run_on_logs_like_those(logs):
    """As written, but for a smaller network, so that it takes seconds."""
    commands = [
        shlex.split(line)
        for block in blocks("sh")
        for line in block.splitlines()
        if line.startswith("multistep ")
    ]
    assert [words[1] for words in commands] == ["inspect", "fit", "score"]
    for words in commands:
        small = SMALL if words[1] == "fit" else []
        subprocess.run([sys.executable, "-m", *words, *small], cwd=logs, check=True, capture_output=True)
    assert (logs / "runs" / "plant" / "model.safetensors").exists()
    assert (logs / "runs" / "check" / "summary.json").exists()


def test_every_make_target_named_is_in_the_makefile():
    makefile = (Path(__file__).parents[1] / "Makefile").read_text()
    contributing = (Path(__file__).parents[1] / "CONTRIBUTING.md").read_text()
    targets = set(re.findall(r"`make ([\w-]+)`|^make ([\w-]+)", README + contributing, flags=re.MULTILINE))
    assert len(targets) > 4
    for target in (inline or line for inline, line in targets):
        assert re.search(rf"^{target}:", makefile, flags=re.MULTILINE), target
