r"""The paper's one-dimensional linear system, solved exactly: $s_{t+1} = \theta s_t$, observed as $o = s +
\varepsilon$.

The multi-step loss of the model $\hat s_{t+1} = \theta s_t$ over N samples $(s_i, o_{i,1}, ..., o_{i,h})$ is,
up to terms without theta, $\sum_j \alpha_j (\theta^{2j} - 2 p_j \theta^j)$ with $p_j = \sum_i s_i o_{i,j} /
\sum_i s_i^2$: everything depends on the data through the h numbers p alone, the `Moments`.
"""

import numpy as np
from jaxtyping import Bool, Float
from numpy import ndarray

Moments = Float[ndarray, "*samples horizon"]
Alphas = Float[ndarray, " horizon"]
Thetas = Float[ndarray, "*samples"]
Broadcast = Float[ndarray, "..."]


def moments(states: Float[ndarray, " n"], observed: Float[ndarray, "*samples horizon n"]) -> Moments:
    r"""$p_j = \sum_i s_i o_{i,j} / \sum_i s_i^2$: the least-squares estimate of $\theta^j$."""
    return observed @ states / (states @ states)


def loss(theta: Float[ndarray, "*samples"], p: Float[ndarray, " horizon"], alphas: Alphas) -> Thetas:
    r"""$\sum_j \alpha_j (\theta^j - p_j)^2$: the multi-step loss over the mean of $s^2$, without its noise
    floor."""
    powers = theta[..., None] ** np.arange(1, len(alphas) + 1)
    return (alphas * (powers - p) ** 2).sum(axis=-1)


def derivative(theta: Float[ndarray, "*samples"], p: Float[ndarray, " horizon"], alphas: Alphas) -> Thetas:
    r"""$2 \sum_j \alpha_j j \theta^{j-1} (\theta^j - p_j)$, a polynomial of degree 2h-1."""
    steps = np.arange(1, len(alphas) + 1)
    powers = theta[..., None] ** steps
    slopes = steps * theta[..., None] ** (steps - 1)
    return 2 * (alphas * slopes * (powers - p)).sum(axis=-1)


def minimiser_one(p: Float[ndarray, "*samples 2"]) -> Thetas:
    r"""alpha = 1, least squares: $\hat\theta_1 = p_1 = \theta + \sum_i \varepsilon_i s_i / \sum_i s_i^2$.

    The paper's formula for N samples, $\theta + \sum \varepsilon / \sum s$, is not the minimiser.
    """
    return p[..., 0]


def minimiser_zero(p: Float[ndarray, "*samples 2"], sign: float | Broadcast) -> Broadcast:
    r"""alpha = 0: $\hat\theta_0 = \pm\sqrt{p_2}$ by the sign of theta, and 0, the only critical point, where
    $p_2 < 0$."""
    return np.sign(sign) * np.sqrt(np.maximum(p[..., 1], 0))


def minimiser_between(
    p: Float[ndarray, "*samples 2"], alpha: float | Broadcast, sign: float | Broadcast
) -> Broadcast:
    r"""0 < alpha < 1, by Cardano: the root of $\theta^3 + a\theta + b$ with the sign of theta, or the only
    one there is.

    $a = \alpha / (2(1-\alpha)) - p_2$ and $b = -\alpha p_1 / (2(1-\alpha))$.
    """
    ratio = np.asarray(alpha / (2 * (1 - alpha)))
    a, b = ratio - p[..., 1], -ratio * p[..., 0]
    discriminant = (b / 2) ** 2 + (a / 3) ** 3
    root = np.sqrt(np.maximum(discriminant, 0))
    single = np.cbrt(-b / 2 + root) + np.cbrt(-b / 2 - root)
    # Three real roots sum to zero: the largest is positive, the smallest negative, and both are minima.
    radius = 2 * np.sqrt(np.maximum(-a / 3, 0))
    cosine = np.divide(-4 * b, radius**3, out=np.zeros_like(radius), where=radius > 0)
    angle = np.arccos(np.clip(cosine, -1, 1)) / 3
    outer = radius * np.cos(angle + np.where(np.asarray(sign) > 0, 0, 2 * np.pi / 3))
    return np.where(discriminant > 0, single, outer)


