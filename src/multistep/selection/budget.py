"""`Budget`: what a fit may spend, in seconds or model steps."""

import re
from typing import NamedTuple

from multistep.errors import InputError


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
