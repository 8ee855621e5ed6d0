"""The commands in the documents, executed as they stand on files like those."""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import jax
import numpy as np
import pytest
import tyro

import multistep as ms
from multistep.cli import _defaults
from multistep.commands.fit import FitFilesConfig, recipe_of
from multistep.dynamics import DirectConfig
from multistep.losses import HallucinatedReplay, Noisy, ScheduledSampling
from multistep.options import REGISTRY
from multistep.selection.validated import Validated
from multistep.training import Aggregated, Scheduled, Steady
from systems import oscillator_episodes, plant_episodes

DOCS = Path(__file__).parents[1] / "docs"


def commands(page):
    blocks = re.findall(r"```sh\n(.*?)```", (DOCS / page).read_text(), flags=re.DOTALL)
    return [shlex.split(line) for block in blocks for line in block.splitlines()]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("MULTISTEP_DATASETS", str(tmp_path / "cache"))
    (tmp_path / "logs").mkdir()
    header = "run,t,x,theta,u\n"
    for name in ("logs/a", "logs/b", "plant"):
        rows = (f"{t // 10},{t},{np.sin(t)},{np.cos(t)},{t % 3}\n" for t in range(40))
        (tmp_path / f"{name}.csv").write_text(header + "".join(rows))
    (tmp_path / "two.csv").write_text(
        "u1,u2,y1,y2,Ts,\n" + "".join(f"{t},{-t},{t % 5},{t % 7},,\n" for t in range(40))
    )
    return tmp_path


@pytest.mark.slow
def test_the_commands_of_the_page_on_data(folder):
    page = commands("data.md")
    assert len(page) == 7
    for words in page:
        subprocess.run([sys.executable, "-m", *words], cwd=folder, check=True, capture_output=True)
    clean, noisy = (ms.load(folder / name) for name in ("plant.parquet", "noisy.hdf5"))
    assert len(clean) == len(noisy) == 4
    np.testing.assert_array_equal(clean.actions, noisy.actions)
    assert (clean.states != noisy.states).all()


def test_the_program_of_the_page_on_data(folder, monkeypatch, capsys):
    (block,) = python_blocks("data.md")
    monkeypatch.chdir(folder)
    exec(block, {})
    expected = [np.std(np.cos(np.arange(10 * run, 10 * run + 10)), ddof=1) for run in range(4)]
    shown = re.findall(r"^\d +([\d.]+)$", capsys.readouterr().out, flags=re.MULTILINE)
    np.testing.assert_allclose(np.array(shown, float), expected, atol=1e-6)


@pytest.mark.slow
def test_the_page_on_smoothing(tmp_path):
    """The command with a smaller training, the Python as it stands; on a plant whose noise is known."""
    for folder, noise in (("logs", 0.05), ("truth", 0)):
        plant = replace(
            oscillator_episodes(12, 60, noise=noise), state_names=("x", "theta"), action_names=("u",)
        )
        for number in range(len(plant)):
            ms.save(plant.take([number]), tmp_path / folder / f"{number}.csv")
    (words,) = commands("smoothing.md")
    small = ["--network.hidden-size", "32", "--horizon", "10", "--least-steps", "500"]
    answer = subprocess.run(
        [sys.executable, "-m", *words, *small], cwd=tmp_path, check=True, capture_output=True, text=True
    )
    summary = json.loads((tmp_path / "runs" / "smoothed" / "summary.json").read_text())
    assert (
        f"noise found on the measured states: x {summary['measurement_noise']['x']:.3g}, theta"
        in answer.stdout
    )
    (block,) = re.findall(r"```python\n(.*?)```", (DOCS / "smoothing.md").read_text(), flags=re.DOTALL)
    block += (
        "\ntruth = ms.load('truth/*.csv', states=['x', 'theta'], actions=['u'])"
        "\ntruth = ms.split(truth, (0.7, 0.1, 0.2), key=jax.random.key(0))[2].states"
        "\nprint(*noise, *((states - truth).std() for states in (smoothed.states, test.states)))"
    )
    answer = subprocess.run(
        [sys.executable, "-c", block], cwd=tmp_path, check=True, capture_output=True, text=True
    )
    *noise, left, measured = map(float, answer.stdout.split())
    np.testing.assert_allclose([list(summary["measurement_noise"].values()), noise], 0.05, rtol=0.3)
    assert left < 0.7 * measured


