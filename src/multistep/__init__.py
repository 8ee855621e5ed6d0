"""multistep: dynamics models from logged, noisy trajectories that stay right many steps ahead."""

from pathlib import Path
from typing import overload

from multistep.agents.model_based import train_on_model as train_on_model
from multistep.agents.model_env import ModelEnv as ModelEnv
from multistep.agents.planners import CrossEntropy as CrossEntropy
from multistep.agents.planners import PolicyGuided as PolicyGuided
from multistep.agents.planners import RandomShooting as RandomShooting
from multistep.agents.planners import decide as decide
from multistep.agents.policy import policy_of as policy_of
from multistep.data import Episodes as Episodes
from multistep.data import add_noise as add_noise
from multistep.data import cut as cut
from multistep.data import folds as folds
from multistep.data import load as load
from multistep.data import save as save
from multistep.data import split as split
from multistep.dynamics import Model as Model
from multistep.dynamics import NetworkConfig as NetworkConfig
from multistep.dynamics import Observer as Observer
from multistep.dynamics import load_model as load_model
from multistep.dynamics import save_model as save_model
from multistep.errors import InputError as InputError
from multistep.evaluation import R2Bar as R2Bar
from multistep.evaluation import Scores as Scores
from multistep.evaluation import score as score
from multistep.losses import Balanced as Balanced
from multistep.losses import Custom as Custom
from multistep.losses import Exponential as Exponential
from multistep.losses import Uniform as Uniform
from multistep.selection.candidates import grid as grid
from multistep.selection.search import Halving as Halving
from multistep.selection.select import refit as refit
from multistep.selection.select import select as select
from multistep.tasks.cache import load_dataset as load_dataset
from multistep.training import DEFAULT as DEFAULT
from multistep.training import PAPER as PAPER
from multistep.training import SMOOTHED as SMOOTHED
from multistep.training import Fit as Fit
from multistep.training import FitConfig as FitConfig
from multistep.training import Smoothed as Smoothed
from multistep.training import SmoothedFit as SmoothedFit
from multistep.training import fit_observer as fit_observer
from multistep.training import learn as _learn
from multistep.training import smooth as smooth
from multistep.training.fit import Score as _Score
from multistep.types import Key as _Key


@overload
def fit(
    train: Episodes,
    valid: Episodes,
    config: Smoothed = ...,
    *,
    key: _Key,
    score: _Score = ...,
    checkpoint: str | Path | None = ...,
) -> SmoothedFit: ...
@overload
def fit(
    train: Episodes,
    valid: Episodes,
    config: FitConfig,
    *,
    key: _Key,
    score: _Score = ...,
    checkpoint: str | Path | None = ...,
) -> Fit: ...
def fit(
    train: Episodes,
    valid: Episodes,
    config: FitConfig | Smoothed = SMOOTHED,
    *,
    key: _Key,
    score: _Score = R2Bar(50),  # noqa: B008 - frozen
    checkpoint: str | Path | None = None,
) -> Fit:
    """Train a model on `train`; keep it as it was when it predicted `valid` best, by default over 50 steps
    ahead.

    ```python
    fit = ms.fit(train, valid, key=jax.random.key(0))
    fit.model.rollout(state, actions)
    ```
    If there is noise on the states of `train`, it is taken out with the model, which is then fitted again:
    `fit.observer` has what was found, and `fit.reason` why it was fitted once if so. With a `FitConfig` it is
    fitted once in any case, to the states as they were measured. A fit that diverges or is interrupted
    (Ctrl-C) returns what it has and says so in `fit.outcome`. With a `checkpoint` file (and one beside it for
    the second fit) the same call goes on where a killed one stopped, and ends with the same bits.
    """
    return _learn(train, valid, config, key=key, score=score, checkpoint=checkpoint)
