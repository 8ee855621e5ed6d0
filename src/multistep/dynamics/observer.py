"""`Observer`: what the state is, from noisy measurements and a model. The extended Kalman filter and its smoother."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from multistep.dynamics.model import AbstractModel
from multistep.types import Action, Actions, Scalar, State

Measured = Float[Array, "time_and_one state"]
Matrix = Float[Array, "state state"]


class Belief(eqx.Module):
    """Where the state is thought to be."""

    mean: State
    covariance: Matrix


class Filtered(eqx.Module):
    """One step of the filter: the belief before it, what the model made of it, and what the measurement made of that."""

    before: Belief
    predicted: Belief
    jacobian: Matrix
    """Of the model's step, at the belief before."""
    after: Belief
    log_density: Scalar
    """Of the measurement, given those before it."""


class Observer(eqx.Module):
    r"""A model, with white noise on the measured states and on each of the model's steps.

    $s_{t+1} = \hat p(s_t, a_t) + w_t$ and $o_t = s_t + v_t$ with $w$ and $v$ Gaussian, independent in every dimension. All of
    the state is measured.

    ```python
    belief = observer.start(measured)
    belief = observer.observe(belief, action, measured).after     # belief.mean is the best guess of the state
    states = observer.smooth(measured_states, actions)            # with what came later known too
    ```
    """

    model: AbstractModel
    measurement_noise: State
    """Deviation of the noise on each measured state."""
    step_noise: State
    """Deviation of what a step of the model is off by."""

    def start(self, measured: State) -> Belief:
        """The belief after the first measurement, when nothing else is known."""
        return Belief(measured, jnp.diag(self.measurement_noise**2))

    def observe(self, before: Belief, action: Action, measured: State) -> Filtered:
        """The belief after an action and the measurement that followed it."""
        jacobian = jax.jacfwd(self.model.step)(before.mean, action)
        covariance = jacobian @ before.covariance @ jacobian.T + jnp.diag(self.step_noise**2)
        predicted = Belief(self.model.step(before.mean, action), covariance)
        noise = jnp.diag(self.measurement_noise**2)
        surprise = measured - predicted.mean
        spread = _Spread.of(covariance + noise)
        gain = spread.divide(covariance).T
        rest = jnp.eye(len(measured), dtype=gain.dtype) - gain
        after = Belief(predicted.mean + gain @ surprise, _symmetric(rest @ covariance @ rest.T + gain @ noise @ gain.T))
        return Filtered(before, predicted, jacobian, after, spread.log_density(surprise))

    def filter(self, measured: Measured, actions: Actions) -> Filtered:
        """All steps of an episode; `measured` has one state more than there are actions."""

        def advance(belief: Belief, given: tuple[Action, State]) -> tuple[Belief, Filtered]:
            filtered = self.observe(belief, *given)
            return filtered.after, filtered

        return jax.lax.scan(advance, self.start(measured[0]), (actions, measured[1:]))[1]

    def smooth(self, measured: Measured, actions: Actions, num_steps: Int[Array, ""] | None = None) -> Measured:
        """The best guess of every state of an episode, from all of its measurements (Rauch, Tung and Striebel).

        If it is padded, `num_steps` says how many steps it has; the states after them mean nothing.
        """
        filtered = self.filter(measured, actions)
        steps = jnp.arange(len(actions))
        is_last = steps + 1 >= (len(actions) if num_steps is None else num_steps)

        def go_back(later: Belief, given: tuple[Filtered, Bool[Array, ""]]) -> tuple[Belief, State]:
            step, is_last = given
            later = jax.tree.map(lambda end, other: jnp.where(is_last, end, other), step.after, later)
            gain = _Spread.of(step.predicted.covariance).divide(step.jacobian @ step.before.covariance).T
            mean = step.before.mean + gain @ (later.mean - step.predicted.mean)
            correction = gain @ (later.covariance - step.predicted.covariance) @ gain.T
            return Belief(mean, _symmetric(step.before.covariance + correction)), later.mean

        first, later_means = jax.lax.scan(go_back, self.start(measured[0]), (filtered, is_last), reverse=True)
        return jnp.concatenate([first.mean[None], later_means])


class _Spread(eqx.Module):
    """A covariance, factored after its scale was taken out: states of very different sizes keep their digits."""

    scale: State
    factor: Matrix

    @staticmethod
    def of(covariance: Matrix) -> "_Spread":
        scale = jnp.sqrt(jnp.diagonal(covariance))
        return _Spread(scale, jnp.linalg.cholesky(covariance / jnp.outer(scale, scale)))

    def divide(self, matrix: Matrix) -> Matrix:
        """The inverse of the covariance times the matrix."""
        scaled = jax.scipy.linalg.cho_solve((self.factor, True), matrix / self.scale[:, None])
        return scaled / self.scale[:, None]

    def log_density(self, error: State) -> Scalar:
        whitened = jax.scipy.linalg.solve_triangular(self.factor, error / self.scale, lower=True)
        volume = jnp.log(self.scale).sum() + jnp.log(jnp.diagonal(self.factor)).sum()
        return -0.5 * whitened @ whitened - volume - 0.5 * len(error) * jnp.log(2 * jnp.pi)


def _symmetric(matrix: Matrix) -> Matrix:
    return (matrix + matrix.T) / 2
