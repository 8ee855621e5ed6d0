"""multistep: dynamics models from logged, noisy trajectories that stay right many steps ahead.

Names are imported when they are first used: `import multistep` itself costs nothing. What an extension needs
is in `multistep.dynamics`, `multistep.losses`, `multistep.training` and `multistep.agents`.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from multistep.agents.model_env import ModelEnv as ModelEnv
    from multistep.data import Episodes as Episodes
    from multistep.data import add_noise as add_noise
    from multistep.data import cut as cut
    from multistep.data import load as load
    from multistep.data import save as save
    from multistep.data import split as split
    from multistep.dynamics import HiddenState as HiddenState
    from multistep.dynamics import Lags as Lags
    from multistep.dynamics import Model as Model
    from multistep.dynamics import NetworkConfig as NetworkConfig
    from multistep.dynamics import Observer as Observer
    from multistep.dynamics import load_model as load_model
    from multistep.dynamics import save_model as save_model
    from multistep.errors import InputError as InputError
    from multistep.estimator import MultiStepRegressor as MultiStepRegressor
    from multistep.evaluation import R2Bar as R2Bar
    from multistep.evaluation import Scores as Scores
    from multistep.evaluation import free_run as free_run
    from multistep.evaluation import score as score
    from multistep.losses import Balanced as Balanced
    from multistep.losses import Custom as Custom
    from multistep.losses import Exponential as Exponential
    from multistep.losses import Uniform as Uniform
    from multistep.selection.automatic import Automatic as Automatic
    from multistep.selection.calibrated import calibrate as calibrate
    from multistep.selection.candidates import grid as grid
    from multistep.selection.fit import fit as fit
    from multistep.selection.select import refit as refit
    from multistep.selection.select import select as select
    from multistep.tasks.cache import load_dataset as load_dataset
    from multistep.training import DEFAULT as DEFAULT
    from multistep.training import PAPER as PAPER
    from multistep.training import Continuing as Continuing
    from multistep.training import Ensemble as Ensemble
    from multistep.training import Fit as Fit
    from multistep.training import Once as Once
    from multistep.training import Smoothed as Smoothed

_PLACES = {
    "agents.model_env": ("ModelEnv",),
    "data": ("Episodes", "add_noise", "cut", "load", "save", "split"),
    "dynamics": ("HiddenState", "Lags", "Model", "NetworkConfig", "Observer", "load_model", "save_model"),
    "errors": ("InputError",),
    "estimator": ("MultiStepRegressor",),
    "evaluation": ("R2Bar", "Scores", "free_run", "score"),
    "losses": ("Balanced", "Custom", "Exponential", "Uniform"),
    "selection.automatic": ("Automatic",),
    "selection.calibrated": ("calibrate",),
    "selection.candidates": ("grid",),
    "selection.fit": ("fit",),
    "selection.select": ("refit", "select"),
    "tasks.cache": ("load_dataset",),
    "training": ("DEFAULT", "PAPER", "Continuing", "Ensemble", "Fit", "Once", "Smoothed"),
}
_MODULES = {name: module for module, names in _PLACES.items() for name in names}
_ROOMS = ("agents", "data", "dynamics", "evaluation", "losses", "selection", "tasks", "training")
__all__ = sorted(_MODULES)


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return getattr(import_module(f"multistep.{_MODULES[name]}"), name)
    if name in _ROOMS:
        return import_module(f"multistep.{name}")
    raise AttributeError(f"module 'multistep' has no attribute '{name}'")


def __dir__() -> list[str]:
    return __all__
