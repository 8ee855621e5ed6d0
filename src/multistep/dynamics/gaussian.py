"""`Gaussian`: where a step arrives, and how far from there it may be; a likelihood trains both."""

from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple, Protocol, get_args, runtime_checkable

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PyTree
from numpy import ndarray

from multistep.data import Episodes, Past, Windows
from multistep.dynamics.base import AbstractArchitecture, AbstractDynamics, AbstractModel, Memory, Prediction
from multistep.dynamics.linear import CorrectedConfig
from multistep.dynamics.network import NetworkConfig
from multistep.dynamics.normaliser import Normaliser
from multistep.errors import InputError
from multistep.types import Action, Actions, Key, Scalar, State

Rollouts = Literal["propagated", "mean", "sampled"]
LOWEST, HIGHEST = -10.0, 0.5
"""Where the bounds of the log-variance start, in normalised units (as in mbrl-lib)."""
PENALTY = 0.01
"""Of the distance between the bounds (as in mbrl-lib): they close in on what the data ask for."""
MOST_VARIANCE = 1e6
"""Of all states together, in normalised units: who is a thousand deviations off knows nothing any more."""


@dataclass(frozen=True)
class GaussianConfig(AbstractArchitecture):
    """A network whose second head is trained too: the deviation of where a step arrives."""

    network: AbstractArchitecture | str = field(default_factory=CorrectedConfig)
    """What the heads are of, or its name: on the command line `gaussian:corrected` or `gaussian:network`."""
    rollouts: Rollouts | str = "propagated"
    """How a forecast goes on while it trains: propagated and mean from the mean of each step, with the
    variance of all steps before or with that of the last one alone; sampled from a draw."""

    def __post_init__(self) -> None:
        if isinstance(self.network, str):
            from multistep.dynamics.model_files import ARCHITECTURES  # among which this one is

            object.__setattr__(self, "network", ARCHITECTURES.find(self.network))
        if self.rollouts not in get_args(Rollouts):
            raise InputError(
                f"The rollouts are {self.rollouts}: they must be one of {', '.join(get_args(Rollouts))}."
            )
        if (
            self.rollouts == "propagated"
            and isinstance(self.network, NetworkConfig)
            and self.network.batch_norm
        ):
            raise InputError(
                "The variance cannot be propagated through batch norm, where one window's step depends on "
                "all others: choose rollouts=mean or sampled, or a network without batch norm."
            )

    def suited_to(self, episodes: Episodes) -> "GaussianConfig":
        return replace(self, network=self.two_headed.suited_to(episodes))

    @property
    def two_headed(self) -> AbstractArchitecture:
        assert isinstance(self.network, AbstractArchitecture)
        return self.network

    def make(self, state_size: int, action_size: int, *, key: Key) -> "GaussianLearner":
        inner = self.two_headed.make(state_size, action_size, key=key)
        if not isinstance(inner, TwoHeaded):
            raise InputError(
                f"{type(self.network).__name__} has no head for a deviation: put the Gaussian around network "
                "or corrected."
            )
        bounds = Bounds(jnp.full(state_size, LOWEST), jnp.full(state_size, HIGHEST))
        return GaussianLearner(inner, bounds, self.rollouts)


@runtime_checkable
class TwoHeaded(Protocol):
    """What a Gaussian can be made of: a Markov dynamics with a second head."""

    def step_both(self, memory: Any, given: Any) -> tuple[Any, State]:
        """The memory one step later, and what the second head says of that step."""
        ...


class Bounds(eqx.Module):
    r"""$l \le \log \sigma^2 \le u$, softly: $l + \mathrm{softplus}(u - \mathrm{softplus}(u - x) - l)$."""

    lowest: State
    highest: State

    def __call__(self, raw: State) -> State:
        below = self.highest - jax.nn.softplus(self.highest - raw)
        return self.lowest + jax.nn.softplus(below - self.lowest)

    def penalty(self) -> Scalar:
        return PENALTY * jnp.mean(self.highest - self.lowest)


class Gaussian(AbstractModel):
    r"""$s' \sim \mathcal N(\mu(s, a), \sigma^2(s, a))$: the step is $\mu$, `step_deviation` $\sigma$."""

    inner: AbstractModel
    bounds: Bounds
    rollouts: str = eqx.field(static=True)

    def step(self, state: State, action: Action) -> State:
        return self.inner.step(state, action)

    def step_deviation(self, state: State, action: Action) -> State:
        _, raw = self.inner.step_both(state, action)  # pyright: ignore[reportAttributeAccessIssue]
        return jnp.exp(self.bounds(raw) / 2)

    def thaw(self) -> "GaussianLearner":
        return GaussianLearner(self.inner, self.bounds, self.rollouts)

    @property
    def architecture(self) -> GaussianConfig | None:
        network = self.inner.architecture
        return None if network is None else GaussianConfig(network, self.rollouts)


