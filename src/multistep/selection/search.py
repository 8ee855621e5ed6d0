"""Ways through the candidates: all of them in full, or successive halving over the length of the training."""

import math
import random
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from multistep.errors import InputError
from multistep.selection.ranked import Ranked
from multistep.training import AbstractRecipe

Evaluate = Callable[[Sequence[AbstractRecipe]], list[Ranked]]


class AbstractSearch(ABC):
    """A way through the candidates."""

    @abstractmethod
    def __call__(self, candidates: Sequence[AbstractRecipe], evaluate: Evaluate) -> list[Ranked]:
        """The candidates that were trained in full, with their scores. `evaluate` trains and scores
        configurations."""


@dataclass(frozen=True)
class Grid(AbstractSearch):
    """Every candidate in full."""

    def __call__(self, candidates: Sequence[AbstractRecipe], evaluate: Evaluate) -> list[Ranked]:
        return evaluate(candidates)


@dataclass(frozen=True)
class Halving(AbstractSearch):
    """Successive halving: short trainings of all candidates, longer ones of the best, full ones of the best
    of those.

    Each rung trains `factor` times as long as the one before and keeps about one candidate in `factor`. Every
    training has a learning rate that falls to zero over its own length: a short one is a small version of the
    full one, not its start. Optuna's pruner decides who goes on: whoever is among the best of those that it
    has seen so far on this rung. It sees the first rung in a shuffled order, the later ones with the best of
    the rung before first.
    """

    factor: int = 4
    num_rungs: int = 3
    seed: int = 0
    """Seed of the order."""

    def __post_init__(self) -> None:
        if self.factor < 2 or self.num_rungs < 1:
            raise InputError(
                f"Halving by {self.factor} in {self.num_rungs} rungs: give a factor of 2 or more, a rung or "
                "more."
            )

    def __call__(self, candidates: Sequence[AbstractRecipe], evaluate: Evaluate) -> list[Ranked]:
        optuna = _optuna()
        pruner = optuna.pruners.SuccessiveHalvingPruner(min_resource=1, reduction_factor=self.factor)
        study = optuna.create_study(direction="maximize", pruner=pruner)
        alive = [
            (study.ask(), config)
            for config in random.Random(self.seed).sample(list(candidates), len(candidates))
        ]
        for rung in range(self.num_rungs - 1):
            scored = evaluate(
                [shortened(config, self.factor ** (self.num_rungs - 1 - rung)) for _, config in alive]
            )
            for (trial, _), ranked in zip(alive, scored, strict=True):
                trial.report(ranked.mean, step=self.factor**rung)
            kept = [
                (ranked.mean, trial, config)
                for ranked, (trial, config) in zip(scored, alive, strict=True)
                if not trial.should_prune()
            ]
            alive = [(trial, config) for _, trial, config in sorted(kept, key=lambda entry: -entry[0])]
        return evaluate([config for _, config in alive])


def shortened(recipe: AbstractRecipe, factor: int) -> AbstractRecipe:
    """The recipe with a training shorter by this factor."""
    training = recipe.settings
    epochs, least_steps = math.ceil(training.epochs / factor), math.ceil(training.least_steps / factor)
    return recipe.vary(epochs=epochs, least_steps=least_steps, patience=None)


def _optuna() -> Any:
    try:
        import optuna
    except ImportError as error:
        raise InputError(
            "Halving needs Optuna: install multistep with the extra 'sweeps' (multistep[sweeps])."
        ) from error
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    return optuna
