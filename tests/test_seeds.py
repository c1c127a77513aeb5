"""The page of the seeds names tests and commands that exist, and gives reasons."""

from __future__ import annotations

import ast
import shlex
from functools import cache
from itertools import pairwise
from pathlib import Path

import pytest

import beside
import test_commands_in_docs as checks
from penstock.backends.discovery import PUBLISHED
from penstock.hardware.load import target_names
from penstock.zoo.registry import networks
from tools.seeds import DOCUMENTS, EXPLAINED, FOLDER, SHOWN, STATES, Row, documents

SEEDS = {
    "rfc-0037": "tvm-rfc-0037-ethosu-cascading-scheduler.txt",
    "pr-13242": "tvm-pr-13242-cortex-m-convolution-schedules.txt",
    "tcad-2020": "irregular-network-scheduling-cnn-accelerators.txt",
    "rfc-0060": "tvm-rfc-0060-uma.txt",
    "smaug": "smaug-tiling-optimizers.txt",
}
"""The documents, by the names of their rows."""
ROOT = Path(__file__).parent.parent
ROWS = {
    f"{name}-{number}": row
    for name, document in zip(DOCUMENTS, documents(), strict=True)
    for number, row in enumerate(document.rows, start=1)
}


@cache
def functions(path: Path) -> frozenset[str]:
    """The functions that a module defines."""
    body = ast.parse(path.read_text("utf-8")).body
    return frozenset(one.name for one in body if isinstance(one, ast.FunctionDef))


def problems(row: Row) -> list[str]:
    """What is wrong with a row."""
    found = [f"unknown state {row.state!r}"] if row.state not in STATES else []
    if row.state in EXPLAINED and not row.how:
        found.append(f"{row.state!r} needs a reason")
    if row.state in SHOWN and not row.shown:
        found.append(f"{row.state!r} needs a command or a test")
    if row.state == "absent" and row.shown:
        found.append("what is absent cannot be shown")
    for test in row.tests:
        path, _, function = test.partition("::")
        if not (ROOT / path).is_file():
            found.append(f"there is no file {path}")
        elif not function.startswith("test_") or function not in functions(ROOT / path):
            found.append(f"{path} has no test {function}")
    return found


@pytest.mark.parametrize("row", ROWS.values(), ids=ROWS)
def test_a_row_has_a_reason_and_something_that_shows_it(row: Row) -> None:
    assert problems(row) == []


@pytest.mark.parametrize("row", ROWS.values(), ids=ROWS)
def test_the_commands_of_a_row_are_commands(row: Row) -> None:
    for command in row.commands:
        found = checks.Documented("docs/seeds.md", command, block=False)
        if command.startswith("penstock "):
            checks.test_penstock_understands_the_command(found)
        else:
            assert command.startswith("python -m ")
            checks.test_a_module_understands_the_options(found)


@pytest.mark.parametrize("row", ROWS.values(), ids=ROWS)
def test_networks_targets_and_accelerators_of_commands_exist(row: Row) -> None:
    for command in row.commands:
        words = shlex.split(command)
        for option, word in pairwise(words):
            name = word.partition(":")[0]
            if option == "--accelerator" and word != "NAME":
                assert name in PUBLISHED
            elif option == "--target" and not word.endswith(".toml"):
                assert name in target_names()
            elif name == "zoo":
                assert word.split(":")[1] in networks()


def test_every_file_is_on_the_page() -> None:
    assert sorted(DOCUMENTS) == sorted(path.stem for path in FOLDER.glob("*.toml"))


@pytest.mark.parametrize("name", DOCUMENTS)
def test_sections_are_those_of_the_document(name: str) -> None:
    path = beside.needed(beside.FOLDER / "seeds" / SEEDS[name])
    lines = iter([line.strip() for line in path.read_text("utf-8").splitlines()])
    document = documents()[DOCUMENTS.index(name)]
    headings = [section.heading for section in document.sections if section.heading]
    assert headings
    for heading in headings:
        assert heading in lines, f"no heading {heading!r} after the previous one"


def test_no_document_says_a_thing_twice() -> None:
    for document in documents():
        for section in document.sections:
            assert len(section.rows) == len({row.says for row in section.rows})


@pytest.mark.parametrize(
    ("row", "problem"),
    [
        (Row("a", "done", "", ("penstock ops",)), "unknown state 'done'"),
        (Row("a", "narrower", "", ("penstock ops",)), "'narrower' needs a reason"),
        (Row("a", "works", "", ()), "'works' needs a command or a test"),
        (Row("a", "absent", "why", ("penstock ops",)), "what is absent cannot be shown"),
        (Row("a", "works", "", ("tests/no.py::test_a",)), "there is no file tests/no.py"),
        (
            Row("a", "works", "", ("tests/test_seeds.py::test_a",)),
            "tests/test_seeds.py has no test test_a",
        ),
    ],
)
def test_a_wrong_row_is_found(row: Row, problem: str) -> None:
    assert problems(row) == [problem]