@pytest.mark.slow
def test_the_page_on_the_automatic_recipe(tmp_path):
    """The command with a budget of a few seconds, the Python as it stands."""
    plant = replace(oscillator_episodes(12, 60, noise=0.05), state_names=("x", "theta"), action_names=("u",))
    for number in range(len(plant)):
        ms.save(plant.take([number]), tmp_path / "logs" / f"{number}.csv")
    words, again = commands("automatic.md")
    words[words.index("--budget") + 1] = "100k"
    answer = subprocess.run(
        [sys.executable, "-m", *words, "--without", "cross_fitting"],
        cwd=tmp_path,
        check=True,
        capture_output=True,
        text=True,
    )
    summary = json.loads((tmp_path / "runs" / "automatic" / "summary.json").read_text())
    shown = " ".join(answer.stdout.split())
    assert all(" ".join(note.split()) in shown for note in summary["notes"])
    assert set(summary["parts"]) == {"linear", "small", "first", "second"}
    for number in range(6):
        ms.save(plant.take([number]), tmp_path / "new" / f"{number}.csv")
    quick = ["--horizon", "5", "--epochs", "1", "--least-steps", "50"]
    answer = subprocess.run(
        [sys.executable, "-m", *again, *quick], cwd=tmp_path, check=True, capture_output=True, text=True
    )
    assert "Went on from runs/automatic/model.safetensors" in " ".join(answer.stdout.split())
    more = json.loads((tmp_path / "runs" / "more" / "summary.json").read_text())
    assert more["parts"].keys() == {"before", "after"}
    (block,) = python_blocks("automatic.md")
    block = block.replace('budget="200k"', 'budget="50k", without=("small", "cross_fitting")')
    answer = subprocess.run(
        [sys.executable, "-c", block], cwd=tmp_path, check=True, capture_output=True, text=True
    )
    assert answer.stdout.startswith("Tried, with the judge's score on one episode: ")


@pytest.mark.slow
def test_the_page_on_plants(tmp_path):
    """The commands with a smaller budget, the Python as it stands."""
    write_plant(tmp_path)
    fit, score, export = commands("plants.md")
    fit[fit.index("--budget") + 1] = "20k"
    extra = ["--without", "small", "cross_fitting"]
    for words in ([*fit, *extra], score, export):
        subprocess.run([sys.executable, "-m", *words], cwd=tmp_path, check=True, capture_output=True)
    fitted, scored = (
        json.loads((tmp_path / "runs" / name / "summary.json").read_text()) for name in ("plant", "again")
    )
    assert scored["free_run"] == fitted["free_run"]
    assert "int plant_step(" in (tmp_path / "runs" / "plant" / "plant.c").read_text()
    assert (
        fitted["free_run"]["fit_percent"]["y"] > 95
    )  # the plant is linear, and so is where the model starts
    (block,) = python_blocks("plants.md")
    block = block.replace('budget="100k"', 'budget="20k", without=("small", "cross_fitting")')
    answer = subprocess.run(
        [sys.executable, "-c", block], cwd=tmp_path, check=True, capture_output=True, text=True
    )
    assert float(answer.stdout.strip("[] \n")) < 0.05 * fitted["free_run"]["rmse"]["y"] / (
        1e-9 + fitted["free_run"]["nrmse"]["y"]
    )


