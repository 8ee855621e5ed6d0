"""How honest the model's intervals are on the test episodes, and which of these are unlike the training."""

from pathlib import Path
from typing import Any

import jax
import numpy as np

from multistep.data import Episodes
from multistep.dynamics import MemoryModel, Model
from multistep.evaluation.calibration import Calibration, calibration
from multistep.evaluation.disagreement import disagreement
from multistep.evaluation.rows import calibration_rows
from multistep.runs.run_folder import write_rows

FILE = "calibration.csv"
SHOWN = (1, 10, 50, 100)
"""Steps ahead that the summary has."""
STRANGE = 1.5
"""Times the disagreement of the most doubtful training episode."""


def write_intervals(model: Model | MemoryModel, episodes: Episodes, out: Path) -> dict[str, Any]:
    """Leave coverage and scores of the intervals at every step ahead in `out`, and return what the summary
    says of them; nothing of a model that does not know how far it may be off."""
    for older in (FILE, Path(FILE).with_suffix(".png")):
        (out / older).unlink(missing_ok=True)
    known = model.uncertainty
    horizon = 0 if known is None else min(SHOWN[-1], int(episodes.lengths.max()) - known.num_past + 1)
    if known is None or horizon < 1:
        return {}
    found = calibration(model, known, episodes, horizon=horizon, key=jax.random.key(0))
    write_rows(out / FILE, calibration_rows(found))
    strange = _strange(model, episodes, float(known.disagreement))
    return {"intervals": _numbers(found, known.num_episodes), "unlike_training": strange}


def _numbers(found: Calibration, num_episodes: int) -> dict[str, Any]:
    horizons = [steps for steps in SHOWN if steps <= found.horizon]
    coverage = {
        f"coverage_{round(100 * share)}": {str(steps): float(values[steps - 1].mean()) for steps in horizons}
        for share, values in found.coverage.items()
    }
    crps = dict(zip(found.state_names, found.crps.mean(axis=0).tolist(), strict=True))
    return {**coverage, "crps": crps, "calibrated_on_episodes": num_episodes, "windows": found.num_windows}


def _strange(model: Model | MemoryModel, episodes: Episodes, usual: float) -> list[dict[str, Any]]:
    """Episodes in which the members disagree more than they did anywhere in training, the worst first."""
    found = disagreement(model, episodes)
    if usual <= 0:
        return []
    worst_first = np.argsort(-found, kind="stable")
    return [
        {"episode": episodes.origin(int(number)), "times": float(found[number] / usual)}
        for number in worst_first
        if found[number] > STRANGE * usual
    ]
