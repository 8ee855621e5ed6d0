"""`normal_equations`: the Gauss-Newton matrix of rollouts, gathered in one pass forward; `improve`, a damped
step by it."""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float

from multistep.data import Past, Window
from multistep.dynamics import AbstractDynamics, forecast
from multistep.types import Action, Scalar, State

Weights = Float[Array, " weights"]
Carried = Float[Array, " carried"]
"""The memory of a dynamics as one row of numbers."""
DAMPINGS = (0.01, 0.1, 1.0, 10.0, 100.0)
"""Tried in each iteration, times the one that was best before; the least error wins."""
LEAST_DAMPING, MOST_DAMPING = 1e-9, 1e9
Share = Float[Array, "windows horizon"]
"""What the error of each window at each step ahead counts; 0 leaves it out."""
NOTHING = 1e-12
"""Of the diagonal, where a weight does not matter at all."""


class NormalEquations(NamedTuple):
    r"""$J^\top J$ and $J^\top r$ of the residuals r of all rollouts and their slopes J by the weights."""

    matrix: Float[Array, "weights weights"]
    slope: Weights
    squares: Scalar
    r"""$r^\top r$."""


class Descent(NamedTuple):
    """Where a descent is."""

    weights: Weights
    cost: Scalar
    damping: Scalar


def flat_weights(dynamics: AbstractDynamics) -> Weights:
    """What is trained of a dynamics, as one row."""
    return ravel_pytree(eqx.filter(dynamics, dynamics.trained()))[0]


def with_weights(dynamics: AbstractDynamics, weights: Weights) -> AbstractDynamics:
    """The dynamics with other values of what is trained."""
    trained, rest = eqx.partition(dynamics, dynamics.trained())
    return eqx.combine(ravel_pytree(trained)[1](weights), rest)


def squared_residuals(
    dynamics: AbstractDynamics, weights: Weights, batch: Window
) -> Float[Array, "windows horizon"]:
    """Squared errors of the rollouts of all windows at each step ahead, summed over what is predicted."""
    learned = with_weights(dynamics, weights)
    predicted = jax.vmap(lambda window: forecast(learned, window.past, window.actions).mean)(batch)
    return ((predicted - batch.states) ** 2).sum(axis=-1)


def normal_equations(
    dynamics: AbstractDynamics, weights: Weights, batch: Window, share: Share
) -> NormalEquations:
    r"""The normal equations of the rollouts' errors.

    With $m_{t+1} = f_\theta(m_t, a_t)$ the slopes $S_t = \partial m_t / \partial \theta$ follow the rollout,
    $S_{t+1} = \frac{\partial f}{\partial m} S_t + \frac{\partial f}{\partial \theta}$, and each step adds its
    part of $J^\top J$: the memory that it takes depends on the number of windows, not on their length.

    **Arguments:**

    - `dynamics`: whose shape the weights have, and what of it is not trained.
    - `weights`: where to look.
    - `batch`: windows.
    - `share`: what each of its errors counts.
    """
    _, as_memory = ravel_pytree(dynamics.start(jax.tree.map(lambda each: each[0], batch.past)))

    def start(weights: Weights, past: Past) -> Carried:
        return ravel_pytree(with_weights(dynamics, weights).start(past))[0]

    def step(weights: Weights, memory: Carried, action: Action) -> Carried:
        return ravel_pytree(with_weights(dynamics, weights).step(as_memory(memory), action))[0]

    def predict(weights: Weights, memory: Carried) -> State:
        return with_weights(dynamics, weights).predict(as_memory(memory)).mean

    def begin(past: Past) -> tuple[Carried, Any]:
        return start(weights, past), jax.jacrev(start)(weights, past)

    def advance(memory: Carried, slopes: Any, action: Action, target: State) -> tuple[Any, ...]:
        by_weights, by_memory = jax.jacrev(step, argnums=(0, 1))(weights, memory, action)
        memory, slopes = step(weights, memory, action), by_memory @ slopes + by_weights
        by_weights, by_memory = jax.jacrev(predict, argnums=(0, 1))(weights, memory)
        return memory, slopes, predict(weights, memory) - target, by_memory @ slopes + by_weights

    def gather(carried: tuple[Any, NormalEquations], given: tuple[Any, Any, Any]) -> tuple[Any, None]:
        (memories, slopes), sums = carried
        actions, targets, counts = given
        memories, slopes, residuals, rows = jax.vmap(advance)(memories, slopes, actions, targets)
        root = jnp.sqrt(counts)
        errors = _counted(root[:, None], residuals).ravel()
        rows = _counted(root[:, None, None], rows).reshape(errors.size, -1)
        parts = NormalEquations(rows.T @ rows, rows.T @ errors, errors @ errors)
        return ((memories, slopes), jax.tree.map(jnp.add, sums, parts)), None

    nothing = NormalEquations(jnp.zeros((weights.size,) * 2), jnp.zeros(weights.size), jnp.zeros(()))
    in_time: Any = tuple(jnp.swapaxes(each, 0, 1) for each in (batch.actions, batch.states, share))
    (_, sums), _ = jax.lax.scan(gather, (jax.vmap(begin)(batch.past), nothing), in_time)
    return sums