@pytest.mark.slow
def test_the_page_on_scikit_learn(tmp_path):
    (block,) = python_blocks("scikit-learn.md")
    answer = subprocess.run(
        [sys.executable, "-c", block], cwd=tmp_path, check=True, capture_output=True, text=True
    )
    best, right = answer.stdout.splitlines()
    chosen, first, score = re.fullmatch(r"{'lags': (\d)} (\S+) (\S+)", best).groups()
    assert int(chosen) >= 2  # of second order; a third sample adds nothing but does no harm
    assert float(first) < 0.9 < 0.999 < float(score)
    assert right == "True"
    assert ms.load_model(tmp_path / "plant.safetensors").num_past == int(chosen)


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("gcc") is None, reason="there is no C compiler")
def test_the_page_on_export(tmp_path):
    """As it stands: the commands, the C program compiled, do-mpc's model made."""
    pytest.importorskip("casadi")
    write_plant(tmp_path)
    for words in commands("export.md"):
        subprocess.run([sys.executable, "-m", *words], cwd=tmp_path, check=True, capture_output=True)
    model = ms.load_model(tmp_path / "runs" / "plant" / "model.safetensors")
    with jax.numpy_dtype_promotion("standard"):
        expected = model.rollout(np.zeros((4, 1)), np.zeros((3, 1)), np.full((100, 1), 0.5))
    (program,) = re.findall(r"```c\n(.*?)```", (DOCS / "export.md").read_text(), flags=re.DOTALL)
    (tmp_path / "main.c").write_text(program)
    (line,) = re.findall(r"`(gcc -std.*?)`", (DOCS / "export.md").read_text())
    subprocess.run([*shlex.split(line), "-Wall", "-Wextra", "-pedantic", "-Werror"], cwd=tmp_path, check=True)
    said = subprocess.run([tmp_path / "a.out"], check=True, capture_output=True, text=True).stdout
    assert float(said.split()[0]) == pytest.approx(float(expected[-1, 0]), rel=1e-4, abs=1e-5)
    assert said.endswith("0 of them outside of the training data\n")
    pytest.importorskip("do_mpc")
    (block,) = python_blocks("export.md")
    check = "x = plant.start(plant.ca.DM.zeros(1, 4), 0)\nprint(float(plant.step(x, 0.5)[1]), model.x.shape)"
    answer = subprocess.run(
        [sys.executable, "-c", block + check], cwd=tmp_path, check=True, capture_output=True, text=True
    )
    first, *shape = answer.stdout.split(maxsplit=1)
    assert float(first) == pytest.approx(float(expected[0, 0]), rel=1e-4, abs=1e-5)
    assert shape == ["(7, 1)\n"]


def write_plant(folder):
    """Recordings of a plant to fit and to test."""
    for name, seed in (("estimation", 0), ("validation", 1)):
        outputs, inputs, _ = plant_episodes(num=1, steps=300, seed=seed)[0]
        times, inputs = 0.5 * np.arange(301), [*inputs[:, 0].tolist(), ""]
        rows = (f"{t},{u},{y}\n" for t, u, y in zip(times, inputs, outputs[:, 0], strict=True))
        (folder / f"{name}.csv").write_text("t,u,y\n" + "".join(rows))


@pytest.mark.slow
def test_the_commands_of_the_page_on_the_tractable_cases(tmp_path):
    """As written, but at the smallest scale."""
    page = commands("tractable-cases.md")
    assert [words[:3] for words in page] == [
        ["multistep", "reproduce", "linear"],
        ["multistep", "reproduce", "sigmoid"],
    ]
    for words in page:
        words[words.index("--scale") + 1] = "smoke"
        answer = subprocess.run(
            [sys.executable, "-m", *words], cwd=tmp_path, check=True, capture_output=True, text=True
        )
        assert "Figures, from the rows beside them" in answer.stdout
    assert (tmp_path / "runs" / "linear" / "loss.png").exists()
    assert (tmp_path / "runs" / "sigmoid" / "alphas.png").exists()


RIVALS = {
    "validated": Validated(ms.Once(horizon=1, weights=ms.Uniform())),
    "noisy": ms.Once(horizon=1, loss=Noisy(deviation=0.05)),
    "aggregated": Aggregated(ms.Once(horizon=1, weights=ms.Uniform()), rounds=2),
    "hallucinated": ms.Once(horizon=10, weights=ms.Uniform(), loss=HallucinatedReplay()),
    "scheduled": ms.Once(
        horizon=10, weights=ms.Uniform(), loss=ScheduledSampling(), curriculum=Scheduled(Steady())
    ),
    "direct": ms.Once(horizon=10, weights=ms.Uniform(), network=DirectConfig(10)),
}


@pytest.mark.slow
def test_the_commands_of_the_page_on_rivals(walks):
    """What each of them stands for; one as written, but small."""
    page = {words[-1].removeprefix("runs/"): words for words in commands("rivals.md")}
    assert page.keys() == RIVALS.keys()
    for name, words in page.items():
        given = words[2:]
        config = tyro.cli(FitFilesConfig, args=given, registry=REGISTRY, **_defaults("fit", given))
        assert recipe_of(config) == RIVALS[name]
    small = ["--epochs", "1", "--least-steps", "20", "--score-horizon", "20"]
    command = [sys.executable, "-m", *page["direct"], *small]
    subprocess.run(command, cwd=walks, check=True, capture_output=True)
    summary = json.loads((walks / "runs" / "direct" / "summary.json").read_text())
    assert summary["model"]["outcome"] == "finished"
    model = ms.load_model(walks / "runs" / "direct" / "model.safetensors")
    assert model.learned.architecture == DirectConfig(10)


