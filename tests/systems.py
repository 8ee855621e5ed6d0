"""Small systems whose right answers are known."""

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from multistep.data import Episodes, Past, Window
from multistep.dynamics import AbstractModel
from multistep.types import Action, State


class LinearModel(AbstractModel):
    """s' = A s + B a."""

    transition: Float[Array, "state state"]
    control: Float[Array, "state action"]

    def step(self, state: State, action: Action) -> State:
        return self.transition @ state + self.control @ action


class ScalarModel(AbstractModel):
    """s' = theta s: the paper's one-dimensional linear system."""

    theta: Float[Array, ""]

    def step(self, state: State, action: Action) -> State:
        return self.theta * state


class ExplodingModel(AbstractModel):
    """s' = 1e30 s."""

    unused: int = eqx.field(static=True, default=0)

    def step(self, state: State, action: Action) -> State:
        return jnp.asarray(1e30, state.dtype) * state


def window_of(states, actions) -> Window:
    """The window that starts from the first of the states."""
    return Window(Past(states[:1], actions[:0]), actions, states[1:])


def random_episodes(
    lengths, *, state_size=3, action_size=2, seed=0, rewards=False, dtype=np.float64
) -> Episodes:
    rng = np.random.default_rng(seed)
    return Episodes.of(
        [
            (
                rng.standard_normal((length + 1, state_size)).astype(dtype),
                rng.standard_normal((length, action_size)).astype(dtype),
                rng.standard_normal(length).astype(dtype) if rewards else None,
            )
            for length in lengths
        ]
    )


def oscillator_episodes(num_episodes, num_steps, *, noise=0.0, seed=0) -> Episodes:
    """A damped oscillator pushed at random: easy to learn, hard to fake."""
    rng = np.random.default_rng(seed)
    transition, control = np.array([[0.99, 0.1], [-0.1, 0.97]]), np.array([[0.0], [0.1]])
    parts = []
    for _ in range(num_episodes):
        actions = rng.uniform(-1, 1, (num_steps, 1))
        states = [rng.standard_normal(2)]
        for action in actions:
            states.append(transition @ states[-1] + control @ action)
        parts.append((np.array(states) + noise * rng.standard_normal((num_steps + 1, 2)), actions))
    return Episodes.of(parts, state_names=("position", "velocity"), action_names=("force",))


def turning_episodes(unit=2 * np.pi, wrap=True, num_episodes=4, steps=60):
    """A wheel that is pushed: its angle, wrapped, and its rate."""
    rng = np.random.default_rng(0)
    parts = []
    for _ in range(num_episodes):
        push = rng.standard_normal((steps, 1))
        rate = 0.3 + np.concatenate([[0.0], 0.02 * np.cumsum(push[:, 0])])
        angle = np.concatenate([[0.0], np.cumsum(rate[:-1])]) + rng.uniform(0, 6)
        seen = (angle + np.pi) % (2 * np.pi) - np.pi if wrap else angle
        parts.append((np.stack([seen * unit / (2 * np.pi), rate], axis=1), push))
    return Episodes.of(parts, state_names=("theta", "rate"), action_names=("push",))


def plant_episodes(num=4, steps=120, seed=0, order=3):
    """One output of a stable linear system with a state of three numbers, pushed at random."""
    rng = np.random.default_rng(seed)
    transition = np.diag([0.9, 0.6, -0.4])[:order, :order] + 0.1 * np.triu(np.ones((order, order)), 1)
    push, look = np.ones(order), np.arange(1.0, order + 1)
    episodes = []
    for _ in range(num):
        state, outputs, inputs = rng.normal(size=order), [], rng.normal(size=steps)
        for given in [*inputs, 0.0]:
            outputs.append(look @ state + 5.0)
            state = transition @ state + push * given
        episodes.append((np.array(outputs)[:, None], inputs[:, None]))
    return Episodes.of(episodes, state_names=["y"], action_names=["u"])


def _pushed_mass(inputs):
    """A damped mass, pushed; what is measured is where it is."""
    place, speed, places = 0.3, 0.0, []
    for pushed in inputs:
        places.append(place)
        place, speed = place + 0.1 * speed, 0.95 * speed - 0.1 * place + 0.1 * pushed
    return np.array(places)


def tanks_file(folder, samples=200):
    """Two experiments with a plant of second order, in the format of the published benchmark: side by side,
    with quoted names and trailing commas."""
    rng = np.random.default_rng(0)
    inputs = np.repeat(rng.standard_normal((samples // 5, 2)), 5, axis=0)
    outputs = np.stack([_pushed_mass(inputs[:, 0]), _pushed_mass(inputs[:, 1])], axis=1)
    lines = ['"uEst","uVal","yEst","yVal","Ts",']
    for number, (given, found) in enumerate(zip(inputs, outputs, strict=True)):
        step = "4" if number == 0 else ""
        lines.append(",".join([*map(repr, [*given.tolist(), *found.tolist()]), step, ""]))
    (folder / "cascaded_tanks.csv").write_text("\n".join([*lines, ",,,,,"]) + "\n")
    return inputs, outputs
