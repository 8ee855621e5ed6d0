"""Damaged files of every kind, each opened in a child."""

import subprocess
import sys
import time
from pathlib import Path
from tempfile import mkdtemp

from torture.table import OVER, Clock, Tried
from torture.work import environment

SHARES = {
    "csv": 0.17, "npz": 0.17, "parquet": 0.15, "model": 0.12, "checkpoint": 0.1, "rows": 0.08,
    "run's config": 0.08, "dataset card": 0.05, "agent.zip": 0.05, "agent.safetensors": 0.05,
    # Last, as each of them takes a process of its own.
    "hdf5": 0.02, "minari data": 0.008, "minari card": 0.008,
}  # fmt: skip
PATIENCE = 90
"""Seconds for one file; the child itself gives up earlier where a signal reaches it."""


def damage_files(folder: Path, times: int, clock: Clock, kinds: tuple[str, ...] = ()) -> list[Tried]:
    return [
        _damage(folder, kind, max(3, round(share * times)), clock)
        for kind, share in SHARES.items()
        if not kinds or kind in kinds
    ]


def _damage(folder: Path, kind: str, times: int, clock: Clock) -> Tried:
    tried, started, seed = Tried(f"damaged: {kind}"), time.monotonic(), 0
    while seed < times and not clock.is_over:
        seed = _one_child(Path(mkdtemp(dir=folder)), kind, seed, times, tried, clock)
    tried.seconds = time.monotonic() - started
    if seed < times:
        tried.left_out = f"{times - seed} of {times}: {OVER}"
    return tried


def _one_child(folder: Path, kind: str, first: int, last: int, tried: Tried, clock: Clock) -> int:
    """Let a child open files from this seed on; the seed that is next when it has ended."""
    log = folder / "log"
    command = [sys.executable, "-m", "torture.fuzz_child", str(folder), kind, str(first), str(last)]
    with open(log, "w") as out, open(folder / "errors", "w") as errors:
        child = subprocess.Popen(command, env=environment(), stdout=out, stderr=errors)
        size, since = 0, time.monotonic()
        while child.poll() is None:
            time.sleep(0.05)
            if log.stat().st_size > size:
                size, since = log.stat().st_size, time.monotonic()
            elif time.monotonic() - since > PATIENCE or clock.is_over:
                child.kill()
                child.wait()
    return _counted(log, folder, kind, first, tried, child.returncode, clock)


def _counted(log: Path, folder: Path, kind: str, first: int, tried: Tried, code: int, clock: Clock) -> int:
    seed, ended = first - 1, True
    for line in log.read_text().splitlines():
        number, _, found = line.partition(" ")
        seed, ended = int(number), bool(found)
        if found:
            problem = f"seed {number}: {found.removeprefix('lost ')}" if found.startswith("lost") else None
            tried.add(problem, refused=found == "refused")
    if seed < first and not clock.is_over:
        raise RuntimeError(
            f"no file of kind {kind} could be opened: {(folder / 'errors').read_text()[-800:]}"
        )
    if not ended and not clock.is_over:
        what = f"it hung for {PATIENCE} seconds" if code == -9 else f"the process died with code {code}"
        tried.add(f"seed {seed}: {what}")
    return seed + 1
