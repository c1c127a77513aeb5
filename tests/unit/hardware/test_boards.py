"""Boards: every file loads, states its sources, agrees with its core, and holds a network."""

from __future__ import annotations

from pathlib import Path

import pytest

from available import path_of
from command_line import CommandLine
from penstock import api
from penstock.backends.cores.family import load_checked_target
from penstock.hardware.load import board_names, generic_target_names, load_target, target_text

ROOT = Path(__file__).parents[3]
BOARDS = board_names()
EXPECTED = (
    "alif-e7", "mps3-an547", "nrf52840", "nrf5340", "rp2040", "rp2350", "stm32f407", "stm32f746",
    "stm32h743", "stm32l4r5", "stm32u575",
)  # fmt: skip
each_board = pytest.mark.parametrize("name", BOARDS)


def row(name: str) -> str:
    """The row of a board in docs/boards.md."""
    board = load_target(name)
    assert board.clock_hz is not None
    ram, flash = (board.memory_for(kind).size_bytes >> 10 for kind in ("arena", "constant"))
    return f"| `{name}` | {board.core} | {board.clock_hz // 10**6} MHz | {ram} KiB | {flash} KiB |"


def test_no_board_is_missing() -> None:
    assert BOARDS == EXPECTED
    assert not set(BOARDS) & set(generic_target_names())


@each_board
def test_a_board_states_its_clock_and_its_sources(name: str) -> None:
    board, text = load_checked_target(name), target_text(name)
    assert board.name == name
    assert board.clock_hz is not None
    assert text.startswith("# Source: ")
    assert all(m.budget for m in board.memories)


@each_board
def test_a_board_has_the_figures_of_its_core(name: str) -> None:
    board = load_target(name)
    core = load_target(str(board.core))
    assert board.compiler == core.compiler
    assert board.engines == core.engines


@each_board
def test_wait_states_agree_with_the_time_of_a_line(name: str) -> None:
    """A line takes a cycle per word, and the wait states."""
    flash = load_target(name).memory_for("constant")
    waits = flash.latency_cycles
    lines = [size for size in (4, 8, 16, 32) if waits]
    rates = [round(size / (size / 4 + waits), 2) for size in lines] or [4]
    assert flash.bandwidth_bytes_per_cycle in rates


@each_board
def test_a_keyword_spotting_network_fits(name: str) -> None:
    done = api.compile(path_of("kws_ref_model"), name)
    ram, flash = done.report.ram_bytes, done.report.flash_bytes
    board = load_target(name)
    assert 0 < ram.total <= board.memory_for("arena").size_bytes
    assert 0 < flash.weights <= board.memory_for("constant").size_bytes


def test_the_page_lists_every_board() -> None:
    page = (ROOT / "docs" / "boards.md").read_text("utf-8")
    rows = [line for line in page.splitlines() if line.startswith("| `") and "--target" not in line]
    assert rows == [row(name) for name in BOARDS]


def test_boards_are_listed_after_the_generic_targets(penstock: CommandLine) -> None:
    said = penstock("targets").out.splitlines()
    generic, boards = said.index("generic"), said.index("boards")
    assert tuple(line.split()[0] for line in said[generic + 1 : boards]) == generic_target_names()
    assert tuple(line.split()[0] for line in said[boards + 1 :]) == BOARDS
    groups = [target["group"] for target in penstock("targets", "--json").json["targets"]]
    assert groups == ["generic"] * (boards - generic - 1) + ["boards"] * len(BOARDS)


def test_a_misspelt_board_is_refused_with_a_suggestion(penstock: CommandLine) -> None:
    said = penstock("compile", "zoo:lenet5", "--target", "stm32f405")
    assert (said.code, said.out) == (2, "")
    assert said.err.startswith("error[usage-002]: there is no target 'stm32f405'\n  --> --target\n")
    assert "stm32f407" in said.err.partition("help:")[2]
