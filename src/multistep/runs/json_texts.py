"""JSON that may have been written by anybody."""

import json
from typing import Any


def parse_json(text: str | bytes) -> Any:
    """The value of a text that may be anything: what is wrong with it is a `ValueError`, however deep."""
    try:
        return json.loads(text)
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error


def is_list_of(kind: type, value: Any) -> bool:
    """Whether this is a list of such things and nothing else."""
    return isinstance(value, list | tuple) and all(isinstance(item, kind) for item in value)
