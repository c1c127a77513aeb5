"""The layers of ARCHITECTURE.md: imports, operator names, and places of C code.

The test of operator names reads tokens. In `scheduling/`, identifiers and strings must not be class
names ("Conv2D"), foreign names ("CONV_2D") or file names ("conv2d") of operators; prose must not
contain those that cannot be English words. COMMON lists names that have other meanings, with the
reason.
"""

from __future__ import annotations

import ast
import io
import re
import subprocess
import sys
import tokenize
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

import penstock
from penstock.backends.contributions import declared
from penstock.backends.discovery import PUBLISHED
from penstock.ops.registry import foreign_names, operator_files, operators

SOURCE = Path(penstock.__file__).parent
REPOSITORY = Path(__file__).resolve().parents[1]
ACCELERATORS = sorted(path.parent for path in REPOSITORY.glob("accelerators/*/pyproject.toml"))
MODULES = sorted(SOURCE.rglob("*.py"))

COMMON = {
    "comparisons": "of rows, in memory/",
    "cumsum": "NumPy's, of columns of numbers",
    "plain": "a kind of chain, in scheduling/",
    "pool": "of threads",
    "reshape": "NumPy's, of columns of numbers",
    "resize": "NumPy's, of columns of numbers",
    "running": "of totals, and of an accelerator",
    "slice": "a builtin",
    "sums": "of sizes",
    "tile": "a piece of a layer, in tiling/",
}
"""Names of operator files that are also common words of Python.

Uses as operators need an import, which other tests check.
"""

NAMES_ACCELERATORS = {
    "backends/discovery.py": "PUBLISHED, for messages about packages that are not installed",
    "cli/help.py": "an example of a command",
    "frontends/causes.py": "explains files that other compilers have written",
    "pipeline/request.py": "an example of a setting",
}
"""Modules that may name accelerators, with the reason."""

C_FOLDERS = ("codegen", "runtime", "scaffold")
C_OF_INSTRUMENTS = {
    "toolchains/freestanding": "start-up code of the simulated board, never part of a bundle",
    "simulators/block_hook.c": "counts blocks inside the simulator, never part of a bundle",
    "simulators/instruction_counter.c": "counts instructions inside QEMU, never part of a bundle",
}
C_FILES = re.compile(r"\.(c|h|S|s|ld|[chS]\.j2)$")
C_TEXT = re.compile(
    r"#\s*(include|define|if|endif)\b|\bu?int\d+_t\b|\bvoid \w+\(|static (const|inline)\b"
)


def dependencies(folder: Path) -> set[str]:
    """The names of the packages that a package depends on."""
    project = tomllib.loads((folder / "pyproject.toml").read_text("utf-8"))["project"]
    return {re.split(r"[<>=~!]", text)[0] for text in project["dependencies"]}


def named(path: Path) -> str:
    return str(path.relative_to(SOURCE))


@cache
def operator_words() -> dict[str, str]:
    """Every name of an operator, with its kind."""
    files = {file.module.__name__.rpartition(".")[2]: "operator file" for file in operator_files()}
    words = dict.fromkeys(operators(), "operator") | dict.fromkeys(foreign_names(), "foreign name")
    return words | {name: kind for name, kind in files.items() if name not in COMMON}


def never_prose(word: str) -> bool:
    """Whether a word cannot be English: it has an inner capital, an underscore or a digit."""
    return bool(re.search(r"[a-z][A-Z]|_|\d", word))


@cache
def tokens(path: Path) -> list[tuple[bool, str]]:
    """(whether it is prose, text) of every name, string and comment of a module."""
    text = path.read_text()
    prose = docstrings(text)
    return [
        (token.type == tokenize.COMMENT or token.start[0] in prose, token.string)
        for token in tokenize.generate_tokens(io.StringIO(text).readline)
        if token.type in (tokenize.NAME, tokenize.STRING, tokenize.COMMENT)
    ]


def docstrings(text: str) -> set[int]:
    """Line numbers of the expression statements that are strings."""
    return {
        node.lineno
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }


