"""`rollout`: the only place that repeats a step."""

from collections.abc import Callable
from typing import TypeVar

import jax
from jaxtyping import PyTree

Carried = TypeVar("Carried", bound=PyTree)
Input = TypeVar("Input", bound=PyTree)


def rollout(step: Callable[[Carried, Input], Carried], start: Carried, inputs: Input) -> Carried:
    r"""What `step` returns at each of the `inputs`, each time applied to what it returned before.

    $\hat s_{t+j} = \hat p(\hat s_{t+j-1}, a_{t+j-1})$ for j = 1, ..., h with $\hat s_t$ = `start` (Definition
    "Rollout"). A state may be any pytree; inputs and results are stacked along a leading axis of length h.
    Differentiable through every step.
    """

    def advance(carried: Carried, given: Input) -> tuple[Carried, Carried]:
        carried = step(carried, given)
        return carried, carried

    return jax.lax.scan(advance, start, inputs)[1]
