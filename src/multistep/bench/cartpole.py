"""`multistep bench cartpole`: R2bar(100) of both presets on Cartpole random data, beside the ceiling and the
paper."""

import json
import multiprocessing
import statistics
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import jax
from rich.console import Console
from rich.progress import Progress

from multistep.data import Episodes, add_noise, split
from multistep.errors import InputError
from multistep.evaluation import R2Bar, score
from multistep.evaluation.rows import score_summary
from multistep.losses import Uniform
from multistep.runs.process import available_cores, keep_compiled_programs, use_one_thread
from multistep.runs.provenance import plain
from multistep.runs.row_log import Row
from multistep.runs.run_folder import check_run, write_json, write_run
from multistep.selection.fit import fit
from multistep.tasks import CARTPOLE
from multistep.tasks.catalogue import CARTPOLE_RANDOM_SEED
from multistep.training import DEFAULT, PAPER, Once
from multistep.training.rows import fit_summary

HORIZON = 100

COMMAND = "bench cartpole"


@dataclass(frozen=True)
class Entry:
    """One kind of fit, and what the paper reports for it (its best beta where the horizon is more than 1)."""

    noise: float
    config: Once
    paper: float | None


ENTRIES = {
    "paper_h1_noise_0": Entry(0.0, replace(PAPER, horizon=1, weights=Uniform()), 0.972),
    "paper_h1_noise_2": Entry(0.02, replace(PAPER, horizon=1, weights=Uniform()), 0.508),
    "paper_h4_noise_2": Entry(0.02, PAPER, 0.812),
    "default_noise_2": Entry(0.02, DEFAULT, 0.836),
}


@dataclass(frozen=True)
class CartpoleBenchConfig:
    """R2bar(100) of both presets on Cartpole random data, beside the ceiling and the paper."""

    out: Path = Path("runs/bench-cartpole")
    """Folder for the results; a second run goes on where the first was stopped."""
    entries: tuple[str, ...] = tuple(ENTRIES)
    """Which fits to run."""
    seeds: tuple[int, ...] = (0, 1, 2)
    """Seeds of noise, split and training; the 50 episodes are the same for all."""
    data_seed: int = CARTPOLE_RANDOM_SEED
    """Seed of the episodes."""
    epochs: int | None = None
    """Epochs of every fit (default: those of its preset)."""


def run_cartpole_bench(config: CartpoleBenchConfig) -> dict[str, Any]:
    """Run what is missing, one fit per core, leave rows and summary in `config.out` and return the
    summary."""
    check_run(config.out, COMMAND)
    jobs = [(name, seed, config) for name in config.entries for seed in config.seeds]
    cores, context = available_cores(), multiprocessing.get_context("spawn")
    free_cores = context.Queue()
    for core in cores:
        free_cores.put(core)
    with (
        ProcessPoolExecutor(len(cores), context, _start_worker, (free_cores,)) as pool,
        Progress(console=Console(stderr=True)) as progress,
    ):
        rows = list(progress.track(pool.map(_run_job, jobs), total=len(jobs), description="fits"))
    summary = {
        name: _entry_summary(name, [row for row in rows if row["entry"] == name]) for name in config.entries
    }
    write_run(config.out, COMMAND, config, rows, summary)
    return summary


def _data(noise: float, seed: int, data_seed: int) -> tuple[Episodes, ...]:
    """Train, valid and test (36, 4 and 10) of the 50 noisy episodes."""
    noise_key, split_key = jax.random.split(jax.random.key(seed))
    clean = CARTPOLE.collect_random(50, key=jax.random.key(data_seed))
    return split(add_noise(clean, noise, key=noise_key), (36, 4, 10), key=split_key)


def _run_job(job: tuple[str, int, CartpoleBenchConfig]) -> Row:
    name, seed, config = job
    folder = config.out / "fits" / f"{name}_seed_{seed}"
    done = folder / "row.json"
    entry = ENTRIES[name]
    fit_config = entry.config if config.epochs is None else replace(entry.config, epochs=config.epochs)
    settings = plain({"fit": fit_config, "noise": entry.noise, "data_seed": config.data_seed})
    if done.exists():
        return _finished_row(done, settings)
    train, valid, test = _data(entry.noise, seed, config.data_seed)
    checkpoint = folder / "checkpoint.safetensors"
    fitted = fit(train, valid, fit_config, key=jax.random.key(seed), score=R2Bar(50), checkpoint=checkpoint)
    row = {
        "entry": name,
        "seed": seed,
        **score_summary(score(fitted.model, test, horizon=HORIZON)),
        **{
            f"ceiling_{key}": value
            for key, value in score_summary(CARTPOLE.ceiling(test, horizon=HORIZON)).items()
        },
        **fit_summary(fitted),
    }
    write_json(done, {"settings": settings, "row": row})
    return row


def _finished_row(path: Path, settings: dict[str, Any]) -> Row:
    """The row of a fit that is already done, if it was done with these settings."""
    finished = json.loads(path.read_text())
    if finished["settings"] != settings:
        raise InputError(
            f"{path.parent} holds a fit with other settings or episodes: delete it or choose another --out."
        )
    return finished["row"]


def _entry_summary(name: str, rows: list[Row]) -> dict[str, Any]:
    scores = [float(row["r2bar_100"]) for row in rows]
    return {
        "r2bar_100": statistics.mean(scores),
        "lowest": min(scores),
        "highest": max(scores),
        "ceiling": statistics.mean(float(row["ceiling_r2bar_100"]) for row in rows),
        "paper": ENTRIES[name].paper,
        "fit_seconds": statistics.mean(row["fit_seconds"] for row in rows),
    }


def _start_worker(free_cores: Any) -> None:
    keep_compiled_programs()
    use_one_thread(free_cores.get())
