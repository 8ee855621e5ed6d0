"""SIGKILL at any moment: at chance, while modules are imported, before and after files are replaced.

The same command is started again after each, and what it leaves in the end is compared with what it leaves
where nobody disturbs it.
"""

import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from torture.table import OVER, Clock, Tried
from torture.work import COLUMNS, SECONDS, environment, fit_words, problem_of, run, write_plant

KILLS_IN_A_SERIES = 10
MOMENTS = ("chance", "import", "fsync", "replace", "after-replace")


def kill_everything(folder: Path, times: int, clock: Clock) -> list[Tried]:
    names = write_plant(folder)
    run(fit_words(names, "fitted"), folder)
    works = {
        "fit": (fit_words(names, epochs=12), ("out/model.safetensors", "out/rows.csv"), 6.0, 0.5),
        "convert": (["convert", "plant_*.csv", "out.npz", *COLUMNS, "--overwrite"], ("out.npz",), 1.5, 0.3),
        "score": (
            ["score", "fitted/model.safetensors", names[0], "--out", "out"], ("out/rows.csv",), 4.0, 0.1,
        ),
        "collect": (
            ["collect", "cartpole/random", "--anew", "--cache", "out"],
            ("out/cartpole/random.npz",), 6.0, 0.1,
        ),
    }  # fmt: skip
    return [
        _kill(folder, name, words, left, seconds, max(1, round(share * times)), clock)
        for name, (words, left, seconds, share) in works.items()
    ]


def _kill(
    folder: Path,
    name: str,
    words: Sequence[str],
    left: Sequence[str],
    seconds: float,
    times: int,
    clock: Clock,
) -> Tried:
    tried, rng = Tried(f"kill: {name}"), random.Random(name)
    started = time.monotonic()
    reference = _undisturbed(folder, words, left)
    while tried.times < times and not clock.is_over:
        _clear(folder)
        for _ in range(min(KILLS_IN_A_SERIES, times - tried.times)):
            moment, count = rng.choice(MOMENTS), rng.randrange(6)
            count = rng.randrange(2000) if moment == "import" else count
            was_killed = _disturbed(folder, words, moment, count, rng.uniform(0.05, seconds))
            if was_killed:
                tried.add(None)
        ended = run(words, folder)
        problem = problem_of(ended.returncode, ended.stderr)
        if problem is None and _contents(folder, left) != reference:
            problem = "what it left differs from that of an undisturbed run"
        temporary = [path.name for path in folder.rglob(".*-*-*") if path.is_file()]
        if problem is None and temporary:
            problem = f"temporary files stayed: {', '.join(temporary[:3])}"
        if problem is not None:
            tried.lost.append(f"after kill {tried.times} of '{' '.join(words)}': {problem}")
    tried.seconds = time.monotonic() - started
    if tried.times < times:
        tried.left_out = f"{times - tried.times} of {times}: {OVER}"
    return tried


def _disturbed(folder: Path, words: Sequence[str], moment: str, count: int, seconds: float) -> bool:
    """Start the command and have it killed; false if it was done before."""
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "cwd": folder, "env": environment()}
    how = ["-m", "multistep"] if moment == "chance" else ["-m", "torture.killed", moment, str(count)]
    process = subprocess.Popen([sys.executable, *how, *words], **quiet)
    try:
        process.wait(seconds if moment == "chance" else SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    return process.returncode == -signal.SIGKILL


def _undisturbed(folder: Path, words: Sequence[str], left: Sequence[str]) -> list[bytes]:
    _clear(folder)
    ended = run(words, folder)
    if ended.returncode:
        raise RuntimeError(f"'{' '.join(words)}' does not run at all: {ended.stderr[-500:]}")
    return _contents(folder, left)


def _contents(folder: Path, names: Sequence[str]) -> list[bytes]:
    """What the command is for; seconds and versions are no part of it."""
    return [(folder / name).read_bytes() if (folder / name).exists() else b"" for name in names]


def _clear(folder: Path) -> None:
    shutil.rmtree(folder / "out", ignore_errors=True)
    (folder / "out.npz").unlink(missing_ok=True)
