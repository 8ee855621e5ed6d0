"""Everything, or a part of it; exit code 1 if anything was lost."""

import argparse
import sys
import tempfile
from pathlib import Path

from torture.disk import disturb_disks
from torture.fuzz import damage_files
from torture.kill import kill_everything
from torture.same import same_bits
from torture.table import Clock, Tried, print_table

KILLS, FILES = 210, 31_000


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=20, help="the whole is over by then")
    parser.add_argument(
        "--share", type=float, default=1.0, help="of all trials: 0.01 takes about half a minute"
    )
    parser.add_argument("--only", nargs="*", default=["kill", "damage", "disk", "same"])
    parser.add_argument("--kinds", nargs="*", default=[], help="of files to damage (default: all)")
    options = parser.parse_args()
    clock, share, rows = Clock(options.minutes), options.share, list[Tried]()
    with tempfile.TemporaryDirectory(prefix="torture_") as folder:
        places = {name: Path(folder) / name for name in options.only}
        for place in places.values():
            place.mkdir()
        if "kill" in places:
            rows += kill_everything(places["kill"], round(share * KILLS), clock)
        if "disk" in places:
            rows += disturb_disks(places["disk"], share, clock)
        if "same" in places:
            rows += same_bits(places["same"], share, clock)
        if "damage" in places:
            rows += damage_files(places["damage"], round(share * FILES), clock, tuple(options.kinds))
    print_table(rows)
    return 1 if any(row.lost for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
