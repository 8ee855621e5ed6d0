"""`Observer`: what the state is, from noisy measurements and a model. The extended Kalman filter and its
smoother."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from multistep.data import Past
from multistep.dynamics.base import AbstractDynamics, AbstractModel, Memory, Names, Prediction
from multistep.dynamics.forecast import advance
from multistep.types import Action, Actions, Scalar, State

Measured = Float[Array, "time_and_one state"]
Matrix = Float[Array, "state state"]


class Belief(eqx.Module):
    """Where the state is thought to be."""

    mean: State
    covariance: Matrix


class Filtered(eqx.Module):
    """One step of the filter: the belief after it, and what the smoother needs to know of it."""

    after: Belief
    jacobian: Matrix
    """Of the model's step, at the belief before."""
    kept: Matrix
    """What the measurement leaves of an error of the prediction: one minus the gain."""
    weighted_surprise: State
    """What was measured beyond the prediction, divided by its covariance."""
    log_density: Scalar
    """Of the measurement, given those before it."""


class Observer(eqx.Module):
    r"""A model, with white noise on the measured states and on each of the model's steps.

    $s_{t+1} = \hat p(s_t, a_t) + w_t$ and $o_t = s_t + v_t$ with $w$ and $v$ Gaussian, independent in every
    dimension. All of the state is measured.

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
        jacobian = jax.jacfwd(self._predict)(before.mean, action)
        predicted = self._predict(before.mean, action)
        covariance = jacobian @ before.covariance @ jacobian.T + jnp.diag(self.step_noise**2)
        noise, surprise = jnp.diag(self.measurement_noise**2), measured - predicted
        spread = _Spread.of(covariance + noise)
        gain = spread.divide(covariance).T
        kept = jnp.eye(len(measured), dtype=gain.dtype) - gain
        corrected = kept @ covariance @ kept.T + gain @ noise @ gain.T  # Joseph's form: it stays positive
        after = Belief(predicted + gain @ surprise, (corrected + corrected.T) / 2)
        return Filtered(
            after, jacobian, kept, spread.divide(surprise[:, None])[:, 0], spread.log_density(surprise)
        )

    def _predict(self, state: State, action: Action) -> State:
        return advance(self.model, state, action)[1].mean

    def filter(self, measured: Measured, actions: Actions) -> Filtered:
        """All steps of an episode; `measured` has one state more than there are actions."""

        def advance(belief: Belief, given: tuple[Action, State]) -> tuple[Belief, Filtered]:
            filtered = self.observe(belief, *given)
            return filtered.after, filtered

        return jax.lax.scan(advance, self.start(measured[0]), (actions, measured[1:]))[1]

    def smooth(
        self, measured: Measured, actions: Actions, num_steps: Int[Array, ""] | None = None
    ) -> Measured:
        """The best guess of every state of an episode, from all of its measurements.

        The form of Bryson and Frazier, which inverts nothing that the filter has not inverted. If the episode
        is padded, `num_steps` says how many steps it has; the states after them mean nothing.
        """
        filtered = self.filter(measured, actions)
        is_last = jnp.arange(len(actions)) + 1 >= (len(actions) if num_steps is None else num_steps)

        def go_back(later: State, given: tuple[Filtered, Bool[Array, ""]]) -> tuple[State, State]:
            """`later` is what the measurements after a step say of the belief after it, carried to before the
            step."""
            step, is_last = given
            later = jnp.where(is_last, 0, later)
            before = step.jacobian.T @ (step.kept.T @ later - step.weighted_surprise)
            return before, step.after.mean - step.after.covariance @ later

        start = self.start(measured[0])
        later, smoothed = jax.lax.scan(go_back, jnp.zeros_like(start.mean), (filtered, is_last), reverse=True)
        return jnp.concatenate([(start.mean - start.covariance @ later)[None], smoothed])


class ObservedModel(AbstractDynamics):
    """The observer's model, started from the state that the observer believes in after the last measurements.

    What it forecasts can be compared with other models' whatever the noise on a single measurement.
    """

    observer: Observer
    past: int = eqx.field(static=True, default=20)
    """Measurements that it starts from."""

    @property
    def num_past(self) -> int:
        return self.past

    def start(self, past: Past) -> Memory:
        if len(past.states) == 1:
            return past.states[0]
        return self.observer.filter(past.states, past.actions).after.mean[-1]

    def step(self, memory: Memory, given: Any) -> Memory:
        return self.observer.model.step(memory, given)

    def predict(self, memory: Memory) -> Prediction:
        return self.observer.model.predict(memory)

    @property
    def names(self) -> Names | None:
        return self.observer.model.names


class _Spread(eqx.Module):
    """A covariance, factored after its scale was taken out: states of very different sizes keep their
    digits."""

    scale: State
    factor: Matrix

    @staticmethod
    def of(covariance: Matrix) -> "_Spread":
        scale = jnp.sqrt(jnp.diagonal(covariance))
        return _Spread(scale, jnp.linalg.cholesky(covariance / jnp.outer(scale, scale)))

    def divide(self, columns: Float[Array, "state columns"]) -> Float[Array, "state columns"]:
        """The inverse of the covariance times the columns."""
        return (
            jax.scipy.linalg.cho_solve((self.factor, True), columns / self.scale[:, None])
            / self.scale[:, None]
        )

    def log_density(self, error: State) -> Scalar:
        whitened = jax.scipy.linalg.solve_triangular(self.factor, error / self.scale, lower=True)
        volume = jnp.log(self.scale).sum() + jnp.log(jnp.diagonal(self.factor)).sum()
        return -0.5 * whitened @ whitened - volume - 0.5 * len(error) * jnp.log(2 * jnp.pi)
