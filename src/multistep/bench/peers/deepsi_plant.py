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
    os.environ["HOME"] = tempfile.mkdtemp()  # it keeps what it trains in the user's folder otherwise
    import deepSI  # pyright: ignore[reportMissingImports]

    torch.set_num_threads(1)
    torch.manual_seed(words.seed)
    data = np.load(words.source)
    lags = len(data[f"seen_{data['tests'][0]}"])
    record = deepSI.Input_output_data(
        data["train_inputs"][:, 0], data["train_outputs"][:, 0], sampling_time=float(data["time_step"])
    )
    first = int((1 - VALIDATION) * len(record))
    train, valid = record[:first], record[first:]
    started = time.process_time()
    size, outputs, norm = deepSI.get_nu_ny_and_auto_norm(train)
    model = deepSI.SUBNET(size, outputs, norm, nx=HIDDEN, nb=lags, na=lags)
    windows = len(train) - lags - AHEAD + 1

    def loss_or_end(*given):
        """Its training ends at an interrupt with the best model so far: that is how it is given a time."""
        if time.process_time() - started > words.seconds:
            raise KeyboardInterrupt
        return deepSI.fitting.compute_NMSE(*given)

    fitted = deepSI.fit(
        model,
        train,
        valid,
        n_its=10**7,
        T=AHEAD,
        batch_size=min(BATCH, windows),
        val_freq=CHECK_EVERY,
        loss_fun=loss_or_end,
    )
    seconds = time.process_time() - started
    found = {}
    for name in data["tests"]:
        given, seen = data[f"inputs_{name}"][:, 0], data[f"seen_{name}"][:, 0]
        outputs = np.concatenate([seen, np.zeros(len(given) - lags)])  # what follows is not looked at
        test = deepSI.Input_output_data(given, outputs, sampling_time=float(data["time_step"]))
        found[f"predicted_{name}"] = model.simulate(test).y[:, None]
    updates = CHECK_EVERY * (len(fitted["NRMS_val"]) - 1)
    about = f"deepSI {version('deepSI')}, torch {torch.__version__}, about {updates} updates"
    np.savez(words.target, seconds=seconds, about=about, **found)


if __name__ == "__main__":
    main()
