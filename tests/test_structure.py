"""The source tree's measures stay at or below their records in `tests/ratchets.json`.

`python -m tools.structure` prints them, and the places that are counted.
"""

from __future__ import annotations

import pytest

from tools.ratchets import above_record, read_records
from tools.structure.measures import HAS_VULTURE, measures

FOUND = {measured.name: measured for measured in measures()}
RECORDS = read_records()["structure"]


@pytest.mark.parametrize("name", FOUND)
def test_a_measure_does_not_grow(name: str) -> None:
    measured = FOUND[name]
    assert not above_record(measured, RECORDS), "\n".join(
        (f"{measured.title}: {measured.count}, recorded {RECORDS.get(name, 0)}", *measured.places)
    )


def test_every_record_is_measured() -> None:
    elsewhere = {"broken_contracts"}  # test_architecture.py
    assert RECORDS.keys() - FOUND.keys() <= elsewhere | (
        set() if HAS_VULTURE else {"unused_symbols"}
    )
