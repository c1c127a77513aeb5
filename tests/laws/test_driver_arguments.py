"""Law: the functional model of a driver reads every argument of its functions.

The arguments are records; networks run on the machine with records that note which fields are
read.  UltraTrail has configuration words instead; `test_registers_matter` treats command streams.
In C, unused arguments are errors
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
from penstock_ultra_trail import engine

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


def test_ultra_trail_reads_every_field_of_its_words(monkeypatch: pytest.MonkeyPatch) -> None:
    read: set[str] = set()
    plain = engine.decode

    class Noting:
        def __init__(self, words: Any) -> None:
            self._words = plain(words)

        def __getattr__(self, name: str) -> int:
            read.add(name)
            return getattr(self._words, name)

    monkeypatch.setattr(engine, "decode", Noting)
    done = api.compile("zoo:tc_resnet8", "cortex-m4", accelerators=("ultra_trail",)).compilation
    in_machine(done, done.program, api.drawn_sets(done, 1)[0])
    assert read == {name for name, *_ in engine.Words._fields_}


def _noting(record: Any, read: set[str]) -> Any:
    """A copy of a record that notes the names of the fields that are read."""
    names = frozenset(field.name for field in fields(record))

    def get(self: object, name: str) -> Any:
        if name in names:
            read.add(name)
        return object.__getattribute__(self, name)

    kind = type(type(record).__name__, (type(record),), {"__slots__": (), "__getattribute__": get})
    return kind(**{name: getattr(record, name) for name in names})
