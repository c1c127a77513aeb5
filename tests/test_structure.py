"""The source tree's measures stay at or below their records in `tests/ratchets.json`.

`python -m tools.structure` prints them, and the places that are counted.
"""

from __future__ import annotations

import pytest

pytest.importorskip("vulture", reason="the extra 'develop' is not installed")

from tools.structure import callers, growth, measures, read_records


def test_no_measure_grows_and_every_record_is_measured() -> None:
    records, found = read_records(), measures(users=callers())
    assert growth(found, records) == ""
    assert records.keys() == {m.name for m in found}
