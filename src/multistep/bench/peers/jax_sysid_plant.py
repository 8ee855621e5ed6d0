"""jax-sysid on the record of a plant, in an environment of its own: a line and a few sigmoids, over the whole
record.

`python jax_sysid_plant.py INPUT.npz OUTPUT.npz --seed 0 --seconds 120`; what is in the files is said in
`multistep.bench.peer_runs`. Settings are those of the library's own examples, but for the sizes.
"""

import argparse
import time
from importlib.metadata import version

import jax
import numpy as np
from jax_sysid.models import Model  # pyright: ignore[reportMissingImports]

HIDDEN, SIGMOIDS = 4, 5
RHO, SCALE = 1e-4, 0.1
ADAM, LBFGS = 1000, 1000
SMOOTHINGS = 10


def state_fcn(x, u, params):
    a, b, _, inner, given, outer, bias, offset = params
    return a @ x + b @ u + outer @ jax.nn.sigmoid(inner @ x + given @ u + bias) + offset


def output_fcn(x, u, params):
    return params[2] @ x


def main() -> None:
    """Fit, simulate, write."""
    parser = argparse.ArgumentParser()
    parser.add_argument("source")
    parser.add_argument("target")
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--seconds", type=float, required=True)
    words = parser.parse_args()
    data = np.load(words.source)
    inputs, outputs = data["train_inputs"], data["train_outputs"]
    (u_mean, u_unit), (y_mean, y_unit) = ((each.mean(0), each.std(0)) for each in (inputs, outputs))
    started = time.process_time()
    model = fit((outputs - y_mean) / y_unit, (inputs - u_mean) / u_unit, words.seed)
    seconds = time.process_time() - started
    found = {}
    for name in data["tests"]:
        given = (data[f"inputs_{name}"] - u_mean) / u_unit
        seen = (data[f"seen_{name}"] - y_mean) / y_unit
        start = model.learn_x0(
            given[: len(seen)], seen, RTS_epochs=SMOOTHINGS, LBFGS_refinement=True, verbosity=False
        )
        found[f"predicted_{name}"] = np.asarray(model.predict(start, given)[0]) * y_unit + y_mean
    about = f"jax-sysid {version('jax-sysid')}, jax {jax.__version__}"
    np.savez(words.target, seconds=seconds, about=about, **found)


def fit(outputs: np.ndarray, inputs: np.ndarray, seed: int) -> Model:
    """The model of the whole record; how long it takes is in the numbers of its epochs."""
    rng = np.random.default_rng(seed)
    num_inputs, num_outputs = inputs.shape[1], outputs.shape[1]

    def drawn(*shape: int) -> np.ndarray:
        return SCALE * rng.standard_normal(shape)

    model = Model(HIDDEN, num_outputs, num_inputs, state_fcn=state_fcn, output_fcn=output_fcn)
    model.init(
        params=[
            0.5 * np.eye(HIDDEN),
            drawn(HIDDEN, num_inputs),
            drawn(num_outputs, HIDDEN),
            drawn(SIGMOIDS, HIDDEN),
            drawn(SIGMOIDS, num_inputs),
            drawn(HIDDEN, SIGMOIDS),
            np.zeros(SIGMOIDS),
            np.zeros(HIDDEN),
        ]
    )
    model.loss(rho_x0=RHO, rho_th=RHO)
    model.optimization(adam_epochs=ADAM, lbfgs_epochs=LBFGS, iprint=-1)
    model.fit(outputs, inputs)
    return model


if __name__ == "__main__":
    main()
