"""tsfast's FranSys on episodes, in an environment of its own: a GRU that reads the past hands its state to a
GRU that predicts.

`python tsfast_episodes.py INPUT.npz OUTPUT.npz --seed 0 --seconds 600`; what is in the files is said in
`multistep.bench.peer_runs`. Loss, optimiser and sizes are the library's defaults; there are as many epochs as
the seconds of the processor allow, by the time of the first batches.
"""

import argparse
import random
import time
from importlib.metadata import version

import numpy as np
import torch
from tsfast.prediction.fransys import FranSysLearner  # pyright: ignore[reportMissingImports]
from tsfast.tsdata import create_dls_from_readers  # pyright: ignore[reportMissingImports]

HIDDEN, BATCH = 100, 64
BATCHES = 300
"""To an epoch: the library's default."""
TRIAL = 10
"""Batches by which the time of an epoch is found."""
CHUNK = 1024


class Arrays:
    """A reader, as the library asks for one, of arrays by name in place of files."""

    def __init__(self, arrays: dict[str, np.ndarray]):
        self.arrays = arrays
        self.n_features = next(iter(arrays.values())).shape[1]

    def file_len(self, entry) -> int:
        return len(self.arrays[entry.path])

    def read(self, entry, first: int, last: int) -> np.ndarray:
        return self.arrays[entry.path][first:last]


def main() -> None:
    """Fit, predict, write."""
    parser = argparse.ArgumentParser()
    parser.add_argument("source")
    parser.add_argument("target")
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--seconds", type=float, required=True)
    words = parser.parse_args()
    torch.set_num_threads(1)
    data = np.load(words.source)
    started = time.process_time()
    model, epochs = fit(data, words.seed, words.seconds)
    seconds = time.process_time() - started
    about = f"tsfast {version('tsfast')}, torch {torch.__version__}, {epochs} epochs of {BATCHES} batches"
    np.savez(words.target, seconds=seconds, about=about, predicted=predict(model, data))


def fit(data, seed: int, seconds: float) -> tuple[torch.nn.Module, int]:
    """The model, and how many epochs there was time for."""
    past, ahead = data["past_states"].shape[1], data["actions"].shape[1]
    states, actions = {}, {}
    for part in ("train", "valid"):
        _read_episodes(data, part, states, actions)

    def learner(batches: int):
        torch.manual_seed(seed)
        random.seed(seed)
        loaders = create_dls_from_readers(
            Arrays(actions),
            Arrays(states),
            train_files=[name for name in states if name.startswith("train")],
            valid_files=[name for name in states if name.startswith("valid")],
            win_sz=past + ahead,
            bs=BATCH,
            n_batches_train=batches,
        )
        return FranSysLearner(
            loaders, past, attach_output=True, hidden_size=HIDDEN, rnn_type="gru", show_bar=False
        )

    started = time.process_time()
    learner(TRIAL).fit(1)
    spent = time.process_time() - started
    epochs = max(1, int((seconds - spent) / (BATCHES / TRIAL * spent)))
    learned = learner(BATCHES)
    learned.fit_flat_cos(epochs)
    return learned.model, epochs


def _read_episodes(data, part: str, states: dict[str, np.ndarray], actions: dict[str, np.ndarray]) -> None:
    """Each episode under a name; with a state stands the action that led to it, none (0) with the first."""
    lengths = data[f"{part}_lengths"]
    own = np.split(data[f"{part}_states"], np.cumsum(lengths + 1)[:-1])
    led = np.split(data[f"{part}_actions"], np.cumsum(lengths)[:-1])
    for number, (after, before) in enumerate(zip(own, led, strict=True)):
        states[f"{part} {number}"] = after.astype(np.float32)
        none = np.zeros((1, before.shape[1]))
        actions[f"{part} {number}"] = np.concatenate([none, before]).astype(np.float32)


def predict(model: torch.nn.Module, data) -> np.ndarray:
    """The states after each past, for as many steps as there are actions."""
    past = data["past_states"]
    before = np.concatenate([np.zeros_like(data["past_actions"][:, :1]), data["past_actions"]], axis=1)
    inputs = np.concatenate([before, data["actions"]], axis=1)
    unknown = np.zeros((len(past), data["actions"].shape[1], past.shape[2]))
    given = np.concatenate([inputs, np.concatenate([past, unknown], axis=1)], axis=2).astype(np.float32)
    model.eval()
    with torch.no_grad():
        found = [
            model(torch.from_numpy(given[start : start + CHUNK]))[:, past.shape[1] :].numpy()
            for start in range(0, len(given), CHUNK)
        ]
    return np.concatenate(found)


if __name__ == "__main__":
    main()
