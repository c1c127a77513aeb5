"""ethos_u: scratch is reserved for what operations touch, at every point of the frontier."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from offloading import assert_exact, compiled
from penstock.frontends.builder import GraphBuilder
from penstock.ir.graph import Graph
from penstock.pipeline.compilation import Compilation
from penstock.pipeline.emission import lower_point
from penstock.pipeline.placing import PlacedPoint
from penstock.program.expr import evaluate
from penstock.program.program import Address, Buffer, Kind, Program, WholeMemory
from penstock.program.steps import executions
from penstock.scheduling.simulate.expanded_schedule import prefetch_name
from penstock_ethos_u.configurations import BLOCK_CHANNELS
from penstock_ethos_u.interpreter import driver_payload
from penstock_ethos_u.interpreter.commands import decode_commands
from penstock_ethos_u.interpreter.footprint import operation_footprint
from penstock_ethos_u.interpreter.hardware import find_hardware
from penstock_ethos_u.interpreter.operation import BlockOperation
from penstock_ethos_u.interpreter.registers import Registers
from penstock_ethos_u.vela import payload_configuration
from test_ethos_u_faults import NETWORKS

pytest.importorskip("ethosu.vela.api", reason="the package ethos-u-vela is not installed")

ARENA = 1
OPERATIONS = ("NPU_OP_CONV", "NPU_OP_DEPTHWISE", "NPU_OP_POOL", "NPU_OP_ELEMENTWISE",
              "NPU_OP_DMA_START")  # fmt: skip


def payloads(program: Program) -> set[bytes]:
    """The different payloads that a program submits."""
    data = {buffer.name: buffer.data for buffer in program.buffers}
    found: set[bytes] = set()
    for submission, variables, _ in executions(program.run):
        stream, size, *_ = submission.submit.arguments
        assert isinstance(stream, Address)
        assert not isinstance(size, Address | WholeMemory)
        raw, at = data[stream.buffer], evaluate(stream.offset, variables)
        assert raw is not None
        found.add(raw.raw[at : at + evaluate(size, variables)])
    return found


def touched(program: Program, size_bytes: int) -> np.ndarray:
    """For each byte of the arena, whether an operation of the NPU reads or writes it.

    A block of 16 channels counts as a whole, as far as a tensor has fewer."""
    found = np.zeros(size_bytes, bool)
    for payload in payloads(program):
        hardware = find_hardware(payload_configuration(payload))
        registers = Registers(hardware)
        for number, command in enumerate(decode_commands(driver_payload(payload))):
            if command.format.name.startswith("NPU_SET_"):
                registers.set(command)
            elif command.format.name in OPERATIONS:
                operation = registers.operation(command, number)
                footprint, step = operation_footprint(operation, hardware), 1
                if isinstance(operation, BlockOperation) and operation.ofm.nhcwb16:
                    step = BLOCK_CHANNELS
                for sets in (footprint.reads, footprint.writes):
                    for lower, upper in np.reshape(sets.get(ARENA, ()), (-1, 2)).tolist():
                        found[int(lower) : -(-int(upper) // step) * step] = True
    return found


def reserved(done: Compilation, point: PlacedPoint, program: Program) -> list[Buffer]:
    """The scratch and the prefetched constants of a program, without the arenas of bands."""
    schedule = point.schedule
    names = {prefetch_name(schedule, each) for plan in schedule.plans for each in plan.prefetches}
    banded = [b for b in program.buffers if b.kind is Kind.SCRATCH and schedule.bands]
    every = (b for b in program.buffers if b.kind is Kind.SCRATCH or b.name in names)
    return [buffer for buffer in every if buffer not in banded]


def untouched(done: Compilation) -> tuple[Counter[str], int]:
    """By kind of memory, "arena" for prefetched constants, the bytes reserved at all points; and
    those that nothing touches."""
    sizes, idle = Counter[str](), 0
    for point in done.points:
        program = lower_point(point, done.request.accelerators)
        marks = touched(program, point.height_bytes)
        for buffer in reserved(done, point, program):
            sizes[buffer.kind.value] += buffer.size_bytes
            idle += int((~marks[buffer.address :][: buffer.size_bytes]).sum())
    return sizes, idle


@pytest.mark.parametrize(
    ("network", "accelerator", "kinds"),
    [
        ("scattered rows", "ethos_u55:macs=128,memory_mode=sram_only", {"scratch"}),
        ("copied weights", "ethos_u55:macs=64", {"scratch"}),
        ("pools", "ethos_u65_256", {"arena"}),
    ],
)
def test_no_byte_is_reserved_and_never_touched(
    network: str, accelerator: str, kinds: set[str]
) -> None:
    sizes, idle = untouched(compiled(NETWORKS[network], accelerator))
    assert idle == 0
    assert sizes.keys() >= kinds


@st.composite
def networks(draw: st.DrawFn) -> Graph:
    """Tall windows in a row, whose rows the search may scatter."""
    net = GraphBuilder("net", seed=draw(st.integers(0, 99)))
    x = net.input((1, draw(st.integers(8, 24)), draw(st.integers(3, 8)), draw(st.integers(1, 20))))
    for _ in range(draw(st.integers(2, 4))):
        height, stride = draw(st.sampled_from((3, 4, 5, 7))), draw(st.sampled_from((1, 2)))
        if draw(st.booleans()):
            x = net.conv2d(x, draw(st.integers(4, 40)), (height, 3), stride=(stride, 1))
        else:
            x = net.depthwise_conv2d(x, (height, 3), stride=(stride, 1))
    return net.build(x)


@settings(max_examples=5)
@given(networks(), st.sampled_from(("ethos_u55:macs=64", "ethos_u65_256")))
def test_random_networks_reserve_no_byte_in_vain(graph: Graph, accelerator: str) -> None:
    done = compiled(graph, accelerator)
    assert untouched(done)[1] == 0
    assert_exact(done, "points")
