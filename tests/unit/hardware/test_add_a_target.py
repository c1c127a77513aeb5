"""docs/how-to/add-a-target.md: its board is a target, its tables and its message are true."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from command_line import CommandLine
from penstock import api
from penstock.backends.cores.family import core_families
from penstock.hardware.schema import TargetFile
from target_fields import FIELDS

ROOT = Path(__file__).parents[3]
MODEL = ROOT / "tests" / "models" / "two_heads.tflite"
PAGE = (ROOT / "docs" / "how-to" / "add-a-target.md").read_text("utf-8")
BLOCKS = dict(re.findall(r"^```(toml|text)\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE))


@pytest.fixture
def board(tmp_path: Path) -> Path:
    """The board of the page, as a file in the current folder of commands."""
    path = tmp_path / "my-board.toml"
    path.write_text(BLOCKS["toml"], "utf-8")
    return path


def test_a_network_compiles_for_the_board(board: Path) -> None:
    compiled = api.compile(MODEL, str(board))
    memories = compiled.compilation.request.target.memories
    assert {m.name: m.size_bytes for m in memories} == {"ram": 192 << 10, "flash": 768 << 10}
    assert compiled.report.target == "my-board"


def test_the_size_of_a_memory_is_a_limit(board: Path, penstock: CommandLine) -> None:
    board.write_text(BLOCKS["toml"].replace('"192KiB"', '"1KiB"'), "utf-8")
    said = penstock("compile", MODEL, "--target", board.name)
    assert said.code == 1
    assert said.err.startswith("error[capacity-001]")


def test_the_message_is_the_one_that_penstock_prints(board: Path, penstock: CommandLine) -> None:
    before, flash = BLOCKS["toml"].split('name = "flash"')
    wrong = flash.replace("latency_cycles = 0", "latency_cycles = -1", 1)
    board.write_text(f'{before}name = "flash"{wrong}', "utf-8")
    assert penstock("compile", MODEL, "--target", board.name).err == BLOCKS["text"]


def test_every_field_is_explained() -> None:
    tables = TargetFile.model_fields
    cycles = [field.name for field in FIELDS if field.name.startswith("cycles_per_")]
    assert len(cycles) == 4
    rows = "\n".join(line for line in PAGE.splitlines() if line.startswith("|"))
    for field in FIELDS:
        if field.name not in (*tables, "setup_cycles", *cycles):
            assert f"`{field.name}`" in rows, field


def test_the_table_of_core_families_is_complete() -> None:
    for family in core_families().values():
        names = ", ".join(f"`{core}`" for core in family.cores)
        assert f'| `"{family.name}"` | {family.instruction_set} | {names} |' in PAGE
