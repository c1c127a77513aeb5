"""The requantisation benchmark: its counts of a disassembly, and its limits."""

from __future__ import annotations

from dataclasses import replace

import pytest

from benchmarks.requantisation import Form, Pointwise, missed, requantising, wide_instructions
from penstock.simulators.cortex_m_timing import KIND_OF, Instruction, InstructionKind

POINT = Pointwise(64, 14.0, 26.0)
WIDE = Form("wide", 38.0, 47.0, 32.0, ("ldrd", "umull"))
CHEAP = Form("cheap", 7.0, 8.0, 4.5, ())


def code(text: str) -> tuple[Instruction, ...]:
    """Instructions by their names."""
    return tuple(
        Instruction(name, KIND_OF.get(name, InstructionKind.ARITHMETIC)) for name in text.split()
    )


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (
            "push ldr smlad sxtb16 smlad add cmp b sub smmla asr ssat str b pop",
            "sub smmla asr ssat str b",
        ),
        ("ldr smlatt smlabb ldm add smmla ssat str b ldr b", "ldm add smmla ssat str b"),
    ],
)
def test_requantisation_is_what_follows_the_products(text: str, found: str) -> None:
    assert " ".join(each.name for each in requantising(code(text))) == found


def test_instructions_of_64_bits_are_found() -> None:
    assert wide_instructions(code("ldrd adds adc smmla umull str")) == ("adc", "ldrd", "umull")
    assert wide_instructions(code("ldm add smmla asr ssat str b")) == ()


def test_limits() -> None:
    assert not missed(POINT, WIDE, CHEAP, 7.9)
    assert missed(replace(POINT, ours=15.1), WIDE, CHEAP, 7.9)
    assert missed(POINT, WIDE, replace(CHEAP, wide=("adc",)), 7.9)
    assert missed(POINT, WIDE, replace(CHEAP, loaded_bytes=8.0), 7.9)
    assert missed(POINT, WIDE, replace(CHEAP, cycles=12.0), 7.9)
    assert missed(POINT, WIDE, CHEAP, 8.1)
