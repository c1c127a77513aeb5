"""Accelerators are packages of their own: they import penstock.uma alone, and are told of nowhere
else."""

from __future__ import annotations

import ast
import io
import re
import sys
import tokenize
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from penstock.backends.discovery import PUBLISHED
from penstock.scaffold import LAYOUTS, backend_package

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = tuple(sorted(path.parent for path in ROOT.glob("accelerators/*/pyproject.toml")))
FILES = tuple(path for package in PACKAGES for path in sorted(package.glob("src/**/*.py")))
MOST_LINES = 150
"""RFC 0060's promise, as issue 4 puts it."""


def project(folder: Path) -> dict[str, Any]:
    """The table `project` of a package."""
    return tomllib.loads((folder / "pyproject.toml").read_text("utf-8"))["project"]


def module_of(package: Path) -> str:
    """The name of a package's module: penstock_nvdla, of penstock-nvdla."""
    return package.name.replace("-", "_")


def imported(path: Path) -> Iterator[str]:
    """Every module, or member of a module, that a file imports."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert not node.level
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def dependencies(package: Path) -> set[str]:
    """The names of the packages that a package depends on."""
    return {re.split(r"[<>=~!]", text)[0] for text in project(package)["dependencies"]}


def may_be_imported(name: str, package: Path) -> bool:
    """Whether a file of an accelerator may import a name: of its own module, of the interface, of
    a package that it depends on, and of what comes with Python."""
    roots = ("penstock.uma", module_of(package), *dependencies(package) - {"penstock"})
    inside = any(f"{name}.".startswith(f"{root}.") for root in roots)
    return inside or name.split(".")[0] in sys.stdlib_module_names


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_they_import_nothing_else_of_penstock(path: Path) -> None:
    package = next(package for package in PACKAGES if package in path.parents)
    assert [name for name in imported(path) if not may_be_imported(name, package)] == []


def test_the_core_imports_none_of_them() -> None:
    modules = {module_of(package) for package in PACKAGES}
    found = [
        (path.name, name)
        for path in (ROOT / "src").rglob("*.py")
        for name in imported(path)
        if name.split(".")[0] in modules
    ]
    assert found == []


@pytest.mark.parametrize("package", PACKAGES, ids=lambda path: path.name)
def test_versions_are_those_of_the_core(package: Path) -> None:
    """They move together, since the interface may change with each version."""
    own, core = project(package), project(ROOT)
    assert own["name"] == package.name
    assert own["version"] == core["version"]
    assert own["requires-python"] == core["requires-python"]
    assert f"penstock=={core['version']}" in own["dependencies"]


@pytest.mark.parametrize("package", PACKAGES, ids=lambda path: path.name)
def test_an_extra_of_the_core_installs_them(package: Path) -> None:
    extra = package.name.removeprefix("penstock-")
    own, core = project(package), project(ROOT)
    assert core["optional-dependencies"][extra] == [f"{package.name}=={core['version']}"]
    points = own["entry-points"]["penstock.backends"]
    assert sorted(points) == sorted(name for name, by in PUBLISHED.items() if by == extra)
    assert all(point.startswith(module_of(package)) for point in points.values())


@pytest.mark.parametrize("package", PACKAGES, ids=lambda path: path.name)
def test_they_are_laid_out_like_a_new_package(package: Path) -> None:
    """Metadata, README, one module in `src`, tests."""
    for layout in LAYOUTS:
        made = {Path(path).parts[0] for path, _ in backend_package("my_npu", layout).files}
        assert made <= {path.name for path in package.iterdir()}
    modules = [path for path in (package / "src").iterdir() if (path / "__init__.py").is_file()]
    assert [path.name for path in modules] == [module_of(package)]
    assert list((package / "tests").glob("test_*.py"))
    assert (package / "LICENSE").read_text("utf-8") == (ROOT / "LICENSE").read_text("utf-8")


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

    Program passes and generated headers, which RFC 0060 leaves optional, have files of their own
    and do not count."""
    optional = "passes.py", "codegen.py"
    (home,) = ROOT.glob(f"accelerators/*/src/penstock_{name}")
    description = (home / "__init__.py").read_text("utf-8")
    assert "(uma.UMABackend)" in description or "(UMABackend)" in description
    assert len(description.splitlines()) <= MOST_LINES
    paths = (path for path in home.glob("*.py") if path.name not in optional)
    files = (path.read_text("utf-8") for path in paths)
    assert sum(map(code_lines, files)) <= MOST_LINES


def test_text_and_layout_are_no_lines_of_code() -> None:
    assert code_lines('"""Text\n\nof three lines."""\n\n# comment\nx = (\n    1\n)\n') == 3


def test_an_import_of_the_core_would_be_found(tmp_path: Path) -> None:
    bad = tmp_path / "bad.py"
    bad.write_text("from penstock.ir.graph import Graph\nfrom penstock import uma\nimport numpy\n")
    found = [name for name in imported(bad) if not may_be_imported(name, PACKAGES[0])]
    assert found == ["penstock.ir.graph.Graph"]
