"""A reward by its name: a function of the user's own, written `module:function`."""

import importlib
import os
import sys
from typing import Any

from multistep.agents.imagination import Reward
from multistep.errors import InputError, reason_of


def find_reward(name: str) -> Reward:
    """The function behind `module:function`; the module may be a file in the folder that we run in."""
    module_name, _, function_name = name.partition(":")
    if not module_name or not function_name:
        raise InputError(
            f"The reward {name} is not of the form module:function, as in rewards:balance for rewards.py."
        )
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        module = importlib.import_module(module_name)
    except Exception as error:  # whatever the user's file does wrong
        raise InputError(
            f"The module {module_name} of the reward {name} cannot be imported: {reason_of(error)}."
        ) from error
    found: Any = getattr(module, function_name, None)
    if not hasattr(found, "__call__"):  # noqa: B004 - callable() would narrow the type to one that returns nothing known
        raise InputError(f"The module {module_name} has no function {function_name}: name one that it has.")
    return found
