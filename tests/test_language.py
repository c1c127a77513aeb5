"""Private words and vague names stay at or below their records in `tests/ratchets.json`.

`python -m tools.language` prints the counts, and the places that are counted.
"""

from __future__ import annotations

import pytest

from tools.language.measures import measures
from tools.ratchets import above_record, read_records

FOUND = {measured.name: measured for measured in measures()}
RECORDS = read_records()["language"]


@pytest.mark.parametrize("name", FOUND)
def test_a_count_does_not_grow(name: str) -> None:
    measured = FOUND[name]
    assert not above_record(measured, RECORDS), "\n".join(
        (f"{measured.title}: {measured.count}, recorded {RECORDS.get(name, 0)}", *measured.places)
    )


def test_every_record_is_measured() -> None:
    assert RECORDS.keys() == FOUND.keys()
