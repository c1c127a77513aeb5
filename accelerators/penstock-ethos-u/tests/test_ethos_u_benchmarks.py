"""Ethos-U compared with Vela: durations of streams, and the points that are compared."""

from __future__ import annotations

from math import ceil, inf

import pytest

from available import DIGITS, MODELS
from benchmarks.ethos_u import ACCELERATORS, beside, processor_cycles
from benchmarks.ethos_u_time import stream_cycles, stream_steps
from benchmarks.planned import plan
from benchmarks.vela import has_vela, vela_report
from ethos_u_text import MAX_POOL, text
from penstock_ethos_u.configurations import CONFIGURATIONS
from penstock_ethos_u.interpreter import assemble
from penstock_ethos_u.timeline import CommandQueue, Job, timing

with_vela = pytest.mark.skipif(not has_vela(), reason="the package ethos-u-vela is not installed")
CHIP = CONFIGURATIONS["ethos-u55-128"]
FLASH = 5
COPY = """NPU_SET_DMA0_SRC_REGION region=5
NPU_SET_DMA0_DST_REGION region=0
NPU_SET_DMA0_SRC 0x0
NPU_SET_DMA0_DST 0x400
NPU_SET_DMA0_LEN 1024
NPU_OP_DMA_START
"""
COPYING = 64 + 1024
"""Cycles: flash's latency, and a byte each."""


def taken(*lines: str, constants: int = FLASH) -> int:
    """Of a copy, lines, and a pooling."""
    stream = text("\n".join(lines))
    return stream_cycles(assemble(COPY + stream), CHIP, [constants])


def test_a_copy_and_an_operation_go_on_side_by_side_until_they_are_waited_for() -> None:
    assert taken(MAX_POOL) == COPYING
    one = taken("NPU_OP_DMA_WAIT outstanding=0", MAX_POOL) - COPYING
    assert 0 < one < COPYING
    assert taken("NPU_OP_DMA_WAIT outstanding=1", MAX_POOL) == COPYING
    assert taken("NPU_OP_DMA_WAIT outstanding=0", *[MAX_POOL] * 3) == COPYING + 3 * one
    again = COPY.strip()
    assert taken(again, "NPU_OP_DMA_WAIT outstanding=1", MAX_POOL) == 2 * COPYING
    assert taken(MAX_POOL, "NPU_OP_KERNEL_WAIT outstanding=0", again) == 2 * COPYING
    waited = taken("NPU_OP_DMA_WAIT outstanding=0", MAX_POOL, "NPU_OP_KERNEL_WAIT outstanding=0",
                   again, MAX_POOL)  # fmt: skip
    assert waited == 2 * COPYING + one


def test_what_does_not_come_from_flash_comes_at_the_rate_of_sram() -> None:
    waiting = ("NPU_OP_DMA_WAIT outstanding=0", MAX_POOL)
    assert taken(*waiting) - taken(*waiting, constants=4) == COPYING - (32 + 1024 / 8)


@with_vela
@pytest.mark.parametrize("name", ACCELERATORS.values())
def test_a_stream_of_whole_operations_takes_what_vela_says(name: str) -> None:
    """Who takes it that copies and operations do not share ports."""
    found = vela_report(MODELS / "padded_branches.tflite", name)
    stream = found.stream
    asked = stream.words, CONFIGURATIONS[name], stream.constants[:1]
    steps = [*stream_steps(*asked)]
    apart = [s._replace(features=0.0, constants=0.0) if isinstance(s, Job) else s for s in steps]
    assert int(timing(apart, CONFIGURATIONS[name])) == found.cycles
    copied = sum(
        s.constants for s in steps if isinstance(s, Job) and s.queue is CommandQueue.COPIES
    )
    assert found.cycles <= stream_cycles(*asked) <= found.cycles + 1 + ceil(copied)


@with_vela
def test_the_point_beside_vela_is_the_fastest_that_fits() -> None:
    planned = plan(str(DIGITS), "cortex-m55", accelerators=("ethos_u55:macs=128",))
    found = beside(planned, DIGITS, CHIP.name, "Performance", 1.0)
    limit = found.vela.sram_bytes
    within = [p.schedule.cost.cycles for p in planned.points if p.height_bytes <= limit]
    assert found.ours is not None
    assert found.ours.schedule.cost.cycles == min(within)
    assert found.ratios == (min(within) / found.cycles, min(within) / found.vela.cycles)
    assert processor_cycles(found.ours) == found.processor < min(within)


@with_vela
def test_no_point_is_worse_than_any() -> None:
    planned = plan(str(DIGITS), "cortex-m55", accelerators=("ethos_u55:macs=128",))
    found = beside(planned, DIGITS, CHIP.name, "Size", 0.0)
    assert (found.ours, found.ratios) == (None, (inf, inf))
    assert found.cells[3:] == ("-", "-", "inf", "inf", "0")
