"""A generated package works unchanged: its tests pass, and its C compiles without warnings."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from command_line import CommandLine
from penstock import uma
from penstock.codegen.bundle import write_bundle
from penstock.scaffold import FILES, LAYOUTS, backend_package

SOURCES = Path(uma.__file__).parents[1]


@pytest.fixture(params=LAYOUTS)
def layout(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
def package(tmp_path: Path, layout: str) -> Path:
    """The folder of a new package."""
    write_bundle(backend_package("my_npu", layout), tmp_path / "made")
    return tmp_path / "made"


@pytest.fixture
def penstock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> CommandLine:
    monkeypatch.chdir(tmp_path)
    return CommandLine(monkeypatch, capsys)


def assert_its_tests_pass(package: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-W", "error"],
        cwd=package,
        env={**os.environ, "PYTHONPATH": str(SOURCES)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "5 passed" in done.stdout


def test_its_tests_pass_at_once(package: Path, host_compilers: Sequence[str]) -> None:
    assert_its_tests_pass(package)


def test_its_tests_pass_if_a_cached_function_creates_drivers(
    package: Path, host_compilers: Sequence[str]
) -> None:
    """As add-a-backend.md recommends where drivers depend on an attribute."""
    for module in package.glob("src/**/*.py"):
        text = module.read_text("utf-8")
        made = re.sub(r"^CONV2D = (.*)$", r"@cache\ndef driver():\n    return \1", text, flags=re.M)
        if made != text:
            made = made.replace("import numpy", "from functools import cache\n\nimport numpy", 1)
        made = made.replace("invoke(CONV2D,", "invoke(driver(),").replace("CONV2D", "driver")
        module.write_text(made, "utf-8")
    assert any("@cache" in path.read_text("utf-8") for path in package.glob("src/**/*.py"))
    assert_its_tests_pass(package)


def test_its_files_are_whole_and_its_holes_filled(package: Path, layout: str) -> None:
    files = sorted(str(p.relative_to(package)) for p in package.rglob("*") if p.is_file())
    assert files == sorted(path.format(name="my_npu") for path in FILES[layout].values())
    assert [f for f in files if "{{" in (package / f).read_text("utf-8")] == []
    assert "my_npu.backend:MyNpuBackend" in (package / "pyproject.toml").read_text("utf-8")


def test_its_backend_imports_the_public_module_and_numpy_alone(package: Path) -> None:
    found = set[str]()
    for file in (package / "src/my_npu").glob("*.py"):
        tree = ast.parse(file.read_text("utf-8"))
        found |= {n.module or "" for n in ast.walk(tree) if isinstance(n, ast.ImportFrom)}
        found |= {a.name for n in ast.walk(tree) if isinstance(n, ast.Import) for a in n.names}
    own = {name for name in found if name.partition(".")[0] in ("my_npu", "dataclasses")}
    assert found - own == {"numpy", "penstock.uma"}


def test_an_unknown_layout_is_refused(penstock: CommandLine) -> None:
    said = penstock("backend", "new", "my_npu", "--layout", "fiels")
    assert said.code == 2
    assert "did you mean files?" in said.err


def test_its_lines_are_as_long_as_ours(package: Path) -> None:
    python = [p for p in package.rglob("*.py")]
    assert max(len(line) for p in python for line in p.read_text("utf-8").splitlines()) <= 100


def test_a_package_is_written_by_its_name(penstock: CommandLine, tmp_path: Path) -> None:
    said = penstock("backend", "new", "my_npu", "--json")
    assert said.code == 0
    assert said.json["folder"] == "my_npu"
    assert all((tmp_path / "my_npu" / file).is_file() for file in said.json["files"])
    again = penstock("backend", "new", "my_npu")
    assert again.code == 1
    assert "error[output-001]" in again.err


@pytest.mark.parametrize(
    ("name", "code"),
    [("My_Npu", "usage-021"), ("8bit", "usage-021"), ("class", "usage-021"), ("../x", "usage-021"),
     ("", "usage-021"), ("numpy", "usage-022"), ("penstock", "usage-022"), ("json", "usage-022")],
)  # fmt: skip
def test_names_that_cannot_be_are_refused(
    penstock: CommandLine, tmp_path: Path, name: str, code: str
) -> None:
    said = penstock("backend", "new", name, "-o", "made")
    assert said.code == 2
    assert f"error[{code}]" in said.err
    assert list(tmp_path.iterdir()) == []
