"""Agents in a learned model: the model as an environment, SAC in it, planners."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from multistep.agents.model_based import train_on_model as train_on_model
    from multistep.agents.model_env import ModelEnv as ModelEnv
    from multistep.agents.planners import AbstractPlanner as AbstractPlanner
    from multistep.agents.planners import CrossEntropy as CrossEntropy
    from multistep.agents.planners import PolicyGuided as PolicyGuided
    from multistep.agents.planners import RandomShooting as RandomShooting
    from multistep.agents.planners import decide as decide
    from multistep.agents.policy import policy_of as policy_of

_MODULES = {
    "train_on_model": "model_based",
    "ModelEnv": "model_env",
    "policy_of": "policy",
    **dict.fromkeys(
        ("AbstractPlanner", "CrossEntropy", "PolicyGuided", "RandomShooting", "decide"), "planners"
    ),
}
__all__ = sorted(_MODULES)


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module 'multistep.agents' has no attribute '{name}'")
    return getattr(import_module(f"multistep.agents.{_MODULES[name]}"), name)
