"""Modelled cycles of single instructions and of neighbours, against the tables of the manuals."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.errors import InternalError
from penstock.simulators.cortex_m_timing import (
    CORTEX_M0PLUS,
    CORTEX_M3,
    CORTEX_M4,
    NAMES,
    BasicBlock,
    InstructionKind,
    Timing,
    decode,
)
from penstock.toolchains.compiler import Compiler, zig_command

pytest.importorskip("capstone")

# Hand-assembled Thumb, so that the test needs no compiler: halfwords, by Armv7-M manual A7.7.
CODE = {
    "adds r0, #1": "3001",
    "adds r4, #8": "3408",
    "ldr r0, [r4]": "6820",
    "ldr r1, [r4, #4]": "6861",
    "ldr r2, [r0]": "6802",
    "ldr r0, [r4], #4": "f854 0b04",
    "ldrb r0, [r4, r5]": "5d60",
    "str r0, [r4]": "6020",
    "strb r0, [r4, r5]": "5560",
    "ldm r4!, {r0, r1, r2}": "cc07",
    "push {r4, r5, lr}": "b530",
    "pop {r4, r5, pc}": "bd30",
    "ldrd r0, r1, [r4]": "e9d4 0100",
    "muls r0, r1, r0": "4348",
    "mla r0, r1, r2, r3": "fb01 3002",
    "smull r0, r1, r2, r3": "fb82 0103",
    "smlal r0, r1, r2, r3": "fbc2 0103",
    "smlad r0, r1, r2, r3": "fb21 3002",
    "sdiv r0, r1, r2": "fb91 f0f2",
    "b .": "e7fe",
    "bl .": "f7ff fffe",
    "bx lr": "4770",
    "tbb [pc, r0]": "e8df f000",
    "sub sp, #96": "b098",
    "add sp, #96": "b018",
    "vfma.f32 s0, s1, s2": "eea0 0a81",
    "vpush {d8, d9}": "ed2d 8b04",
    "str r0, [sp, #-4]!": "f84d 0d04",
}


def block(*lines: str) -> BasicBlock:
    """The block of these instructions."""
    halfwords = " ".join(CODE[line] for line in lines).split()
    return decode(b"".join(bytes.fromhex(h)[::-1] for h in halfwords), 0x0800_0000)


def cycles(timing: Timing, *lines: str) -> int:
    """Cycles of these instructions, executed as one block."""
    return timing.block_cycles(block(*lines))


@pytest.mark.parametrize(
    ("line", "m4", "m0plus"),
    [
        ("adds r0, #1", 1, 1),
        ("muls r0, r1, r0", 1, 1),
        ("ldr r0, [r4]", 2, 2),
        ("str r0, [r4]", 1, 2),
        ("strb r0, [r4, r5]", 2, 2),
        ("ldm r4!, {r0, r1, r2}", 4, 4),
        ("push {r4, r5, lr}", 4, 4),
        ("pop {r4, r5, pc}", 4, 4),
        ("b .", 1, 1),
        ("bl .", 1, 2),
        ("bx lr", 1, 1),
    ],
)
def test_an_instruction_alone_costs_what_the_manual_says(line: str, m4: int, m0plus: int) -> None:
    """Without the cycles of a taken branch, 2 and 1, which are counted by edges."""
    assert (cycles(CORTEX_M4, line), cycles(CORTEX_M0PLUS, line)) == (m4, m0plus)


@pytest.mark.parametrize(
    ("line", "m4", "m3"),
    [
        ("mla r0, r1, r2, r3", 1, 2),
        ("smull r0, r1, r2, r3", 1, 4),
        ("smlal r0, r1, r2, r3", 1, 5),
        ("sdiv r0, r1, r2", 7, 7),
        ("ldrd r0, r1, [r4]", 3, 3),
        ("tbb [pc, r0]", 3, 3),
    ],
)
def test_a_cortex_m3_multiplies_more_slowly(line: str, m4: int, m3: int) -> None:
    assert (cycles(CORTEX_M4, line), cycles(CORTEX_M3, line)) == (m4, m3)


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (("ldr r0, [r4]", "ldr r1, [r4, #4]"), 2 + 1),
        (("ldr r0, [r4]", "ldr r2, [r0]"), 2 + 2),
        (("ldr r0, [r4], #4", "ldr r1, [r4, #4]"), 2 + 2),
        (("ldr r0, [r4]", "ldr r0, [r4], #4"), 2 + 2),
        (("adds r4, #8", "ldr r0, [r4]"), 1 + 3),
        (("adds r0, #1", "ldr r1, [r4, #4]"), 1 + 2),
        (("adds r4, #8", "str r0, [r4]"), 1 + 2),
        (("ldr r0, [r4]", "strb r0, [r4, r5]"), 2 + 1),
        (("smlad r0, r1, r2, r3", "smlad r0, r1, r2, r3"), 2),
        (("ldr r0, [r4]", "ldr r1, [r4, #4]", "adds r4, #8", "ldr r0, [r4]"), 2 + 1 + 1 + 3),
    ],
)
def test_neighbours_share_or_wait(lines: tuple[str, ...], expected: int) -> None:
    assert cycles(CORTEX_M4, *lines) == expected


def test_a_core_without_that_pipeline_adds_up() -> None:
    assert cycles(CORTEX_M0PLUS, "ldr r0, [r4]", "ldr r1, [r4, #4]", "str r0, [r4]") == 6


def test_a_float_multiplication_with_addition_takes_three_cycles() -> None:
    assert cycles(CORTEX_M4, "vfma.f32 s0, s1, s2") == 3


@pytest.mark.parametrize(
    ("lines", "stack_bytes"),
    [
        (("adds r0, #1",), 0),
        (("push {r4, r5, lr}", "sub sp, #96"), 12 + 96),
        (("push {r4, r5, lr}", "sub sp, #96", "add sp, #96", "pop {r4, r5, pc}"), 12 + 96),
        (("sub sp, #96", "add sp, #96", "push {r4, r5, lr}"), 96),
        (("vpush {d8, d9}", "str r0, [sp, #-4]!"), 16 + 4),
        (("add sp, #96", "push {r4, r5, lr}"), 0),
    ],
)
def test_a_block_knows_how_far_it_grows_the_stack(lines: tuple[str, ...], stack_bytes: int) -> None:
    assert block(*lines).stack_bytes == stack_bytes


def test_what_is_no_instruction_is_refused() -> None:
    with pytest.raises(InternalError, match="unknown") as caught:
        decode(bytes.fromhex("0130 ffff ffff"), 0x100)
    assert caught.value.where == "0x102"


def test_the_assembler_agrees_with_the_hand_assembled_code(tmp_path: Path) -> None:
    pytest.importorskip("ziglang")
    elffile = pytest.importorskip("elftools.elf.elffile")
    lines = [line for line in CODE if line not in ("b .", "bl .")]  # those have relocations
    source, target = tmp_path / "all.s", tmp_path / "all.o"
    source.write_text(".syntax unified\n.thumb\n" + "\n".join(lines) + "\n")
    flags = ("-target", "thumb-freestanding-eabihf", "-mcpu=cortex_m4+vfp4d16sp")
    Compiler("zig", zig_command(), flags).compile(source, target).run()
    with target.open("rb") as stream:
        code = elffile.ELFFile(stream).get_section_by_name(".text").data()
    names = [instruction.name for instruction in decode(code, 0).instructions]
    assert names == [block(line).instructions[0].name for line in lines]
    words = " ".join(CODE[line] for line in lines).split()
    assert code[: 2 * len(words)] == b"".join(bytes.fromhex(word)[::-1] for word in words)


def test_every_kind_but_arithmetic_has_instructions() -> None:
    assert set(InstructionKind) - set(NAMES) == {InstructionKind.ARITHMETIC}
