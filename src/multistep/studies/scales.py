"""How much of a study is run: seconds, a minute or so, or all of what the paper did."""

from typing import Literal

Scale = Literal["smoke", "quick", "paper"]
