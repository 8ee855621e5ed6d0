"""What can be typed: names for objects of one kind, and `module:Name` for a user's own."""

import ast
import importlib
import os
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from typing import Any, Generic, TypeVar

import numpy as np

from multistep.errors import InputError, reason_of

Kind = TypeVar("Kind")


class Registry(Generic[Kind]):
    """The names of one kind of objects: weights, losses, curricula, recipes, architectures, planners.

    A text is `name` or `name:ARGUMENTS` for one of ours, `module:Name` or `module:Name:ARGUMENTS` for a
    user's own, in a file of the folder that we run in or in an installed package. Arguments are literals with
    commas between, by place or as `name=value`; one in brackets is another object of the kind, as in
    `noisy:loss=(hallucinated),deviation=0.1`.
    """

    def __init__(
        self,
        what: str,
        kind: type[Kind],
        ours: Mapping[str, Callable[..., Kind]],
        *,
        usage: str | None = None,
    ):
        self.what, self.kind, self.ours = what, kind, dict(ours)
        self.usage = usage or f"{', '.join(ours)}, or module:Name for your own"

    def find(self, text: str, *given: Any) -> Kind:
        """The object that the text stands for.

        **Arguments:**

        - `text`: as typed.
        - `given`: what the class or function behind the name is called with, before the arguments in the
        text.
        """
        head, _, rest = text.partition(":")
        name, _, arguments = rest.partition(":")
        maker: Any
        maker, typed = (
            (self.ours[head], rest) if head in self.ours else (self._own(text, head, name), arguments)
        )
        if isinstance(maker, self.kind):  # an object that its module has made
            return maker
        try:
            places, named = self._arguments(typed, given)
            found = maker(*given, *places, **named)
        except InputError:
            raise
        except Exception as error:  # whatever the user's class does wrong
            raise InputError(
                f"The {self.what} '{text}' cannot be made ({reason_of(error)}): write {self.usage}."
            ) from error
        if not isinstance(found, self.kind):
            raise InputError(
                f"The {self.what} '{text}' is a {type(found).__name__}, not a {self.kind.__name__}."
            )
        return found

    def name_of(self, maker: Any) -> str:
        """The name that finds this class or function again."""
        ours = [name for name, mine in self.ours.items() if mine is maker]
        return ours[0] if ours else f"{maker.__module__}:{maker.__qualname__}"

    def describe(self, thing: Kind) -> str:
        """The text that `find` reads back, of an object whose class takes its fields as arguments."""
        values = [] if not is_dataclass(thing) else [(f.name, getattr(thing, f.name)) for f in fields(thing)]
        arguments = ",".join(
            f"{name}=({self.describe(value)})"
            if isinstance(value, self.kind)
            else f"{name}={shortest(value)}"
            for name, value in values
        )
        return self.name_of(type(thing)) + (f":{arguments}" if arguments else "")

    def _arguments(self, text: str, given: tuple[Any, ...]) -> tuple[list[Any], dict[str, Any]]:
        """Arguments by place and by name."""
        places: list[Any] = []
        named: dict[str, Any] = {}
        for part in _parts(text):
            name = re.match(r"(\w+)=", part)
            value = self._value(part[name.end() :] if name else part, given)
            if name:
                named[name[1]] = value
            else:
                places.append(value)
        return places, named

    def _value(self, text: str, given: tuple[Any, ...]) -> Any:
        """A literal; what stands for one in brackets; or else the text itself."""
        try:
            return ast.literal_eval(text)
        except (ValueError, SyntaxError):
            return self.find(text[1:-1], *given) if text[:1] + text[-1:] == "()" else text

    def _own(self, text: str, module: str, name: str) -> Any:
        if not name:
            raise InputError(f"There is no {self.what} '{text}': write {self.usage}.")
        return import_named(f"{module}:{name}", self.what)


def import_named(text: str, what: str) -> Any:
    """What stands behind `module:name`; the module may be a file in the folder that we run in."""
    module_name, _, name = text.partition(":")
    if not module_name or not name:
        raise InputError(f"The {what} {text} is not of the form module:name, as in mine:balance for mine.py.")
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        module = importlib.import_module(module_name)
    except Exception as error:  # whatever the user's file does wrong
        reason = reason_of(error)
        raise InputError(
            f"The module {module_name} of the {what} {text} cannot be imported: {reason}."
        ) from error
    if not hasattr(module, name):
        raise InputError(f"The module {module_name} has no {what} {name}: name one that it has.")
    return getattr(module, name)


def shortest(value: Any) -> str:
    """A value as it is typed: a number in six digits if that is all there is to it, else in full."""
    if isinstance(value, float | np.floating) or (hasattr(value, "dtype") and value.ndim == 0):
        return f"{float(value):g}" if float(f"{float(value):g}") == float(value) else repr(float(value))
    return repr(np.asarray(value).tolist()) if hasattr(value, "dtype") else str(value)


def _parts(text: str) -> list[str]:
    """What stands between the commas that are in no bracket."""
    parts, depth = [""], 0
    for letter in text:
        depth += (letter in "([") - (letter in ")]")
        if letter == "," and not depth:
            parts.append("")
        else:
            parts[-1] += letter
    return parts if text else []
