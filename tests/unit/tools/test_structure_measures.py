"""`tools.structure` finds what it counts, and nothing else, on small trees."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tools.ratchets import Measure, above_record, lower_records, print_measures, read_records
from tools.structure.concepts import domination_elsewhere, operator_helpers, prefetch_elsewhere
from tools.structure.definitions import long_signatures, uses_of_any
from tools.structure.imports import import_cycles
from tools.structure.measures import measures
from tools.structure.source import Source, read_source

Tree = Callable[..., Source]


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    """Writes a package `p` from texts by path, `__` for a slash, and parses it."""

    def write(**texts: str) -> Source:
        (tmp_path / "p").mkdir()
        (tmp_path / "p" / "__init__.py").touch()
        for name, text in texts.items():
            path = tmp_path / "p" / f"{name.replace('__', '/')}.py"
            for folder in path.parents:
                folder.mkdir(parents=True, exist_ok=True)
                if folder.is_relative_to(tmp_path / "p"):
                    (folder / "__init__.py").touch()
            path.write_text(text)
        return read_source(tmp_path, "p")

    return write


UNDER_TYPE_CHECKING = "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from p.a import A\n"


@pytest.mark.parametrize(
    "back",
    [
        UNDER_TYPE_CHECKING,
        "import p.a\n",
        "from p import a\n",
        "from . import a\n",
        "from .a import A\n",
        "def f():\n    from p.a import A\n",
    ],
)
def test_a_cycle_is_found_however_the_import_is_written(tree: Tree, back: str) -> None:
    assert import_cycles(tree(a="from p.b import B\nclass A: ...\n", b=back)) == (("p.a", "p.b"),)


def test_a_cycle_of_three_is_one_group_and_a_chain_is_none(tree: Tree) -> None:
    chain = {"d": "from p.e import x\n", "e": "x = 1\nimport numpy\n"}
    found = tree(a="import p.b\n", b="import p.c\n", c=UNDER_TYPE_CHECKING, **chain)
    assert import_cycles(found) == (("p.a", "p.b", "p.c"),)


def test_relative_imports_in_a_package_are_resolved(tree: Tree) -> None:
    found = tree(q__a="from .. import b\n", b="from p.q.a import x\n")
    assert import_cycles(found) == (("p.b", "p.q.a"),)


def test_long_signatures_do_not_count_self_or_commands(tree: Tree) -> None:
    text = (
        "class A:\n    def short(self, a, b): ...\n    def long(self, a, b, *, c): ...\n"
        "@app.command()\ndef command(a, b, c, d): ...\n"
        "def variadic(a, b, *c, **d): ...\n"
    )
    assert list(long_signatures(tree(a=text), limit=2)) == ["p/a.py:3 long (3)"]


def test_any_is_counted_where_it_is_used(tree: Tree) -> None:
    text = "import typing\nfrom typing import Any\nx: Any = any([])\ny: typing.Any = Anything\n"
    text += "z: NDArray[Any]\n"
    assert list(uses_of_any(tree(a=text))) == ["p/a.py:3", "p/a.py:4"]


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("def _unbeaten(points): ...\n", 1),
        ("class ParetoFront: ...\n", 1),
        ("x = a.ram <= b.ram and a.cycles <= b.cycles\n", 1),
        ("x = b[0] >= a[0] and a[1] < b[1]\n", 1),
        ("x = a.lower >= b.lower and a.upper <= b.upper\n", 0),
        ("x = a.ram <= b.ram or a.cycles <= b.cycles\n", 0),
        ("x = a.ram <= limit and a.cycles <= limit\n", 0),
        ("x = a.ram <= b.cycles and a.cycles <= b.ram\n", 0),
    ],
)
def test_domination_has_one_home(tree: Tree, text: str, count: int) -> None:
    found = tree(pareto=text, scheduling__other=text)
    assert len(list(domination_elsewhere(found, "p"))) == count


def test_prefetching_has_one_folder(tree: Tree) -> None:
    text = "class Prefetch: ...\ndef _prefetched(): ...\nclass A:\n    def prefetch(self): ...\n"
    found = tree(scheduling__prefetch__a=text, scheduling__model__b=text, accelerators__c=text)
    assert list(prefetch_elsewhere(found, "p")) == ["p/scheduling/model/b.py:1 Prefetch"]


def test_a_module_of_operators_without_a_class_is_a_helper(tree: Tree) -> None:
    found = tree(
        ops__add="class Add: ...\n",
        ops__registry="def find(): ...\n",
        ops__bias="class _Bias: ...\ndef bias(): ...\n",
    )
    assert list(operator_helpers(found, "p")) == ["p/ops/bias.py"]


def test_every_measure_is_taken_of_a_small_tree(tree: Tree) -> None:
    source = tree(a="class A: ...\n")
    counts = {m.name: m.count for m in measures(source.folder, "p", ())}
    counts.pop("unused_symbols", None)
    assert set(counts.values()) == {0}


def unused(folder: Path, *reviewed: str) -> tuple[str, ...]:
    pytest.importorskip("vulture", reason="the extra 'develop' is not installed")
    from tools.structure.unused import unused_symbols

    return unused_symbols((folder,), reviewed)


def test_symbols_that_the_package_does_not_use_are_found(tree: Tree) -> None:
    text = "def used(): ...\ndef alone(): ...\ndef drawn(): ...\ndef reviewed(): ...\nused()\n"
    folder = tree(a=text).folder / "p"
    (folder / "page.j2").write_text("{{ drawn }}")
    assert unused(folder, "reviewed") == ("p/a.py:2 function alone",)


def test_reviewed_names_have_reasons() -> None:
    pytest.importorskip("vulture", reason="the extra 'develop' is not installed")
    from tools.structure.unused import read_reviewed

    assert all(read_reviewed().values())


@pytest.fixture
def records(tmp_path: Path) -> Path:
    path = tmp_path / "ratchets.json"
    path.write_text('{"group": {"a": 3, "gone": 1}}')
    return path


def test_a_count_may_fall_but_not_grow(records: Path) -> None:
    own = read_records(records)["group"]
    assert [above_record(Measure("a", "", n), own) for n in (2, 3, 4)] == [False, False, True]
    assert above_record(Measure("new", "", 1), own)
    assert not above_record(Measure("new", "", 0), own)


def test_records_are_lowered_and_never_raised(records: Path) -> None:
    lower_records("group", [Measure("a", "", 2), Measure("b", "", 5)], records)
    lower_records("group", [Measure("a", "", 4), Measure("b", "", 5)], records)
    assert read_records(records) == {"group": {"a": 2, "b": 5}}


def test_the_print_names_places_above_the_record(capsys: pytest.CaptureFixture[str]) -> None:
    found = [Measure("a", "things", 2, ("here", "there")), Measure("b", "others", 1, ("nowhere",))]
    assert print_measures("g", found, None, {"g": {"a": 1, "b": 2}}) == 1
    printed = capsys.readouterr().out
    assert "here" in printed
    assert "nowhere" not in printed
    assert "ok; lower the record" in printed
    assert print_measures("g", found, None, {"g": {"a": 2, "b": 2}}) == 0
