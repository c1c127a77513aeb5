"""Accelerators that come with penstock are described in few lines, through penstock.uma alone."""

from __future__ import annotations

import ast
import io
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock import accelerators

HOME = Path(accelerators.__file__).parent
FILES = tuple(p for p in sorted(HOME.rglob("*.py")) if p.parent != HOME)
MOST_LINES = 150
"""RFC 0060's promise, as issue 4 puts it."""


def imported(path: Path) -> Iterator[str]:
    """Every module, or member of a module, that a file imports."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert not node.level
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def may_be_imported(name: str, package: str) -> bool:
    """Whether an accelerator's file may import it: its own package, the interface, NumPy, and what
    comes with Python."""
    own = f"penstock.accelerators.{package}"
    inside = any(f"{name}.".startswith(f"{root}.") for root in ("penstock.uma", own))
    return inside or name.split(".")[0] in {"numpy", *sys.stdlib_module_names}


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(HOME)))
def test_they_import_nothing_of_the_core(path: Path) -> None:
    package = path.relative_to(HOME).parts[0]
    assert [name for name in imported(path) if not may_be_imported(name, package)] == []


def code_lines(text: str) -> int:
    """Lines of Python that are neither blank, comment nor docstring."""
    layout = (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT)
    seen: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in (*layout, tokenize.ENDMARKER):
            seen |= set(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(ast.parse(text)):
        match node:
            case ast.Expr(value=ast.Constant(value=str())):
                seen -= set(range(node.lineno, (node.end_lineno or 0) + 1))
            case _:
                pass
    return len(seen)


@pytest.mark.parametrize("name", ["vanilla", "ultra_trail"])
def test_a_backend_takes_at_most_150_lines(name: str) -> None:
    """The description with all its text; and, with functional models, the code.

    Program passes, which RFC 0060 leaves optional, have a file of their own and do not count."""
    description = (HOME / name / "__init__.py").read_text("utf-8")
    assert "(uma.UMABackend)" in description or "(UMABackend)" in description
    assert len(description.splitlines()) <= MOST_LINES
    paths = (path for path in (HOME / name).glob("*.py") if path.name != "passes.py")
    files = (path.read_text("utf-8") for path in paths)
    assert sum(map(code_lines, files)) <= MOST_LINES


def test_text_and_layout_are_no_lines_of_code() -> None:
    assert code_lines('"""Text\n\nof three lines."""\n\n# comment\nx = (\n    1\n)\n') == 3


def test_an_import_of_the_core_would_be_found(tmp_path: Path) -> None:
    bad = tmp_path / "bad.py"
    bad.write_text("from penstock.ir.graph import Graph\nfrom penstock import uma\nimport numpy\n")
    found = [name for name in imported(bad) if not may_be_imported(name, "bad")]
    assert found == ["penstock.ir.graph.Graph"]
