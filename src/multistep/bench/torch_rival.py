"""The same training work in PyTorch, eager: the network, windows, balanced loss and Adam as a researcher
would write them."""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import nn

from multistep.bench.workload import ACTIONS, BATCH_SIZE, HIDDEN, MULTIPLICATIONS, STATES
from multistep.data import Episodes, window_starts
from multistep.training import PRESETS, Preset


def torch_work(
    preset: Preset, episodes: Episodes, horizon: int, num_batches: int
) -> tuple[Callable[[], None], float]:
    """`num_batches` gradient steps on one thread, and their floating-point operations (counted as for
    JAX)."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    network = _network(preset)
    optimiser = torch.optim.Adam(network.parameters(), lr=1e-4)
    states, actions = torch.from_numpy(episodes.states), torch.from_numpy(episodes.actions)
    starts = torch.from_numpy(window_starts(episodes, horizon).astype(np.int64))
    steps = torch.arange(horizon + 1)

    def work() -> None:
        for batch in torch.randperm(len(starts))[: num_batches * BATCH_SIZE].reshape(num_batches, BATCH_SIZE):
            first = starts[batch]
            observed = states[first[:, :1] + steps]
            given = actions[first[:, 1:] + steps[:-1]]
            state, errors = observed[:, 0], []
            for step in range(horizon):
                state = state + network(torch.cat([state, given[:, step]], dim=1))
                errors.append(((state - observed[:, step + 1]) ** 2).mean())
            error = torch.stack(errors)
            weights = (1 / error).detach()
            loss = (weights / weights.sum() * error).sum()
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()

    return work, 6.0 * MULTIPLICATIONS * BATCH_SIZE * horizon * num_batches


def _network(preset: Preset) -> nn.Sequential:
    config: Any = PRESETS[preset].network
    layers: list[nn.Module] = []
    for inputs in (STATES + ACTIONS, HIDDEN):
        layers.append(nn.Linear(inputs, HIDDEN))
        layers += [nn.BatchNorm1d(HIDDEN)] if config.batch_norm else []
        layers.append(nn.ReLU())
        layers += [nn.Dropout(config.dropout)] if config.dropout else []
    return nn.Sequential(*layers, nn.Linear(HIDDEN, HIDDEN), nn.Tanh(), nn.Linear(HIDDEN, STATES))