def minimiser(
    p: Float[ndarray, "*samples 2"], alpha: float | Broadcast, sign: float | Broadcast
) -> Broadcast:
    """The minimiser of the two-step loss in closed form, for any alpha from 0 to 1; alphas and signs
    broadcast."""
    alphas = np.asarray(alpha, float)
    inside = np.where((alphas > 0) & (alphas < 1), alphas, 0.5)
    between = minimiser_between(p, inside, sign)
    return np.where(alphas == 1, minimiser_one(p), np.where(alphas == 0, minimiser_zero(p, sign), between))


def real_roots(
    p: Moments, alphas: Alphas
) -> tuple[Float[ndarray, "*samples degree"], Bool[ndarray, "*samples degree"]]:
    """Roots of the derivative, of degree 2h-1, and which of them are real: eigenvalues of its companion
    matrices."""
    horizon = (
        int(np.flatnonzero(alphas)[-1]) + 1
    )  # steps without weight after the last that has some do not count
    alphas, p = alphas[:horizon], p[..., :horizon]
    degree, steps = 2 * horizon - 1, np.arange(1, horizon + 1)
    ascending = np.zeros((*p.shape[:-1], degree + 1))
    ascending[..., 2 * steps - 1] += alphas * steps
    ascending[..., steps - 1] -= alphas * steps * p
    companion = np.zeros((*p.shape[:-1], degree, degree))
    companion[..., np.arange(1, degree), np.arange(degree - 1)] = 1
    companion[..., :, -1] = -ascending[..., :-1] / ascending[..., -1:]
    roots = np.linalg.eigvals(companion)
    return roots.real, np.abs(roots.imag) < 1e-7 * np.maximum(np.abs(roots), 1e-3)


def minimiser_any_horizon(p: Moments, alphas: Alphas, sign: float) -> Thetas:
    """The minimiser for any horizon and weights: of several real roots those with the sign of theta, of these
    the best one."""
    roots, real = real_roots(p, alphas)
    right = real & (roots * sign > 0)
    allowed = np.where(right.any(axis=-1, keepdims=True), right, real)
    powers = roots[..., None] ** np.arange(1, len(alphas) + 1)
    losses = np.where(allowed, (alphas * (powers - p[..., None, :]) ** 2).sum(axis=-1), np.inf)
    return np.take_along_axis(roots, losses.argmin(axis=-1)[..., None], axis=-1)[..., 0]


def augmented(states: Float[ndarray, " n"], observed: Float[ndarray, "*samples 2 n"]) -> Thetas:
    r"""One-step least squares on $(s, o_1)$ and $(o_1, o_2)$ together: noise in the inputs biases it towards
    zero."""
    first, second = observed[..., 0, :], observed[..., 1, :]
    above = first @ states + (first * second).sum(axis=-1)
    return above / (states @ states + (first**2).sum(axis=-1))


def averaged(
    states: Float[ndarray, " n"], first: Float[ndarray, "*samples n"], again: Float[ndarray, "*samples n"]
) -> Thetas:
    """One-step least squares on the mean of two observations of the same next state."""
    return (first + again) / 2 @ states / (states @ states)


def first_order_variance(theta: float, alphas: Alphas, noise: float, energy: float) -> float:
    r"""$\frac{\sigma^2}{\sum s^2}\,\frac{\sum_j \alpha_j^2 j^2 \theta^{2j-2}}{(\sum_j \alpha_j j^2
    \theta^{2j-2})^2}$.

    `energy` is the sum of squared states. For two steps it is $\frac{\sigma^2}{s^2} \frac{\alpha^2 +
    4\theta^2(1-\alpha)^2} {(\alpha + 4\theta^2(1-\alpha))^2}$; for every theta it is smallest for equal
    weights.
    """
    steps = np.arange(1, len(alphas) + 1)
    slopes = steps**2 * float(theta) ** (2 * steps - 2)
    below = np.sum(alphas * slopes) ** 2
    return float(noise**2 / energy * np.sum(alphas**2 * slopes) / below) if below > 0 else float("inf")
