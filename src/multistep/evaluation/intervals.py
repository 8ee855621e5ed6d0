"""95 % intervals, by SciPy, which is imported where it is needed: it takes as long as JAX."""

from collections.abc import Callable
from typing import Any

import numpy as np
from jaxtyping import Float
from numpy import ndarray

CONFIDENCE = 0.95


def interval(
    samples: Float[ndarray, "*groups sample"],
    statistic: Callable[..., Any] = np.mean,
    *,
    num_resamples: int = 1000,
    seed: int = 0,
) -> tuple[float, float]:
    """The 95 % percentile interval of the statistic along the last axis, averaged over the groups; all are
    resampled alike."""

    from scipy.stats import bootstrap

    def over_groups(
        values: Float[ndarray, "*groups resample sample"], axis: int
    ) -> Float[ndarray, " *resample"]:
        return statistic(values, axis=axis).reshape(-1, *values.shape[samples.ndim - 1 : -1]).mean(axis=0)

    found = bootstrap(
        (samples,),
        over_groups,
        axis=-1,
        n_resamples=num_resamples,
        confidence_level=CONFIDENCE,
        method="percentile",
        vectorized=True,
        batch=100,
        rng=np.random.default_rng(seed),
    )
    low, high = found.confidence_interval
    return float(low), float(high)


def mean_interval(samples: Float[ndarray, " sample"]) -> tuple[float, float]:
    """Student's 95 % interval of the mean of normal samples; without end if there is but one."""
    from scipy.stats import sem, t

    if len(samples) < 2:
        return float("-inf"), float("inf")
    half = float(t.ppf((1 + CONFIDENCE) / 2, len(samples) - 1) * sem(samples))
    return float(samples.mean()) - half, float(samples.mean()) + half
