"""`Budget`: what a fit may spend, in seconds or model steps."""

import json
import re
from pathlib import Path
from typing import NamedTuple

from multistep.errors import InputError
from multistep.runs.atomic import replacing


class Budget(NamedTuple):
    """Of one kind or the other; of neither, there is no limit."""

    seconds: float | None = None
    model_steps: int | None = None

    @staticmethod
    def parse(text: str | None) -> "Budget":
        """As typed: 60s, 5min, 1h, 500k or 20M (model steps)."""
        if text is None:
            return Budget()
        found = re.fullmatch(r"\s*(\d+\.?\d*)\s*(s|min|h|k|M)\s*", text)
        if found is None or float(found[1]) <= 0:
            raise InputError(
                f"The budget is {text}: write a time, as in 60s, 5min or 1h, or a number of model steps, as "
                "in 500k or 20M."
            )
        number, unit = float(found[1]), found[2]
        if unit in ("k", "M"):
            return Budget(model_steps=int(number * {"k": 1e3, "M": 1e6}[unit]))
        return Budget(seconds=number * {"s": 1, "min": 60, "h": 3600}[unit])

    def share(self, share: float) -> "Budget":
        """A part of it."""
        seconds = None if self.seconds is None else share * self.seconds
        return Budget(seconds, None if self.model_steps is None else max(1, int(share * self.model_steps)))

    def __str__(self) -> str:
        """As it is typed."""
        if self.seconds is not None:
            return f"{self.seconds:.3f}s"
        return "" if self.model_steps is None else f"{self.model_steps / 1e3:.3f}k"


def seconds_spent(seconds: float, file: Path | None, fit: str) -> float:
    """The seconds, or those that the same fit had spent when it was here before it was killed: what is left
    decides how long the next training is, and that goes on only if it is the same.

    **Arguments:**

    - `seconds`: as they were measured now.
    - `file`: where they are kept; none: nowhere.
    - `fit`: a digest of the fit.
    """
    if file is None:
        return seconds
    try:
        known = json.loads(file.read_text())
        if known["fit"] == fit:
            return float(known["seconds"])
    except (OSError, ValueError, KeyError, TypeError):
        pass  # there is none, or none that can be read: it is made anew
    with replacing(file) as temporary:
        temporary.write_text(json.dumps({"fit": fit, "seconds": seconds}))
    return seconds
