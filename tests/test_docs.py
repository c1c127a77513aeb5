"""Documents agree with the code."""

from __future__ import annotations

import ast
import doctest
import importlib
import re
from pathlib import Path

import pytest

from tools.make_docs import PAGES

ROOT = Path(__file__).parent.parent
SOURCES = (ROOT / "src", *sorted(ROOT.glob("accelerators/*/src")))
WITH_EXAMPLES = tuple(
    ".".join(path.relative_to(folder).with_suffix("").parts).removesuffix(".__init__")
    for folder in SOURCES
    for path in sorted(folder.rglob("*.py"))
    if ">>>" in path.read_text("utf-8")
)
"""Modules with examples in their docstrings."""
TUTORIALS = tuple(sorted((ROOT / "docs" / "tutorials").glob("*.md")))
SESSIONS = tuple(page for page in TUTORIALS if ">>>" in page.read_text("utf-8"))
SHELL = tuple(page for page in TUTORIALS if "```sh" in page.read_text("utf-8"))
NOTES = tuple(sorted((ROOT / "docs" / "decisions").glob("*.md")))
FIGURE = re.compile(r"\d,\d{3}|\d %|\d (MB|GB|kB|s|ms|ns)\b|\| *\d[\d.]* *\|")
"""What looks like a measured figure: a large number, a share, a size, a time, a cell of a table."""
BLOCKS = tuple(
    page for page in TUTORIALS if page not in SESSIONS + SHELL and "```" in page.read_text("utf-8")
)


@pytest.mark.parametrize("name", PAGES)
def test_generated_pages_are_fresh(name: str) -> None:
    assert (ROOT / name).read_text("utf-8") == PAGES[name](), "run python -m tools.make_docs"


def test_files_that_the_readme_names_exist() -> None:
    readme = (ROOT / "README.md").read_text("utf-8")
    named = [*re.findall(r"\]\(([^)#]+)\)", readme), "scripts/demo", "scripts/test"]
    assert [name for name in named if not (ROOT / name).exists()] == []


@pytest.mark.parametrize("note", NOTES, ids=lambda note: note.stem)
def test_a_decision_states_where_its_figures_come_from(note: Path) -> None:
    """A command prints them, or they were measured once, at a commit: the reader must know."""
    text = note.read_text("utf-8")
    assert not FIGURE.search(text) or text.split("\n\n")[1].startswith("*Figures:* ")


@pytest.mark.parametrize("page", BLOCKS, ids=lambda page: page.name)
def test_tutorials_are_true(page: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Python blocks run in order; a block without a language is the output of the previous one."""
    blocks = re.findall(r"```(\w*)\n(.*?)```", page.read_text("utf-8"), re.DOTALL)
    names: dict[str, object] = {}
    for kind, text in blocks:
        if kind == "python":
            exec(compile(text, str(page), "exec"), names)
        else:
            assert capsys.readouterr().out == text
    assert {kind for kind, _ in blocks} == {"python", ""}


@pytest.mark.parametrize("name", WITH_EXAMPLES)
def test_examples_in_docstrings_are_right(name: str) -> None:
    found = doctest.testmod(importlib.import_module(name))
    assert found.attempted > 0
    assert found.failed == 0


def test_the_rfc_example_is_one_of_the_examples() -> None:
    assert "penstock.ir.affine" in WITH_EXAMPLES
    text = importlib.import_module("penstock.ir.affine").__doc__ or ""
    assert "conv.extents((1, 3, 3, 4))\n(1, 5, 5, 8)" in text


@pytest.mark.parametrize("page", SESSIONS, ids=lambda page: page.stem)
def test_tutorial_code_prints_the_documented_output(page: Path) -> None:
    found = doctest.testfile(str(page), module_relative=False, encoding="utf-8")
    assert found.attempted > 0
    assert found.failed == 0


def test_messages_name_pages_that_exist() -> None:
    """Guides by title and path (`guides.py`), since wheels contain them; other pages by title."""
    named: set[str] = set()
    for path in (path for folder in SOURCES for path in folder.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                named |= set(re.findall(r'(?:guide|page) "([^"]+)"', node.value))
    pages = (ROOT / "docs").rglob("*.md")
    titles = {page.read_text("utf-8").partition("\n")[0].removeprefix("# ") for page in pages}
    assert named - titles == set()
    paths: set[str] = set()
    own = ROOT.glob("tests/errors/messages/*.txt")
    for message in (*own, *ROOT.glob("accelerators/*/tests/messages/*.txt")):
        text = message.read_text("utf-8")
        found = re.findall(r"(?:guide|page) \"[^\"]+\": CHECKOUT/(docs/how-to/\S+\.md)", text)
        assert len(found) == text.count('guide "')
        paths.update(found)
    assert paths
    assert all((ROOT / path).is_file() for path in paths)
