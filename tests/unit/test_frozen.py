"""Records are what `dataclass` makes, also where a method is generated on its first call."""

from __future__ import annotations

from dataclasses import dataclass, field

from penstock.frozen import frozen


@frozen
class Record:
    name: str
    size: int = field(default=1, compare=False)
    note: str = field(default="", repr=False)


@dataclass(frozen=True, slots=True)
class Plain:
    name: str
    size: int = field(default=1, compare=False)
    note: str = field(default="", repr=False)


@frozen
class _Base:
    size: int


@frozen
class _Derived(_Base):
    pass


@frozen(eq=False, repr=False)
class _Itself:
    size: int

    def __repr__(self) -> str:
        return f"{self.size} B"


def test_comparison_hash_and_text_are_those_of_a_dataclass() -> None:
    for name, size, note in (("a", 1, ""), ("a", 2, "n"), ("b", 1, "n")):
        record, plain = Record(name, size, note), Plain(name, size, note)
        for _ in range(2):  # generated, then known
            assert hash(record) == hash(plain)
            assert repr(record) == repr(plain).replace("Plain", "Record")
            assert (record == Record("a")) == (plain == Plain("a"))
            assert record != plain
    assert len({Record("a"), Record("a", 2), Record("b")}) == 2


def test_records_of_derived_classes_differ() -> None:
    assert _Base(1) != _Derived(1)
    assert _Derived(1) == _Derived(1) != _Derived(2)


def test_options_and_own_methods_are_kept() -> None:
    one = _Itself(3)
    assert one != _Itself(3)
    assert repr(one) == "3 B"