@pytest.mark.slow
def test_the_commands_of_the_page_on_the_reproduction(tmp_path, monkeypatch):
    monkeypatch.setenv("MULTISTEP_DATASETS", str(tmp_path / "cache"))
    page = commands("reproduction.md")
    assert [words[:3] for words in page] == [["multistep", "reproduce", "static"]] * 2
    for words in page:
        answer = subprocess.run(
            [sys.executable, "-m", *words], cwd=tmp_path, check=True, capture_output=True, text=True
        )
        assert "Table and figures, from the rows beside them" in answer.stdout
    rows = [(tmp_path / "runs" / name / "fits.jsonl").read_text().splitlines() for name in ("static", "part")]
    assert [len(lines) for lines in rows] == [16, 2 * 2 + 2]
    whole, part = ({json.loads(line)["job"] for line in lines} for lines in rows)
    assert part <= whole


@pytest.mark.slow
def test_the_page_on_the_likelihood(tmp_path, monkeypatch):
    """The commands with a smaller training and one model of the study, the Python as it stands."""
    monkeypatch.setenv("MULTISTEP_DATASETS", str(tmp_path / "cache"))
    plant = replace(oscillator_episodes(12, 60, noise=0.05), state_names=("x", "theta"), action_names=("u",))
    for number in range(len(plant)):
        ms.save(plant.take([number]), tmp_path / "logs" / f"{number}.csv")
    fit, study = commands("likelihood.md")
    fit[fit.index("--horizon") + 1] = "2"
    for words in ([*fit, "--epochs", "1", "--least-steps", "50"], [*study, "--method", "plain_propagated"]):
        subprocess.run([sys.executable, "-m", *words], cwd=tmp_path, check=True, capture_output=True)
    assert (tmp_path / "runs" / "likelihood" / "likelihood.png").exists()
    (block,) = python_blocks("likelihood.md")
    answer = subprocess.run(
        [sys.executable, "-c", block], cwd=tmp_path, check=True, capture_output=True, text=True
    )
    deviations = [float(word) for word in answer.stdout.strip("[] \n").split()]
    assert len(deviations) == 2
    assert min(deviations) > 0


@pytest.mark.slow
def test_the_page_on_uncertainty(tmp_path):
    plant = replace(oscillator_episodes(40, 60, noise=0.05), state_names=("x", "theta"), action_names=("u",))
    for number in range(len(plant)):
        ms.save(plant.take([number]), tmp_path / "logs" / f"{number}.csv")
    fit, score = commands("uncertainty.md")
    for words in ([*fit, "--least-steps", "50", "--horizon", "2"], score):
        subprocess.run([sys.executable, "-m", *words], cwd=tmp_path, check=True, capture_output=True)
    summary = json.loads((tmp_path / "runs" / "ensemble-again" / "summary.json").read_text())
    assert summary["intervals"]["calibrated_on_episodes"] == 4
    (block,) = python_blocks("uncertainty.md")
    loading = "fit = types.SimpleNamespace(model=ms.load_model('runs/ensemble/model.safetensors'))"
    given = "state, actions = [0.3, 0.1], np.zeros((7, 1))"
    program = f"import types\nimport numpy as np\nimport multistep as ms\n{loading}\n{given}\n{block}"
    program += "print(forecast.samples.shape, bool((low < high).all()))"
    answer = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, check=True, capture_output=True, text=True
    )
    assert answer.stdout.split("\n")[-2] == "(102, 7, 2) True"  # as many for each of three members


def test_links_lead_somewhere():
    root = DOCS.parent
    for page in (
        root / "README.md",
        root / "CONTRIBUTING.md",
        root / "bench" / "README.md",
        *DOCS.glob("*.md"),
    ):
        for link in re.findall(r"\]\(([^)#]+)", page.read_text()):
            assert link.startswith("https://") or (page.parent / link).exists(), f"{page.name}: {link}"
    for path in re.findall(r"`(tests/[\w/.]+)`", "".join(page.read_text() for page in DOCS.glob("*.md"))):
        assert (root / path).exists(), path


