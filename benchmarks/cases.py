"""Cases: compares penstock with a file of cases whose answers are known.

    python -m benchmarks.cases FILE

The top-level keys determine the format of the file. Prints the number of agreeing cases and the
first difference of each section; exits with 1 unless all cases agree.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks import (
    cascader_cases,
    nvdla_rtl_cases,
    nvdla_sheet_cases,
    nvdla_trace_cases,
    partition_cases,
    smaug_cases,
)
from benchmarks.case_file import Document, Section, read_document
from benchmarks.entry import entry
from penstock.errors import ModelError, UnsupportedError


@dataclass(frozen=True, slots=True)
class Format:
    """A file format, the keys that identify it, and its checker; `check` is None if there is
    none."""

    name: str
    keys: frozenset[str]
    check: Callable[[Document, str], tuple[Section, ...]] | None = None


FORMATS = (
    *(
        Format("stripes of TVM's cascader", frozenset({key}), cascader_cases.check)
        for key in cascader_cases.KEYS
    ),
    Format("tiles of SMAUG", smaug_cases.KEYS, smaug_cases.check),
    Format(
        "layers that SMAUG's own code tiles",
        frozenset({smaug_cases.LAYERS}),
        smaug_cases.check_lines,
    ),
    *(
        Format(f"{what} of NVDLA's performance sheet", keys, nvdla_sheet_cases.check)
        for what, keys in (
            ("networks", nvdla_sheet_cases.NETWORKS),
            ("layers", nvdla_sheet_cases.LAYERS),
        )
    ),
    Format("graphs to be partitioned", partition_cases.KEYS, partition_cases.check),
    Format("networks of msf-CNN", frozenset({"columns", "networks"})),
    Format("cycles of NVDLA's RTL", nvdla_rtl_cases.KEYS, nvdla_rtl_cases.check),
    Format("register programs of NVDLA", nvdla_trace_cases.KEYS, nvdla_trace_cases.check),
)
"""Formats in order of precedence: the first one applies whose keys are all present."""


def main(arguments: Sequence[str]) -> int:
    """Prints the agreements; returns 1 unless all cases agree."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.cases", description=__doc__)
    parser.add_argument("file", type=Path, metavar="FILE", help="cases, as JSON")
    path: Path = parser.parse_args(arguments).file
    sections = check_file(path)
    for section in sections:
        print(f"{section.name}: {section.agreed} of {section.cases} agree")
        if section.difference:
            print(f"  first that does not: {section.difference}")
        for note in section.notes:
            print(f"  {note}")
    cases, agreed = (sum(getattr(s, key) for s in sections) for key in ("cases", "agreed"))
    print(f"{agreed} of {cases} agree")
    return 0 if agreed == cases else 1


def check_file(path: Path) -> tuple[Section, ...]:
    """Checks the sections of a file.  Raises ModelError if the format is unknown."""
    document = read_document(path)
    found = next((f for f in FORMATS if f.keys <= document.keys()), None)
    if found is None:
        raise ModelError(
            "bench-024",
            f"no format has the keys {', '.join(map(repr, document)) or 'of an empty object'}",
            where=str(path),
            why="the format of a file of cases is told by its top-level keys",
            help=f"give one of {', '.join(cascader_cases.KEYS)}",
        )
    if found.check is None:
        raise UnsupportedError(
            "bench-025",
            f"files of this format ({found.name}) are not checked yet",
            where=str(path),
            why="penstock does not compute what they say",
            help="check a file with one of the sections " + ", ".join(cascader_cases.KEYS),
        )
    return found.check(document, str(path))


if __name__ == "__main__":
    entry(main)