class Going(NamedTuple):
    """The memory of a forecast."""

    inner: Memory
    """Of the dynamics with the two heads: the mean."""
    state: State
    """From where the next step goes on: the mean, or a draw."""
    covariance: Float[Array, "state state"]


class GaussianLearner(AbstractDynamics):
    r"""A Gaussian while it trains: its forecasts have a deviation.

    With $f$ the mean of a step and $\Sigma$ the variance of that step alone, both where the step starts:

    - propagated: $\hat s_{j+1} = f(\hat s_j)$ and $P_{j+1} = J_j P_j J_j^\top + \Sigma_j$ with $J_j$ the
      Jacobian of $f$ in $\hat s_j$ and $P_0 = 0$: exact for a linear system whose steps are disturbed;
    - mean: $\hat s_{j+1} = f(\hat s_j)$ and $P_{j+1} = \Sigma_j$;
    - sampled: $\hat s_{j+1} = f(\hat s_j) + \Sigma_j^{1/2} \xi_j$, the draw reparametrised, and
      $P_{j+1} = \Sigma_j$: right given the draw before (Appendix "Probabilistic interpretation").

    Predicted are $f(\hat s_j)$ and the root of the diagonal of $P_{j+1}$.
    """

    inner: Any
    """A `TwoHeaded` dynamics."""
    bounds: Bounds
    rollouts: str = eqx.field(static=True)

    @property
    def num_past(self) -> int:
        return 1

    def start(self, past: Past) -> Going:
        size = self.bounds.lowest.size
        return Going(self.inner.start(past), past.states[-1], jnp.zeros((size, size), past.states.dtype))

    def step(self, memory: Going, given: tuple[Any, State]) -> Going:
        inner_given, noise = given

        def moved(state: State) -> tuple[State, tuple[Memory, State]]:
            before = self.inner.start(Past(state[None], jnp.zeros((0, 0), state.dtype)))
            after, raw = self.inner.step_both(before, inner_given)
            return self.inner.predict(after).mean, (after, raw)

        if self.rollouts == "propagated":
            jacobian, (after, raw) = jax.jacfwd(moved, has_aux=True)(memory.state)
            before = _carried(jacobian, memory.covariance)
        else:
            _, (after, raw) = moved(memory.state)
            before = jnp.zeros_like(memory.covariance)
        variance = jnp.exp(self.bounds(raw))
        state = self.inner.predict(after).mean + jnp.sqrt(variance) * noise
        return Going(after, state, before + jnp.diag(variance))

    def predict(self, memory: Going) -> Prediction:
        mean, _, noted = self.inner.predict(memory.inner)
        return Prediction(mean, jnp.sqrt(jnp.diagonal(memory.covariance)), noted)

    def inputs(self, actions: Actions, key: Key | None) -> PyTree:
        """With the noise of each step: drawn for sampled rollouts, nothing without a key."""
        noise = jnp.zeros((len(actions), self.bounds.lowest.size), actions.dtype)
        if key is None:
            return self.inner.inputs(actions, None), noise
        inner_key, noise_key = jax.random.split(key)
        if self.rollouts == "sampled":
            noise = jax.random.normal(noise_key, noise.shape, noise.dtype)
        return self.inner.inputs(actions, inner_key), noise

    def begin(
        self, windows: Windows, starts: Int[ndarray, "windows 2"], normaliser: Normaliser
    ) -> "GaussianLearner":
        return replace(self, inner=self.inner.begin(windows, starts, normaliser))

    def trained(self) -> PyTree[bool]:
        """What the inner dynamics trains, the second head and the bounds."""

        def with_head(path: Any, on: bool) -> bool:
            return on or "deviation_head" in jax.tree_util.keystr(path)

        inner = jax.tree_util.tree_map_with_path(with_head, self.inner.trained())
        return GaussianLearner(inner, jax.tree.map(lambda _: True, self.bounds), self.rollouts)

    def penalty(self) -> Scalar:
        return self.bounds.penalty()

    def note(self, noted: PyTree) -> "GaussianLearner":
        return replace(self, inner=self.inner.note(noted))

    def freeze(self) -> Gaussian:
        return Gaussian(self.inner.freeze(), self.bounds, self.rollouts)

    @property
    def architecture(self) -> GaussianConfig | None:
        return self.freeze().architecture


def _carried(
    jacobian: Float[Array, "state state"], covariance: Float[Array, "state state"]
) -> Float[Array, "state state"]:
    """J P J^T, kept finite and without the rounding that would make a variance negative."""
    product = jacobian @ covariance @ jacobian.T
    variances = jnp.maximum(jnp.diagonal(product), 0)
    product = product - jnp.diag(jnp.diagonal(product) - variances)
    return product * (MOST_VARIANCE / jnp.maximum(variances.sum(), MOST_VARIANCE))
