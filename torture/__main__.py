"""Everything, or a part of it; exit code 1 if anything was lost, or not tried because the time was over."""

import argparse
import sys
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from torture.disk import disturb_disks
from torture.fuzz import damage_files
from torture.kill import kill_everything
from torture.same import same_bits
from torture.table import OVER, Clock, Tried, print_table

KILLS, FILES = 210, 31_000
PARTS = ["kill", "damage", "disk", "same"]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=20, help="the whole is over by then")
    parser.add_argument(
        "--share", type=float, default=1.0, help="of all trials: 0.01 takes about half a minute"
    )
    parser.add_argument("--only", nargs="*", choices=PARTS, default=PARTS)
    parser.add_argument("--kinds", nargs="*", default=[], help="of files to damage (default: all)")
    options = parser.parse_args()
    clock, share = Clock(options.minutes), options.share
    with tempfile.TemporaryDirectory(prefix="torture_") as folder:
        places = {name: Path(folder) / name for name in options.only}
        for place in places.values():
            place.mkdir()
        works: dict[str, Callable[[Path], list[Tried]]] = {
            "kill": lambda place: kill_everything(place, round(share * KILLS), clock),
            "damage": lambda place: damage_files(place, round(share * FILES), clock, tuple(options.kinds)),
            "disk": lambda place: disturb_disks(place, share, clock),
            "same": lambda place: same_bits(place, share, clock),
        }
        # Two at a time: all they do here is to wait for processes.
        with ThreadPoolExecutor(2) as pool:
            parts = [pool.submit(works[name], place) for name, place in places.items()]
            rows = [row for part in parts for row in part.result()]
    print_table(rows)
    return 1 if any(row.lost or OVER in (row.left_out or "") for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
