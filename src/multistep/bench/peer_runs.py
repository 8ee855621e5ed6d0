"""A peer's script at work: the records go to it in one file, and what it predicts comes back in another.

Of a test it is given what a model may see and nothing else; the error is taken here, by the code that takes
ours.

For the record of a plant the file in has `train_inputs`, `train_outputs` (a row for each sample),
`time_step`, `tests` (names), and for each of these `inputs_NAME` over all of the record and `seen_NAME`, its
first outputs; the file out has `predicted_NAME` for each sample of it.

For episodes the file in has `train_` and `valid_` `states`, `actions` and `lengths`, as `Episodes` keeps
them, and for each rollout `past_states`, the `past_actions` between them and the `actions` that follow; the
file out has `predicted`, the states after each of these.

Out come too `seconds`, which the training took of the processor, and `about`, a few words on what was run.
"""

import os
import signal
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import as_file, files
from pathlib import Path

import numpy as np
from jaxtyping import Float, Int
from numpy import ndarray

from multistep.bench.peer_environments import Peer, complaint_of
from multistep.data import Episodes, unit_of
from multistep.evaluation.r2 import ErrorSums, Scores, scores_of
from multistep.studies.benchmark_records import Benchmark, BenchmarkData

PATIENCE = 20
"""Times the seconds of the processor that a script may take by the clock, and as many minutes more."""
ONE_THREAD = {
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "JAX_PLATFORMS": "cpu",
    "CUDA_VISIBLE_DEVICES": "",
}


class PeerFailed(Exception):
    """What a peer's script said when it gave up."""


@dataclass(frozen=True, eq=False)
class Answer:
    """What a peer predicts."""

    predicted: Mapping[str, ndarray]
    seconds: float
    """Of the processor, for the training."""
    about: str


def ask(python: Path, peer: Peer, given: Mapping[str, object], *, seed: int, seconds: float) -> Answer:
    """What the peer's script makes of the arrays; `PeerFailed` says what it complains of."""
    with tempfile.TemporaryDirectory() as name, as_file(files("multistep.bench") / "peers") as scripts:
        source, target = Path(name) / "given.npz", Path(name) / "found.npz"
        np.savez(source, **given)  # pyright: ignore[reportArgumentType]
        words = [str(python), str(scripts / peer.script), str(source), str(target)]
        words += ["--seed", str(seed), "--seconds", str(seconds)]
        _run(words, seconds)
        with np.load(target) as found:
            predicted = {name: found[name] for name in found.files if name.startswith("predicted")}
            return Answer(predicted, float(found["seconds"]), str(found["about"]))


def plant_arrays(data: BenchmarkData, benchmark: Benchmark) -> dict[str, object]:
    """What a peer is given of a benchmark's records."""
    arrays: dict[str, object] = {
        "train_inputs": _held(data.train.actions),
        "train_outputs": data.train.states,
        "time_step": benchmark.time_step,
        "tests": np.array(list(data.tests)),
    }
    for name, test in data.tests.items():
        arrays[f"inputs_{name}"] = _held(test.actions)
        arrays[f"seen_{name}"] = test.states[: benchmark.num_seen]
    return arrays


def plant_rmse(answer: Answer, data: BenchmarkData, benchmark: Benchmark) -> dict[str, float]:
    """The error of what a peer predicts of each test record, in the customary unit."""
    found = {}
    for name, test in data.tests.items():
        predicted = answer.predicted[f"predicted_{name}"]
        if predicted.shape != test.states.shape:
            raise PeerFailed(f"it predicts {predicted.shape} values of {test.states.shape}")
        errors = (predicted - test.states)[benchmark.num_seen :]
        found[name] = float(np.sqrt(np.mean(errors**2))) * benchmark.scale_to_unit
    return found


@dataclass(frozen=True, eq=False)
class Rollouts:
    """Every place of the episodes that has enough states before it, and what comes after it."""

    past_states: Float[ndarray, "rollouts past state"]
    past_actions: Float[ndarray, "rollouts past_less_one action"]
    actions: Float[ndarray, "rollouts horizon action"]
    """The last one again and again past the end of an episode."""
    states: Float[ndarray, "rollouts horizon state"]
    """After each of these actions."""
    steps: Int[ndarray, " rollouts"]
    """How many of them the episode has."""

    @staticmethod
    def of(episodes: Episodes, num_past: int, horizon: int) -> "Rollouts":
        """Those of all episodes, in their order."""
        parts = []
        for number in range(len(episodes)):
            states, actions, _ = episodes[number]
            length = len(actions)
            last = np.arange(num_past - 1, length)[:, None]
            before = np.arange(1 - num_past, 1)
            ahead = np.arange(horizon)
            parts.append(
                (
                    states[last + before],
                    actions[last + before[:-1]],
                    actions[np.minimum(last + ahead, length - 1)],
                    states[np.minimum(last + 1 + ahead, length)],
                    np.minimum(length - last[:, 0], horizon),
                )
            )
        return Rollouts(*(np.concatenate(part) for part in zip(*parts, strict=True)))


def episode_arrays(train: Episodes, valid: Episodes, rollouts: Rollouts) -> dict[str, object]:
    """What a peer is given of episodes."""
    arrays: dict[str, object] = {
        f"{part}_{name}": getattr(episodes, name)
        for part, episodes in (("train", train), ("valid", valid))
        for name in ("states", "actions", "lengths")
    }
    own = ("past_states", "past_actions", "actions")
    return arrays | {name: getattr(rollouts, name) for name in own}


def episode_scores(answer: Answer, test: Episodes, rollouts: Rollouts) -> Scores:
    """R2 of what a peer predicts after each past, as `score` takes it of a model that starts from as many
    states."""
    predicted = answer.predicted["predicted"]
    if predicted.shape != rollouts.states.shape:
        raise PeerFailed(f"it predicts {predicted.shape} values of {rollouts.states.shape}")
    unit = unit_of(test.states)
    within = np.arange(predicted.shape[1]) < rollouts.steps[:, None]
    errors = np.where(within[..., None], (predicted - rollouts.states) / unit, 0.0)
    diverged = (~np.isfinite(errors).all(axis=2)).sum(axis=0)
    sums = ErrorSums((errors.astype(np.float64) ** 2).sum(axis=0), diverged)
    return scores_of(sums, test, unit, rollouts.past_states.shape[1])


def _held(actions: Float[ndarray, "steps action"]) -> Float[ndarray, "steps_and_one action"]:
    """As many inputs as outputs: the last one again, which no output of the record answers to."""
    return np.concatenate([actions, actions[-1:]])


def _run(words: list[str], seconds: float) -> None:
    """The script to its end, alone in a group of processes that ends with it."""
    most = PATIENCE * (seconds + 60)
    with subprocess.Popen(
        words,
        env={**os.environ, **ONE_THREAD, "PYTHONPATH": ""},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as running:
        try:
            _, stderr = running.communicate(timeout=most)
        except BaseException as error:
            os.killpg(running.pid, signal.SIGKILL)
            if isinstance(error, subprocess.TimeoutExpired):
                raise PeerFailed(f"it has not ended after {most:.0f} s") from error
            raise
    if running.returncode:
        raise PeerFailed(complaint_of(stderr))
