"""tsfast's FranSys on episodes, in an environment of its own: a GRU that reads the past hands its state to a
GRU that predicts.

`python tsfast_episodes.py INPUT.npz OUTPUT.npz --seed 0 --seconds 600`; what is in the files is said in
`multistep.bench.peer_runs`. Loss, optimiser and sizes are the library's defaults; there are as many epochs as
the seconds of the processor allow, by the time of the first batches.
"""

import argparse
import random
import tempfile
import time
from importlib.metadata import version
from pathlib import Path

import h5py
import numpy as np
import torch
from tsfast.prediction.fransys import FranSysLearner  # pyright: ignore[reportMissingImports]
from tsfast.tsdata import create_dls  # pyright: ignore[reportMissingImports]

HIDDEN, BATCH = 100, 64
BATCHES = 300
"""To an epoch: the library's default."""
TRIAL = 10
"""Batches by which the time of an epoch is found."""
CHUNK = 1024


def main() -> None:
    """Fit, predict, write."""
    parser = argparse.ArgumentParser()
    parser.add_argument("source")
    parser.add_argument("target")
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--seconds", type=float, required=True)
    words = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(words.seed)
    random.seed(words.seed)
    data = np.load(words.source)
    past, ahead = data["past_states"].shape[1], data["actions"].shape[1]
    started = time.process_time()
    with tempfile.TemporaryDirectory() as folder:
        files = {part: _write(data, part, Path(folder)) for part in ("train", "valid")}

        def learner(batches: int):
            loaders = create_dls(
                [f"u{n}" for n in range(data["actions"].shape[2])],
                [f"y{n}" for n in range(data["past_states"].shape[2])],
                files,
                win_sz=past + ahead,
                bs=BATCH,
                n_batches_train=batches,
                cache=True,
            )
            return FranSysLearner(
                loaders, past, attach_output=True, hidden_size=HIDDEN, rnn_type="gru", show_bar=False
            )

        before = time.process_time()
        learner(TRIAL).fit(1)
        each = BATCHES / TRIAL * (time.process_time() - before)
        epochs = max(1, int((words.seconds - (time.process_time() - started)) / each))
        torch.manual_seed(words.seed)
        learned = learner(BATCHES)
        learned.fit_flat_cos(epochs)
    seconds = time.process_time() - started
    about = f"tsfast {version('tsfast')}, torch {torch.__version__}, {epochs} epochs of {BATCHES} batches"
    np.savez(words.target, seconds=seconds, about=about, predicted=_predict(learned.model, data))


def _write(data, part: str, folder: Path) -> list[str]:
    """A file for each episode; with a state stands the action that led to it, none (0) with the first."""
    names = []
    states, actions = data[f"{part}_states"], data[f"{part}_actions"]
    for number, length in enumerate(data[f"{part}_lengths"]):
        (own, states), (led, actions) = (
            np.split(states, [length + 1]),
            np.split(actions, [length]),
        )
        names.append(str(folder / f"{part}{number}.hdf5"))
        led = np.concatenate([np.zeros((1, led.shape[1])), led])
        with h5py.File(names[-1], "w") as file:
            for letter, columns in (("u", led), ("y", own)):
                for column, values in enumerate(columns.T):
                    file[f"{letter}{column}"] = values.astype(np.float32)
    return names


def _predict(model: torch.nn.Module, data) -> np.ndarray:
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
