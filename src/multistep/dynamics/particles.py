"""Particles: what may follow, many times over. Each has its member, its start and the errors of its steps."""

from collections.abc import Sequence
from typing import Literal

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from multistep.data import Past
from multistep.dynamics.base import AbstractDynamics, AbstractModel, last_of
from multistep.dynamics.forecast import forecast
from multistep.dynamics.observer import Belief, Observer
from multistep.dynamics.stacked import of_each
from multistep.dynamics.uncertainty import ONE_DEVIATION, Forecast, Uncertainty
from multistep.types import Action, Actions, Key, State

Members = Literal["kept", "drawn", "mean"]
"""Whether a particle keeps one member of an ensemble, has one drawn for each step, or takes the mean."""
Particles = Float[Array, "particles state"]
Trajectories = Float[Array, "particles time state"]


def roll_particles(
    model: AbstractModel,
    uncertainty: Uncertainty,
    past: Past,
    actions: Actions,
    *,
    number: int,
    key: Key,
    members: Members = "kept",
) -> Trajectories:
    r"""States that may follow the past, a trajectory for each particle.

    $s^i_t \sim \mathcal N(\hat s_t, P_t)$, the observer's belief after the past, and
    $s^i_{t+j+1} = f_i(s^i_{t+j}, a_{t+j}) + \varepsilon^i_{t+j}$ with the deviation of a step's error: the
    model's own, if it has learned one, else the observer's.

    **Arguments:**

    - `model`: one model, or an ensemble whose members share the particles evenly.
    - `uncertainty`: deviations of the noise.
    - `past`: what was measured, the newest at the end; the more, the surer is the start.
    - `actions`: those that follow.
    - `number`: of particles, or a few more, so that every member has as many.
    - `key`: for everything that is drawn.
    - `members`: what the members of an ensemble mean to a particle.
    """
    own = model.separate() if members != "mean" else (model,)
    each = -(-number // len(own))
    start_key, steps_key = jax.random.split(key)
    belief = _belief(model, uncertainty, past)
    starts = jax.random.multivariate_normal(
        start_key, belief.mean, belief.covariance, (each * len(own),), method="svd"
    ).astype(belief.mean.dtype)

    def advance(particles: Particles, given: tuple[Action, Key]) -> tuple[Particles, Particles]:
        action, key = given
        noise_key, draw_key = jax.random.split(key)
        errors = jax.random.normal(noise_key, particles.shape, particles.dtype)
        if members != "drawn":
            after = _step(own, uncertainty.step_noise, particles, errors, action)
            return after, after
        order = jax.random.permutation(draw_key, len(particles))
        after = _step(own, uncertainty.step_noise, particles[order], errors, action)
        after = after[jnp.argsort(order)]  # each particle stays in its row
        return after, after

    keys = jax.random.split(steps_key, len(actions))
    _, trajectories = jax.lax.scan(advance, starts, (actions, keys))
    return jnp.swapaxes(trajectories, 0, 1)


def forecast_with_spread(
    model: AbstractDynamics,
    uncertainty: Uncertainty,
    past: Past,
    actions: Actions,
    *,
    number: int,
    key: Key,
    members: Members = "kept",
    names: Sequence[str] = (),
    time_step: float | None = None,
) -> Forecast:
    """What will be measured after each of the actions, and how far from that it may be.

    A model with a memory of its own has no belief to start from, nor a state that a step's error could be
    added to: its members' forecasts differ, and the rest is as much as it was off by on other data.

    **Arguments:**

    - `model`, `uncertainty`, `past`, `actions`, `number`, `key`, `members`: as for `roll_particles`.
    - `names`, `time_step`: of the states and of a step, for tables.
    """
    particles_key, noise_key = jax.random.split(key)
    if isinstance(model, AbstractModel):
        particles = roll_particles(
            model, uncertainty, past, actions, number=number, key=particles_key, members=members
        )
    else:
        own = model.separate() if members != "mean" else (model,)
        each = jnp.stack([forecast(member, last_of(past, member.num_past), actions).mean for member in own])
        particles = jnp.tile(each, (-(-number // len(own)), 1, 1))
    horizon, scales = len(actions), uncertainty.scales_at(len(actions))
    mean, rest = particles.mean(axis=0), uncertainty.rest_at(horizon)
    added = jnp.sqrt(uncertainty.measurement_noise[None] ** 2 + rest**2)
    spread = jnp.sqrt(particles.var(axis=0) + added**2)
    noise = jax.random.normal(noise_key, particles.shape, particles.dtype)
    measured = particles + added[None] * noise - mean[None]
    samples = mean[None] + measured * scales[ONE_DEVIATION][None]
    return Forecast(mean, spread, samples, scales, tuple(names), time_step, uncertainty.num_episodes)


def _belief(model: AbstractModel, uncertainty: Uncertainty, past: Past) -> Belief:
    """Where the observer thinks the state is after the past."""
    observer = Observer(model, uncertainty.measurement_noise, uncertainty.step_noise)
    if len(past.states) == 1:
        return observer.start(past.states[0])
    beliefs = observer.filter(past.states, past.actions).after
    return jax.tree.map(lambda values: values[-1], beliefs)


def _step(
    members: Sequence[AbstractDynamics],
    step_noise: State,
    particles: Particles,
    errors: Particles,
    action: Action,
) -> Particles:
    """The particles after one step, each by its member; a model's own deviation takes the place of the
    observer's."""

    def of_one(member: AbstractModel, state: State, error: State) -> State:
        own = member.step_deviation(state, action)
        return member.step(state, action) + (step_noise if own is None else own) * error

    def of_member(member: AbstractModel, states: Particles, errors: Particles) -> Particles:
        return jax.vmap(lambda state, error: of_one(member, state, error))(states, errors)

    shared = [values.reshape(len(members), -1, values.shape[-1]) for values in (particles, errors)]
    return of_each(members, of_member, *shared).reshape(particles.shape)
