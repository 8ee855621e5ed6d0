"""`vary_all`: several values of any option of a fit, as typed: `learning_rate=1e-3,3e-4`,
`network.hidden_size=128,256`."""

from collections.abc import Sequence
from dataclasses import fields, is_dataclass, replace
from itertools import product
from typing import Any

from multistep.errors import InputError
from multistep.training import Once

NOT_VARIED = ("horizon", "weights", "loss", "curriculum")  # values as a whole, with options of their own
WORDS = {"true": True, "false": False}


def vary_all(base: Once, variations: Sequence[str]) -> list[Once]:
    """`base` with every combination of the values."""
    names = [variation.partition("=")[0].replace("-", "_") for variation in variations]
    for name in names:
        if names.count(name) > 1:
            raise InputError(
                f"'{name}' is varied twice: give all of its values at once, as {name}=VALUE,VALUE."
            )
    choices = [_choices(base, variation) for variation in variations]
    configs = []
    for combination in product(*choices):
        config = base
        for path, value in combination:
            config = _with(config, path, value)
        configs.append(config)
    return configs


def _choices(base: Once, variation: str) -> list[tuple[list[str], Any]]:
    """(path, value) of each value of one variation."""
    name, _, values = variation.partition("=")
    name = name.replace("-", "_")  # as the options of `fit` are typed
    known = [known for known in _names(base) if known not in NOT_VARIED]
    if name not in known or not values:
        raise InputError(f"'{variation}' is not NAME=VALUE,VALUE with a name out of {', '.join(known)}.")
    path = name.split(".")
    current: Any = base
    for part in path:
        current = getattr(current, part)
    return [(path, _parsed(text, current, name)) for text in values.split(",")]


def _names(config: Any, prefix: str = "") -> list[str]:
    """The options of a configuration; those of a part of it with a dot."""
    names = []
    for field in fields(config):
        value = getattr(config, field.name)
        # Weights are dataclasses too, but a value as a whole.
        nested = is_dataclass(value) and field.name not in NOT_VARIED
        names += _names(value, f"{prefix}{field.name}.") if nested else [prefix + field.name]
    return names


def _parsed(text: str, current: Any, name: str) -> Any:
    """The value in the type that the option has now; one that is none now is a whole number."""
    try:
        if isinstance(current, bool):
            return WORDS[text.lower()]
        if name == "patience" and text.lower() == "none":
            return None
        return (int if current is None else type(current))(text)
    except (ValueError, KeyError) as error:
        kind = {bool: "true or false", float: "a number", str: "a word"}.get(type(current), "a whole number")
        raise InputError(f"'{text}' is not a value of {name}: write {kind}.") from error


def _with(config: Any, path: Sequence[str], value: Any) -> Any:
    name, *rest = path
    return replace(config, **{name: _with(getattr(config, name), rest, value) if rest else value})
