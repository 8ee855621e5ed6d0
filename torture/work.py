"""The work that is disturbed: a small plant in files, and commands on it that take seconds."""

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np

ROOT = Path(__file__).parents[1]
COLUMNS = ["--states", "x", "v", "--actions", "u"]
QUICK = ["--recipe", "once", "--horizon", "2", "--network.hidden-size", "8", "--least-steps", "40"]
SECONDS, HUNG = 300, 124
"""What no command here may take, and the exit code of one that does."""


def write_plant(folder: Path, files: int = 4, steps: int = 40) -> list[str]:
    """Episodes of a noisy oscillator, one for each file; their names."""
    names = []
    for number in range(files):
        rng, state = np.random.default_rng(number), np.zeros(2)
        lines = ["x,v,u"]
        for _ in range(steps):
            push = rng.uniform(-1, 1)
            lines.append(f"{state[0] + 0.01 * rng.normal():.6f},{state[1]:.6f},{push:.6f}")
            state = state + 0.1 * np.array([state[1], push - state[0] - 0.2 * state[1]])
        names.append(f"plant_{number}.csv")
        (folder / names[-1]).write_text("\n".join(lines) + "\n")
    return names


def fit_words(names: Sequence[str], out: str = "out", epochs: int = 4) -> list[str]:
    return ["fit", *names, *COLUMNS, *QUICK, "--epochs", str(epochs), "--out", out]


def environment(**more: str) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}", "JAX_PLATFORMS": "cpu", **more}


def run(words: Sequence[str], folder: Path) -> subprocess.CompletedProcess[str]:
    """One command, to its end; a hang comes back as an exit code of its own."""
    command = [sys.executable, "-m", "multistep", *words]
    given = {"cwd": folder, "env": environment(), "capture_output": True, "text": True, "check": False}
    try:
        return subprocess.run(command, timeout=SECONDS, **given)
    except subprocess.TimeoutExpired:
        return subprocess.CompletedProcess(command, HUNG, "", f"it took more than {SECONDS} seconds")


def problem_of(code: int, said: str) -> str | None:
    """What is wrong with how a command ended: it may succeed, or say one sentence with exit code 2."""
    last = said.strip().splitlines()[-1] if said.strip() else ""
    if "Traceback" in said:
        return f"a traceback: {last[:160]}"
    if code not in (0, 2):
        return f"exit code {code}: {last[:160]}"
    if code == 2 and not last.startswith("multistep: "):
        return f"no sentence: {last[:160]}"
    return None
