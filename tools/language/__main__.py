"""Prints the counts of private words and vague names beside their records.

    python -m tools.language [--details MEASURE|all] [--words] [--lower]

Exits with 1 if a count is above its record in `tests/ratchets.json`.  `--details` prints the places
of a measure, `--words` how often each private word occurs; `--lower` records counts that fell.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from tools.language.measures import by_word, measures
from tools.ratchets import lower_records, print_measures, read_records


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.language", description=__doc__)
    parser.add_argument("--details", metavar="MEASURE", help="print the places of this measure")
    parser.add_argument("--words", action="store_true", help="print how often each word occurs")
    parser.add_argument("--lower", action="store_true", help="record counts that fell")
    wanted = parser.parse_args(arguments)
    found = tuple(measures())
    if wanted.words:
        words = by_word(place for m in found if m.name != "vague_names" for place in m.places)
        for word, count in words.most_common():
            print(f"{count:5,}  {word}")
    if wanted.lower:
        lower_records("language", found)
    return print_measures("language", found, wanted.details, read_records())


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
