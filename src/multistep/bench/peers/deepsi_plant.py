"""deepSI on the record of a plant, in an environment of its own: a state-space network with an encoder
(SUBNET).

`python deepsi_plant.py INPUT.npz OUTPUT.npz --seed 0 --seconds 120`; what is in the files is said in
`multistep.bench.peer_runs`. Networks and optimiser are the library's defaults; updates are made as long as
the seconds of the processor last, and the model that simulates the last quarter of the record best is kept.
"""

import argparse
import os
import tempfile
import time
from importlib.metadata import version

import deepSI  # pyright: ignore[reportMissingImports]
import numpy as np
import torch

HIDDEN = 4
AHEAD = 50
BATCH, CHECK_EVERY = 256, 50
VALIDATION = 0.25


def main() -> None:
    """Fit, simulate, write."""
    parser = argparse.ArgumentParser()
    parser.add_argument("source")
    parser.add_argument("target")
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--seconds", type=float, required=True)
    words = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(words.seed)
    data = np.load(words.source)
    started = time.process_time()
    with tempfile.TemporaryDirectory() as folder:
        os.environ["HOME"] = folder  # it keeps what it trains in the user's folder otherwise
        model, updates = fit(data, words.seconds)
    seconds = time.process_time() - started
    found: dict = {f"predicted_{name}": simulate(model, data, name) for name in data["tests"]}
    about = f"deepSI {version('deepSI')}, torch {torch.__version__}, about {updates} updates"
    np.savez(words.target, seconds=seconds, about=about, **found)


def fit(data, seconds: float) -> tuple[torch.nn.Module, int]:
    """The model, and about how many updates there was time for."""
    lags = len(data[f"seen_{data['tests'][0]}"])
    record = deepSI.Input_output_data(
        data["train_inputs"][:, 0], data["train_outputs"][:, 0], sampling_time=float(data["time_step"])
    )
    first = int((1 - VALIDATION) * len(record))
    train, valid = record[:first], record[first:]
    num_inputs, num_outputs, norm = deepSI.get_nu_ny_and_auto_norm(train)
    model = deepSI.SUBNET(num_inputs, num_outputs, norm, nx=HIDDEN, nb=lags, na=lags)
    started = time.process_time()

    def loss_or_end(*given):
        """Its training ends at an interrupt with the best model so far: that is how it is given a time."""
        if time.process_time() - started > seconds:
            raise KeyboardInterrupt
        return deepSI.fitting.compute_NMSE(*given)

    fitted = deepSI.fit(
        model,
        train,
        valid,
        n_its=10**7,
        T=AHEAD,
        batch_size=min(BATCH, len(train) - lags - AHEAD + 1),
        val_freq=CHECK_EVERY,
        loss_fun=loss_or_end,
    )
    return model, CHECK_EVERY * (len(fitted["NRMS_val"]) - 1)


def simulate(model: torch.nn.Module, data, name: str) -> np.ndarray:
    """The outputs of a test record: what is seen, and what the model says of the rest."""
    given, seen = data[f"inputs_{name}"][:, 0], data[f"seen_{name}"][:, 0]
    outputs = np.concatenate([seen, np.zeros(len(given) - len(seen))])  # what follows is not looked at
    test = deepSI.Input_output_data(given, outputs, sampling_time=float(data["time_step"]))
    return model.simulate(test).y[:, None]  # pyright: ignore[reportCallIssue, reportAttributeAccessIssue]


if __name__ == "__main__":
    main()
