"""`multistep bench sigmoid`: the 9,000 trainings of the two-parameter network as one program, beside a
PyTorch loop."""

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from multistep.errors import InputError
from multistep.runs.row_log import Row
from multistep.runs.run_folder import check_run, write_run
from multistep.studies.scales import Scale
from multistep.studies.sigmoid import (
    LEARNING_RATES,
    TRUE_PARAMETERS,
    Ablation,
    SigmoidConfig,
    ablation_inputs,
    prepare,
    run_ablation,
)

COMMAND = "bench sigmoid"


@dataclass(frozen=True)
class SigmoidBenchConfig:
    """The trainings of the two-parameter network as one program, beside a PyTorch loop."""

    out: Path = Path("runs/bench-sigmoid")
    """Folder for the results."""
    scale: Scale = "paper"
    """Size of the ablation."""
    torch_trainings: int = 20
    """Trainings to run in PyTorch as well, drawn at random; their results must agree."""
    rounds: int = 3
    """Times that the program is run; PyTorch's trainings are spread between them."""


def run_sigmoid_bench(config: SigmoidBenchConfig) -> dict[str, Any]:
    """Measure, leave rows and summary in `config.out` and return the summary."""
    check_run(config.out, COMMAND)
    if config.rounds < 1 or config.torch_trainings < 1:
        raise InputError("The benchmark needs at least one round and one training in PyTorch.")
    ablation = prepare(SigmoidConfig(scale=config.scale))
    program = run_ablation.lower(*ablation_inputs(ablation)).compile()
    number = 2 * len(ablation.rows)
    rng = np.random.default_rng(0)
    chosen = [
        (int(rng.integers(2)), int(rng.integers(len(ablation.rows)))) for _ in range(config.torch_trainings)
    ]
    rows: list[Row] = []
    results: dict[str, np.ndarray] = {}
    for turn in range(config.rounds):
        started = time.perf_counter()
        results = {name: np.asarray(values) for name, values in program(*ablation_inputs(ablation)).items()}
        seconds = time.perf_counter() - started
        rows.append(
            {"item": "program", "round": turn, "seconds": seconds, "trainings": number, "difference": 0.0}
        )
        for which, training in chosen[turn :: config.rounds]:
            started = time.perf_counter()
            distance = torch_distance(ablation, which, training)
            seconds = time.perf_counter() - started
            difference = abs(distance - float(results["distance"][which, training, -1]))
            rows.append(
                {"item": "torch", "round": turn, "seconds": seconds, "trainings": 1, "difference": difference}
            )
    each = {
        item: float(np.median([row["seconds"] / row["trainings"] for row in rows if row["item"] == item]))
        for item in ("program", "torch")
    }
    summary = {
        "trainings": number,
        "program_seconds": each["program"] * number,
        "torch_seconds_each": each["torch"],
        "faster_than_torch": each["torch"] / each["program"],
        "largest_difference": max(row["difference"] for row in rows),
    }
    write_run(config.out, COMMAND, config, rows, summary)
    return summary


def torch_distance(ablation: Ablation, which: int, training: int) -> float:
    """Mean squared distance of the parameters to the truth after the same training, written as a PyTorch
    loop."""
    import torch

    torch.set_num_threads(1)
    parameters = torch.nn.Parameter(torch.from_numpy(np.array(ablation.starts[training])))
    alpha = float(ablation.alphas[training])
    observed = torch.from_numpy(np.array(ablation.training[int(ablation.datasets[training])]))
    kind, rate = list(LEARNING_RATES.items())[which]
    optimiser = (torch.optim.Adam if kind == "adam" else torch.optim.SGD)([parameters], lr=rate)
    for epoch in torch.from_numpy(np.array(ablation.batches)):
        for batch in epoch:
            states = observed[batch]
            one = parameters[0] * torch.sigmoid(parameters[1] * states[:, 0])
            two = parameters[0] * torch.sigmoid(parameters[1] * one)
            loss = (
                alpha * ((one - states[:, 1]) ** 2).mean() + (1 - alpha) * ((two - states[:, 2]) ** 2).mean()
            )
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
    truth = torch.tensor(TRUE_PARAMETERS)
    return float(((parameters.detach() - truth) ** 2).mean())
