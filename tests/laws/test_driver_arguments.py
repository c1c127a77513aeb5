"""Law: the functional model of a driver reads every argument of its functions.

The arguments are records; networks run on the machine with records that note which fields are
read.  Accelerators without records are left out.  In C, unused arguments are errors
(`tests/c/test_warnings.py`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import fields
from typing import Any

import pytest

from penstock import api
from penstock.ladder import in_machine
from penstock.program.program import Invoke

NETWORKS = {
    "vanilla": "zoo:lenet5",
    "dot4": "zoo:resnet8:width=8,resolution=16",
    "smv": "zoo:resnet8:width=8,resolution=16",
}


@pytest.mark.parametrize("name", NETWORKS)
def test_models_read_every_argument(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    read: dict[type, set[str]] = defaultdict(set)
    plain = Invoke.with_values

    def noted(self: Invoke, values: Sequence[Any]) -> Any:
        record = plain(self, values)
        return record if record is None else _noting(record, read[type(record)])

    monkeypatch.setattr(Invoke, "with_values", noted)
    done = api.compile(NETWORKS[name], "cortex-m4", accelerators=(name,)).compilation
    in_machine(done, done.program, api.drawn_sets(done, 1)[0])
    assert read
    for record, found in read.items():
        assert found == {field.name for field in fields(record)}, record.__name__


def _noting(record: Any, read: set[str]) -> Any:
    """A copy of a record that notes the names of the fields that are read."""
    names = frozenset(field.name for field in fields(record))

    def get(self: object, name: str) -> Any:
        if name in names:
            read.add(name)
        return object.__getattribute__(self, name)

    kind = type(type(record).__name__, (type(record),), {"__slots__": (), "__getattribute__": get})
    return kind(**{name: getattr(record, name) for name in names})