def python_blocks(page):
    return re.findall(r"```python\n(.*?)```", (DOCS / page).read_text(), flags=re.DOTALL)


@pytest.fixture
def walks(tmp_path):
    (tmp_path / "logs").mkdir()
    for number in range(6):
        rng = np.random.default_rng(number)
        episode = (rng.normal(size=(41, 2)).cumsum(axis=0), rng.normal(size=(40, 1)))
        episodes = ms.Episodes.of([episode], state_names=["x", "theta"], action_names=["u"])
        ms.save(episodes, tmp_path / "logs" / f"{number}.csv")
    return tmp_path


@pytest.mark.slow
def test_the_commands_of_the_page_on_selection(walks):
    """As written, with fewer candidates and a tiny network."""
    page = commands("selection.md")
    assert [words[1] for words in page] == ["select", "select"]
    small = ["--vary", "network.hidden_size=8", "epochs=1", "least_steps=20"]
    for words, fewer in zip(
        page, (["--horizons", "1", "4", "--betas", "1"], ["--horizons", "1", "3"]), strict=True
    ):
        command = [sys.executable, "-m", *words, *fewer, *small]
        answer = subprocess.run(command, cwd=walks, check=True, capture_output=True, text=True)
        assert "has the highest mean R2bar(31) over the held-out folds" in answer.stdout
    assert (walks / "runs" / "halving" / "model.safetensors").exists()


SBATCH = """#!/bin/sh
sh "$1" > "$1.log" 2>&1 &
echo "$!" >> "$(dirname "$0")/jobs"
echo "Submitted batch job $!"
"""


@pytest.mark.slow
def test_the_programs_of_the_page_on_selection(walks):
    """As written; what stands for SLURM runs each submitted job on this machine."""
    local, slurm = python_blocks("selection.md")
    commands = walks / "bin"
    commands.mkdir()
    for name, script in (("sbatch", SBATCH), ("scancel", '#!/bin/sh\nkill "$@"\n')):
        (commands / name).write_text(script)
        (commands / name).chmod(0o755)
    for name, program in (("local.py", local), ("slurm.py", slurm)):
        (walks / name).write_text(program)
        environment = os.environ | {"PATH": f"{commands}:{os.environ['PATH']}"}
        answer = subprocess.run(
            [sys.executable, name],
            cwd=walks,
            env=environment,
            check=True,
            capture_output=True,
            text=True,
            timeout=300,
        )
        assert answer.stdout.startswith("Once(")
    assert len((commands / "jobs").read_text().split()) == 2
    assert len((walks / "runs" / "slurm" / "fits.jsonl").read_text().splitlines()) == 2 * 3


SMALL_AGENT = {
    "fit": ["--horizon", "2", "--epochs", "1", "--least-steps", "20", "--network.hidden-size", "16"],
    "train": ["--steps", "200", "--num-envs", "20"],
    "plan": ["--steps", "3", "--num-sequences", "10"],
    "evaluate": ["--steps", "20", "--episodes", "2", "--num-sequences", "10"],
}


@pytest.mark.slow
def test_the_commands_of_the_page_on_agents(tmp_path):
    """As written, but for a short training of a tiny network."""
    page = commands("agents.md")
    assert [words[1] if words[1] != "agent" else words[2] for words in page] == list(SMALL_AGENT)
    for words, small in zip(page, SMALL_AGENT.values(), strict=True):
        answer = subprocess.run(
            [sys.executable, "-m", *words, *small], cwd=tmp_path, check=True, capture_output=True, text=True
        )
    assert "over 2 episodes of cartpole" in answer.stdout
    assert (
        tmp_path / "runs" / "evaluate" / "first_episode.png"
    ).exists() or "No pictures can be drawn here" in answer.stdout
    assert (tmp_path / "runs" / "plan" / "plan.png").exists()


@pytest.mark.slow
def test_the_program_of_the_page_on_agents(tmp_path):
    program = "\n".join(python_blocks("agents.md"))
    program += (
        "\nassert action.shape == (1,) and abs(action[0]) <= 2 and agent.num_timesteps == "
        "other.num_timesteps == 1000"
    )
    program += (
        "\nassert states.shape == (100, 2) and rewards.shape == (100,) and env.action_space.high.max() > "
        "1.9\n"
    )
    subprocess.run([sys.executable, "-c", program], cwd=tmp_path, check=True)
