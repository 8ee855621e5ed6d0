"""`Aggregated`: data as demonstrator. Fit, roll out, add what should have come next to the data, fit
again."""

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from multistep.data import Episodes, Past, cut, join
from multistep.dynamics import AbstractDynamics, forecast
from multistep.errors import InputError
from multistep.losses import Uniform
from multistep.training.base import AbstractRecipe, Fit, Score
from multistep.training.history import Outcome
from multistep.training.once import Once
from multistep.training.settings import Settings
from multistep.types import Key


@dataclass(frozen=True)
class Aggregated(AbstractRecipe):
    r"""Data as demonstrator (Venkatraman, Hebert and Bagnell, 2015): one-step fits to more and more data.

    After each fit its model is rolled out along the training episodes, $\hat s_{t+j}$ from $s_t$ with the
    actions that were taken, and the pairs $((\hat s_{t+j}, a_{t+j}), s_{t+j+1})$ join the data: from where
    the model has come to, the true next state is where it should go. Then it is fitted anew to all data, and
    of all models the one that predicts the validation episodes best is kept. The parts of the fit are called
    round_0 (without such pairs), round_1 and so on.
    """

    recipe: AbstractRecipe = field(default_factory=lambda: Once(horizon=1, weights=Uniform()))
    """Each of the fits, of one step ahead."""
    rounds: int = 3
    """How often pairs are added: each time nearly as many as there are steps in the training episodes."""
    steps: int = 5
    """Length of the rollouts; each begins where the one before it ends. Where rollouts drift apart, what is
    true after many steps says little of where the model has come to."""

    def __post_init__(self) -> None:
        if self.rounds < 1 or self.steps < 2:
            raise InputError(
                f"Data as demonstrator with {self.rounds} rounds of {self.steps} steps: it takes 1 or more "
                "rounds, of 2 or more steps."
            )
        if self.recipe.settings.horizon != 1:
            raise InputError(
                "Data as demonstrator adds pairs of one step, and the horizon is "
                f"{self.recipe.settings.horizon}: give it a recipe with horizon 1."
            )

    @staticmethod
    def of(recipe: AbstractRecipe, rounds: int = 3, steps: int = 5) -> "Aggregated":
        """With a horizon of 1, whatever that of the recipe."""
        return Aggregated(recipe.vary(horizon=1, weights=Uniform()), rounds, steps)

    @property
    def settings(self) -> Settings:
        return self.recipe.settings

    def vary(self, **changes: Any) -> "Aggregated":
        return replace(self, recipe=self.recipe.vary(**changes))

    def most_steps(self, train: Episodes) -> int | None:
        """Those of the fits and of the rollouts between them."""
        total, data = 0, train
        for number in range(self.rounds + 1):
            steps = self.recipe.most_steps(data)
            if steps is None:
                return None
            total += steps + (train.num_steps if number else 0)
            data = join(data, train)  # as many pairs at most
        return total

    def fit(
        self,
        train: Episodes,
        valid: Episodes,
        *,
        key: Key,
        score: Score,
        checkpoint: str | Path | None = None,
    ) -> Fit:
        """The best of all rounds; each has a checkpoint of its own."""
        parts: dict[str, Fit] = {}
        data, file = train, None if checkpoint is None else Path(checkpoint)
        for number in range(self.rounds + 1):
            name = f"round_{number}"
            parts[name] = self.recipe.fit(
                data,
                valid,
                key=jax.random.fold_in(key, number) if number else key,
                score=score,
                checkpoint=None if file is None else file.with_stem(f"{file.stem}_{name}"),
            )
            if number == self.rounds or parts[name].outcome in (Outcome.DIVERGED, Outcome.INTERRUPTED):
                break
            data = join(data, demonstrations(parts[name].model, train, self.steps))
        judged = {name: part.best_score for name, part in parts.items()}
        chosen = max(judged, key=lambda name: judged[name])
        kept = parts[chosen]
        *_, last = parts.values()
        outcome = last.outcome if last.outcome is Outcome.INTERRUPTED else kept.outcome
        note = f"Data as demonstrator: {chosen} of {len(parts)} rounds predicts the validation episodes best."
        return replace(
            kept, outcome=outcome, notes=(*kept.notes, note), parts=parts, chosen=chosen, judged=judged
        )


def demonstrations(model: AbstractDynamics, train: Episodes, steps: int) -> Episodes:
    """Episodes of one step, each from a state that the model has predicted to the true state after it.

    The model is rolled out from every `steps`-th state. What has left the range of the training states by
    more than its width is left out: what is true after it says nothing of the system there.
    """
    if model.num_past != 1:
        raise InputError(
            f"Data as demonstrator adds pairs of single states, and the model starts from {model.num_past}: "
            "leave lags and hidden states out."
        )
    pieces = cut(train, steps)
    befores, actions, afters = [], [], []
    for length in np.unique(pieces.lengths).tolist():
        alike = [pieces[int(number)] for number in np.flatnonzero(pieces.lengths == length)]
        states = np.stack([piece.states for piece in alike])
        given = np.stack([piece.actions for piece in alike])
        predicted = _rollouts(model, jnp.asarray(states[:, 0], float), jnp.asarray(given, float))
        befores.append(np.asarray(predicted)[:, :-1].reshape(-1, train.state_size))
        actions.append(given[:, 1:].reshape(-1, train.action_size))
        afters.append(states[:, 2:].reshape(-1, train.state_size))
    before, action, after = map(np.concatenate, (befores, actions, afters))
    low, high = train.states.min(axis=0), train.states.max(axis=0)
    near = ((before >= 2 * low - high) & (before <= 2 * high - low)).all(axis=1)  # also none that is NaN
    pairs = np.stack([before, after], axis=1)[near].reshape(-1, train.state_size)
    return replace(
        train,
        states=pairs.astype(train.states.dtype),
        actions=action[near],
        lengths=np.ones(int(near.sum()), train.lengths.dtype),
        rewards=None,
        origins=(),
    )


@eqx.filter_jit
def _rollouts(model: AbstractDynamics, starts: jax.Array, actions: jax.Array) -> jax.Array:
    def rolled_out(start: jax.Array, actions: jax.Array) -> jax.Array:
        return forecast(model, Past(start[None], actions[:0]), actions).mean

    return jax.vmap(rolled_out)(starts, actions)