def residual_count(batch: Window, share: Share) -> Scalar:
    """How many residuals count."""
    return share.sum() * batch.states.shape[2]


def cost_of(
    dynamics: AbstractDynamics,
    weights: Weights,
    batch: Window,
    share: Share,
    ridge: Scalar,
) -> Scalar:
    r"""$r^\top r / N + \rho \|\theta - \theta_0\|^2$ with $\theta_0$ the dynamics' own weights."""
    squares = _counted(share, squared_residuals(dynamics, weights, batch)).sum()
    departure = ((weights - flat_weights(dynamics)) ** 2).sum()
    return squares / residual_count(batch, share) + ridge * departure


def improve(
    dynamics: AbstractDynamics,
    batch: Window,
    share: Share,
    ridge: Scalar,
    descent: Descent,
) -> Descent:
    r"""One iteration of Levenberg and Marquardt: of several dampings $\lambda$ the step with the least cost.

    $\Delta = -(H + \lambda \operatorname{diag} H)^{-1} g$ for the cost
    $r^\top r / N + \rho \|\theta - \theta_0\|^2$; where none is lower, the weights stay and the damping
    grows.

    **Arguments:**

    - `dynamics`, `batch`, `share`: see `normal_equations`; its own weights are $\theta_0$.
    - `ridge`: $\rho$.
    - `descent`: where it is.
    """
    first, count = flat_weights(dynamics), residual_count(batch, share)
    sums = normal_equations(dynamics, descent.weights, batch, share)
    matrix = sums.matrix / count + ridge * jnp.eye(first.size)
    slope = sums.slope / count + ridge * (descent.weights - first)
    diagonal = jnp.diag(matrix)
    scale = 1 / jnp.sqrt(diagonal + NOTHING * diagonal.max())
    # One decomposition serves all dampings.
    squares, directions = jnp.linalg.eigh(scale[:, None] * matrix * scale[None])
    along = directions.T @ (scale * slope)

    def attempt(damping: Scalar) -> tuple[Weights, Scalar]:
        step = directions @ (along / (jnp.maximum(squares, 0.0) + damping))
        weights = descent.weights - scale * step
        return weights, cost_of(dynamics, weights, batch, share, ridge)

    dampings = jnp.clip(descent.damping * jnp.array(DAMPINGS), LEAST_DAMPING, MOST_DAMPING)
    tried, costs = jax.vmap(attempt)(dampings)
    costs = jnp.where(jnp.isfinite(costs), costs, jnp.inf)
    best = jnp.argmin(costs)
    better = costs[best] < descent.cost
    return Descent(
        jnp.where(better, tried[best], descent.weights),
        jnp.where(better, costs[best], descent.cost),
        jnp.where(better, dampings[best], jnp.minimum(MOST_DAMPING, descent.damping * 1000.0)),
    )


def _counted(share: Array, values: Array) -> Array:
    """Values times what they count; what does not count may be no number."""
    return jnp.where(share > 0, share * values, 0.0)
