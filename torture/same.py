"""Same files, same seed, same bits; and a process that fits again and again does not grow."""

import subprocess
import sys
import time
from pathlib import Path

from torture.table import OVER, Clock, Tried
from torture.work import environment, fit_words, run, write_plant

MOST_GROWTH = 50
"""Megabytes."""
GROWTH = """
import sys
from pathlib import Path
import jax, multistep as ms
from multistep.runs.process import keep_freed_memory
def resident():
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096 / 1e6
config = ms.Once(horizon=2, network=ms.NetworkConfig(hidden_size=8), epochs=1, least_steps=20)
for number in range(int(sys.argv[1])):
    episodes = ms.load("plant_*.csv", states=["x", "v"], actions=["u"])
    fitted = ms.fit(episodes, episodes, config, key=jax.random.key(number))
    ms.save_model(fitted.model, "grown.safetensors")
    ms.load_model("grown.safetensors")
    if number == 4:
        before = resident()
print(resident() - before)
"""


def same_bits(folder: Path, share: float, clock: Clock) -> list[Tried]:
    tried, started = Tried("same bits: fit"), time.monotonic()
    names = write_plant(folder)
    contents = []
    for number, order in enumerate(
        [names, names, names[::-1], [*names[2:], *names[:2]]][: 4 if share >= 1 else 3]
    ):
        ended = run(fit_words(order, f"out_{number}"), folder)
        contents.append((folder / f"out_{number}" / "model.safetensors").read_bytes())
        tried.add(
            None if contents[-1] == contents[0] else f"{' '.join(order)}: another model {ended.stderr[-100:]}"
        )
    tried.seconds = time.monotonic() - started
    return [tried, _growth(folder, 100 if share >= 1 else 15, clock)]


def _growth(folder: Path, times: int, clock: Clock) -> Tried:
    tried, started = Tried("growth: fits in one process"), time.monotonic()
    if clock.is_over:
        tried.left_out = OVER
        return tried
    command = [sys.executable, "-c", GROWTH, str(times)]
    ended = subprocess.run(
        command, cwd=folder, env=environment(), capture_output=True, text=True, timeout=600, check=False
    )
    tried.times = times
    if ended.returncode:
        tried.lost.append(ended.stderr[-300:])
    elif float(ended.stdout) > MOST_GROWTH:
        tried.lost.append(f"{float(ended.stdout):.0f} MB more after {times} fits")
    tried.seconds = time.monotonic() - started
    return tried
