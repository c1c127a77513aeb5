"""Prints every measure of the source tree beside its record in `tests/ratchets.json`.

    python -m tools.structure [--details MEASURE|all] [--lower]

Exits with 1 if a measure is above its record.  `--details` prints the counted places of a measure;
`--lower` writes counts that fell as new records.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from tools.ratchets import lower_records, print_measures, read_records
from tools.structure.measures import HAS_VULTURE, broken_contracts, measures


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.structure", description=__doc__)
    parser.add_argument("--details", metavar="MEASURE", help="print the places of this measure")
    parser.add_argument("--lower", action="store_true", help="record counts that fell")
    wanted = parser.parse_args(arguments)
    found = (broken_contracts(), *measures())
    if not HAS_VULTURE:
        print("vulture is not installed: unused symbols are not counted", file=sys.stderr)
    if wanted.lower:
        lower_records("structure", found)
    return print_measures("structure", found, wanted.details, read_records())


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
