"""Weights of the horizons: alpha_1, ..., alpha_h, not negative, summing to 1.

A kind of weights is an object; calling it with the errors of a batch gives the alphas to use on that batch.
"""

import math
from abc import abstractmethod
from collections.abc import Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.core import Tracer
from jaxtyping import Array, Float
from numpy import ndarray

from multistep.errors import InputError
from multistep.registry import Registry, shortest
from multistep.runs.provenance import plain
from multistep.types import PerHorizon, Scalar


class AbstractWeights(eqx.Module):
    """A rule for the alphas. Its numbers are inputs of compiled code: changing them compiles nothing anew."""

    @abstractmethod
    def __call__(self, errors: PerHorizon) -> PerHorizon:
        """The alphas, given the mean squared error at each horizon over the current batch."""

    def check(self, horizon: int) -> None:
        """Raise an `InputError` unless the weights can be used with this horizon."""


class Exponential(AbstractWeights):
    r"""$\alpha_i = \beta^{i-1} / \sum_k \beta^{k-1}$: falling with the horizon for beta < 1, rising for beta
    > 1.

    The normalising constant printed in the paper does not make them sum to 1; this one does, and gives its
    examples.
    """

    beta: float | int | Scalar

    def __check_init__(self) -> None:
        if not isinstance(self.beta, Tracer) and not (math.isfinite(self.beta) and self.beta > 0):
            raise InputError(
                f"The beta of exponential weights is {self.beta}: it must be a finite number above 0."
            )

    def __call__(self, errors: PerHorizon) -> PerHorizon:
        # A softmax over logarithms: beta 20 to the power of 49 is past single precision.
        return jax.nn.softmax(
            jnp.arange(errors.size, dtype=errors.dtype) * jnp.log(jnp.asarray(self.beta, errors.dtype))
        )


class Uniform(AbstractWeights):
    """Every horizon weighs the same, as in most related work."""

    def __call__(self, errors: PerHorizon) -> PerHorizon:
        return jnp.full_like(errors, 1 / errors.size)


class Custom(AbstractWeights):
    """Alphas given one by one."""

    alphas: tuple[float, ...]

    def __init__(self, alphas: Sequence[float] | Float[Array | ndarray, " horizon"]):
        self.alphas = tuple(map(float, alphas))

    def __check_init__(self) -> None:
        if any(not alpha >= 0 for alpha in self.alphas):
            raise InputError(f"The weights are {self.alphas}: none may be negative.")
        if abs(math.fsum(self.alphas) - 1) > 1e-4:
            raise InputError(
                f"The weights {self.alphas} sum to {math.fsum(self.alphas):g}: they must sum to 1."
            )

    def __call__(self, errors: PerHorizon) -> PerHorizon:
        return jnp.stack([jnp.asarray(alpha, errors.dtype) for alpha in self.alphas])

    def check(self, horizon: int) -> None:
        if len(self.alphas) != horizon:
            raise InputError(
                f"There are {len(self.alphas)} weights for a horizon of {horizon}: give one weight per step "
                "ahead."
            )


class Balanced(AbstractWeights):
    r"""$\alpha_j \propto 1 / e_j$ with $e_j$ the error of the current batch: every horizon contributes the
    same.

    No gradient flows through the weights; the direction of descent is that of the mean of $\log e_j$.
    """

    def __call__(self, errors: PerHorizon) -> PerHorizon:
        # The softmax of -log e is (1/e) / sum(1/e), also for errors whose inverse would overflow.
        return jax.nn.softmax(-jnp.log(jax.lax.stop_gradient(errors) + jnp.finfo(errors.dtype).tiny))


def effective_horizon(alphas: PerHorizon) -> Scalar:
    r"""$h_e = \sum_i i\,\alpha_i$, the mean step ahead that the loss looks at (Appendix "effective
    horizon")."""
    return jnp.sum(jnp.arange(1, alphas.size + 1, dtype=alphas.dtype) * alphas)


WEIGHTS = Registry(
    "weights",
    AbstractWeights,
    {"balanced": Balanced, "uniform": Uniform, "exponential": Exponential},
    usage="balanced, uniform, exponential:BETA (as in exponential:1.5), the weights themselves with commas "
    "between (as in 0.5,0.3,0.2), or module:Name for a rule of your own",
)


def parse_weights(text: str) -> AbstractWeights:
    """Weights as typed: `balanced`, `uniform`, `exponential:1.5`, `module:Name`, or the alphas as
    `0.5,0.3,0.2`."""
    try:
        alphas = [float(alpha) for alpha in text.split(",")]
    except ValueError:
        return WEIGHTS.find(text)
    return Custom(alphas)


@plain.register
def describe_weights(weights: AbstractWeights) -> str:
    """The text that `parse_weights` reads back."""
    if isinstance(weights, Exponential):
        return f"exponential:{shortest(float(weights.beta))}"
    if isinstance(weights, Custom):
        return ",".join(shortest(float(alpha)) for alpha in weights.alphas)
    return WEIGHTS.describe(weights)
