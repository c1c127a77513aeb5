"""Private words and vague names stay at or below their records in `tests/ratchets.json`.

`python -m tools.language` prints the counts, and the places that are counted.
"""

from __future__ import annotations

from tools.language.measures import measures
from tools.ratchets import growth, read_records


def test_no_count_grows_and_every_record_is_measured() -> None:
    records, found = read_records()["language"], list(measures())
    assert growth(found, records) == ""
    assert records.keys() == {m.name for m in found}
