"""`tools.structure` finds what it counts, and nothing else, on small trees."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

pytest.importorskip("vulture", reason="the extra 'develop' is not installed")

from tools.structure import (
    Measure,
    Source,
    growth,
    import_cycles,
    long_signatures,
    measures,
    read_source,
    unused_symbols,
    uses_of_any,
)

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
        return read_source([tmp_path / "p"])

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


def test_every_measure_is_taken_of_a_small_tree(tree: Tree, tmp_path: Path) -> None:
    tree(a="class A: ...\nA()\n")
    assert {m.count for m in measures([tmp_path / "p"])} == {0}


def test_symbols_that_the_package_does_not_use_are_found(tree: Tree, tmp_path: Path) -> None:
    text = (
        "def used(): ...\ndef alone(): ...\ndef drawn(): ...\ndef documented(): ...\n"
        "def named(): ...\nused()\nx = getattr(p, 'named')\nx.of_library = used\n"
    )
    tree(a=text)
    folder, page = tmp_path / "p", tmp_path / "page.md"
    (folder / "page.j2").write_text("{{ drawn }}")
    page.write_text("alone, `documented`")
    assert unused_symbols([folder], [page]) == ("p/a.py:2 function alone",)


def test_a_count_may_fall_but_not_grow() -> None:
    found = [Measure("a", "things", ("here", "there")), Measure("b", "others", ("nowhere",))]
    assert growth(found, {"a": 1, "b": 2}) == "things: 2\n    here\n    there"
    assert growth(found, {"a": 2}) == "others: 1\n    nowhere"
    assert growth(found, {"a": 2, "b": 1}) == ""
