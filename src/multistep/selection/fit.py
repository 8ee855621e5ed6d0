"""`fit`: the default way from episodes to a model."""

from pathlib import Path

from multistep.data import Episodes
from multistep.errors import InputError
from multistep.evaluation import R2Bar
from multistep.selection.automatic import Automatic
from multistep.training import AbstractRecipe, Fit, Score
from multistep.types import Key

VALIDATION_HORIZON = 50
"""Steps ahead over which the validation episodes are predicted, where the user does not say otherwise."""


def fit(
    train: Episodes,
    valid: Episodes,
    recipe: AbstractRecipe = Automatic(),  # noqa: B008 - frozen
    *,
    key: Key,
    score: Score = R2Bar(VALIDATION_HORIZON),  # noqa: B008 - frozen
    checkpoint: str | Path | None = None,
) -> Fit:
    """A model of `train`, as it was when it predicted `valid` best.

    ```python
    fit = ms.fit(train, valid, key=jax.random.key(0))
    fit.model.rollout(state, actions)
    ```
    By default a line, a small network where data are few, and a large one, again without the noise if there
    is any, are fitted, and a judge chooses: `fit.notes` says what was tried, what was chosen and why,
    `fit.parts` has every fit, `fit.judged` its score, and `fit.observer` the noise that was found. With
    `Once(...)` it is fitted once, to the states as they were measured. A fit that diverges or is interrupted
    (Ctrl-C) returns what it has and says so in `fit.outcome`.

    **Arguments:**

    - `train`: episodes to learn from.
    - `valid`: episodes to choose the epoch by; not trained on.
    - `recipe`: how: `Automatic(...)`, `Once(...)`, `Smoothed(...)`, or one of your own.
    - `key`: a `jax.random.key`; the same key gives the same bits on the same machine.
    - `score`: how well a model predicts episodes; by default R2bar over 50 steps ahead.
    - `checkpoint`: a file (several fits have theirs beside it); the same call goes on where a killed
    one stopped.
    """
    if not isinstance(recipe, AbstractRecipe):
        raise InputError(f"The recipe is {recipe!r}: give an Automatic(...), or a Once(...) for one fit.")
    return recipe.fit(train, valid, key=key, score=score, checkpoint=checkpoint)
