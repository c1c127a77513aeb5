"""Ratchets: counts that may fall but never grow, recorded in `tests/ratchets.json`.

A count below its record passes: whoever improves the code need not touch the file.  `--lower`
writes the present counts as new records.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

RATCHETS = Path(__file__).resolve().parents[1] / "tests" / "ratchets.json"
Records = Mapping[str, Mapping[str, int]]
"""Records by group ("structure", "language") and measure."""


@dataclass(frozen=True, slots=True)
class Measure:
    """A count, and the places that it counts.  `name`: its name in the ratchet file."""

    name: str
    title: str
    count: int
    places: tuple[str, ...] = ()


def measure(name: str, title: str, places: Sequence[str]) -> Measure:
    """The number of places."""
    return Measure(name, title, len(places), tuple(places))


def read_records(path: Path = RATCHETS) -> Records:
    """The recorded counts."""
    return json.loads(path.read_text("utf-8"))


def above_record(measured: Measure, records: Mapping[str, int]) -> bool:
    """Whether a measure is larger than its record; without a record, whether it is above zero."""
    return measured.count > records.get(measured.name, 0)


def growth(measures: Iterable[Measure], records: Mapping[str, int]) -> str:
    """Every measure above its record, with its places; empty if there is none."""
    return "\n".join(
        line
        for m in measures
        if above_record(m, records)
        for line in (f"{m.title}: {m.count}, recorded {records.get(m.name, 0)}", *m.places)
    )


def lower_records(group: str, measures: Sequence[Measure], path: Path = RATCHETS) -> None:
    """Writes counts below their records as new records; a measure without a record gets one."""
    every = {name: dict(found) for name, found in read_records(path).items()}
    own = every.setdefault(group, {})
    every[group] = {m.name: min(m.count, own.get(m.name, m.count)) for m in measures}
    path.write_text(json.dumps(every, indent=2) + "\n", "utf-8")


def verdict(measured: Measure, records: Mapping[str, int]) -> str:
    """What to do about a measure."""
    if above_record(measured, records):
        return "ABOVE THE RECORD"
    if measured.count < records.get(measured.name, 0):
        return "ok; lower the record"
    return "ok"


def print_measures(
    group: str, measures: Sequence[Measure], details: str | None, records: Records
) -> int:
    """Prints a line for each measure, and the places of some; returns 1 if one is above its record.

    `details`: the measure whose places are printed, or "all"; else those above their records."""
    own = records.get(group, {})
    width = max(len(m.title) for m in measures)
    for m in measures:
        record = own.get(m.name, 0)
        print(f"{m.title:{width}}  {m.count:6,}  record {record:6,}  {verdict(m, own)}")
        if details in (m.name, "all") or (details is None and above_record(m, own)):
            for place in m.places:
                print(f"    {place}")
    return int(any(above_record(m, own) for m in measures))
