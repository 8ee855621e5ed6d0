"""What is wrong with many logs and costs days: found in the data before a model is fitted."""

import numpy as np

from multistep.data.angles import with_angles, wrapped_angles
from multistep.data.checks.columns import find_functions as find_functions
from multistep.data.checks.columns import find_limits as find_limits
from multistep.data.checks.dropouts import find_dropouts as find_dropouts
from multistep.data.checks.logs import find_odd_logs as find_odd_logs
from multistep.data.checks.shifts import find_shifts as find_shifts
from multistep.data.episodes import Episodes

CHECKS = (find_shifts, find_functions, find_limits, find_dropouts, find_odd_logs)
LARGEST = 1e100
"""Numbers beyond this have no squares that could be summed."""


def remarks_on(episodes: Episodes) -> list[str]:
    """One sentence for each thing that is probably wrong with the data, with what to do about it.

    **Arguments:**

    - `episodes`: as they were logged; the jumps of wrapped angles are no fault and taken out first.
    """
    if any(float(np.abs(values).max(initial=0)) > LARGEST for values in (episodes.states, episodes.actions)):
        return []
    episodes = with_angles(episodes, wrapped_angles(episodes))
    return [found.remark for check in CHECKS for found in check(episodes)]