def imported(path: Path) -> Iterator[str]:
    """Full names of all modules and members that a module imports."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def operators_in(path: Path) -> list[str]:
    """Every place where a module names an operator."""
    known = operator_words()
    return [
        f"{known[word]} {word} in {text!r}"
        for prose, text in tokens(path)
        for word in re.findall(r"\w+", text)
        if word in known and (not prose or never_prose(word))
    ]


@pytest.mark.parametrize(
    "path",
    [
        path
        for path in MODULES
        if path.relative_to(SOURCE).parts[0] in ("scheduling", "memory", "tiling")
    ],
    ids=named,
)
def test_scheduling_tiling_and_memory_name_no_operator(path: Path) -> None:
    assert operators_in(path) == []


def test_an_operator_that_is_named_would_be_found(tmp_path: Path) -> None:
    path = tmp_path / "bad.py"
    path.write_text(
        '"""Adds a Conv2D."""\nx = y.fully_connected(Add, "CONV_2D")  # MaxPool2D\nseen.add(Pad)\n'
    )
    assert len(operators_in(path)) == 6


def test_every_common_word_is_the_name_of_an_operator_file() -> None:
    files = {file.module.__name__.rpartition(".")[2] for file in operator_files()}
    assert set(COMMON) <= files


def test_no_module_imports_the_face() -> None:
    children = {child.stem for child in SOURCE.iterdir()}
    found = [
        (named(path), name)
        for path in MODULES
        if path != SOURCE / "__init__.py"
        for name in imported(path)
        if name.split(".")[0] == "penstock" and (*name.split("."), "")[1] not in children
    ]
    assert found == []


@cache
def accelerator_names() -> re.Pattern[str]:
    """Matches names of accelerators, of their packages, of what these contribute to commands, and
    of packages that only they depend on, such as vendors' compilers, as `words` writes them."""
    found = {*PUBLISHED, *PUBLISHED.values()}
    core = dependencies(REPOSITORY)
    for package in ACCELERATORS:
        found |= dependencies(package) - core - {"penstock"}
        for tables in declared(next(package.glob("src/*"))).values():
            found |= tables.keys()
    names = sorted({words(name) for name in found}, reverse=True)
    return re.compile(rf"\b(?:{'|'.join(names)})(?=[0-9 ]|$)")


def words(text: str) -> str:
    return " ".join(re.findall("[a-z0-9]+", text.lower()))


def named_accelerators(text: str) -> set[str]:
    """The names in a text.  They may end in a number, as in ethos_u55."""
    return set(accelerator_names().findall(words(text)))


def test_the_core_names_no_accelerator() -> None:
    found = {
        (named(path), name)
        for path in MODULES
        for prose, text in tokens(path)
        if not prose
        for name in named_accelerators(text)
    }
    assert {one for one in found if one[0] not in NAMES_ACCELERATORS} == set()
    assert {place for place, _ in found} == NAMES_ACCELERATORS.keys(), "a reason without a name"


def test_files_of_the_core_name_no_accelerator() -> None:
    files = (path for path in SOURCE.rglob("*") if path.suffix in (".c", ".h", ".j2", ".toml"))
    assert [named(path) for path in files if named_accelerators(path.read_text("utf-8"))] == []


def test_an_accelerator_that_is_named_would_be_found() -> None:
    assert named_accelerators("networks on Ethos-U75 only") == {"ethos u"}
    for text in ("vela-tflite", "VELA_TFLITE", "ARM_RUNNER", "--kind pe-array", "nvdla"):
        assert named_accelerators(text), text


def test_imports_are_absolute() -> None:
    nodes = ((path, node) for path in MODULES for node in ast.walk(ast.parse(path.read_text())))
    found = [named(p) for p, node in nodes if isinstance(node, ast.ImportFrom) and node.level]
    assert found == []


def test_c_files_stand_only_where_c_is_written_or_ships() -> None:
    found = [named(path) for path in SOURCE.rglob("*") if C_FILES.search(path.name)]
    elsewhere = [name for name in found if not name.startswith(tuple(f"{f}/" for f in C_FOLDERS))]
    assert [name for name in elsewhere if not name.startswith(tuple(C_OF_INSTRUMENTS))] == []
    assert all((SOURCE / name).exists() for name in C_OF_INSTRUMENTS), "a reason without a file"


def test_only_the_code_generator_writes_c() -> None:
    found = [
        (named(path), text)
        for path in MODULES
        if path.relative_to(SOURCE).parts[0] not in C_FOLDERS
        for prose, text in tokens(path)
        if not prose and text[-1] in "'\"" and C_TEXT.search(text)
    ]
    assert found == []


def test_rooms_import_only_from_floors_below() -> None:
    command = [sys.executable, "-c", "from importlinter.cli import lint_imports_command as c; c()"]
    done = subprocess.run(
        [*command, "--no-cache"],
        cwd=REPOSITORY,
        env={"PYTHONPATH": str(SOURCE.parent), "PATH": ""},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "KEPT" in done.stdout
