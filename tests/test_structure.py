"""The source tree's measures stay at or below their records in `tests/ratchets.json`.

`python -m tools.structure` prints them, and the places that are counted.
"""

from __future__ import annotations

from tools.ratchets import growth, read_records
from tools.structure.measures import HAS_VULTURE, measures

MEASURED_ELSEWHERE = {"broken_contracts"}  # test_architecture.py
OPTIONAL = set() if HAS_VULTURE else {"unused_symbols"}


def test_no_measure_grows_and_every_record_is_measured() -> None:
    records, found = read_records()["structure"], list(measures())
    assert growth(found, records) == ""
    assert records.keys() - {m.name for m in found} <= MEASURED_ELSEWHERE | OPTIONAL
