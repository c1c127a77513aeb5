"""Figures of portable kernels beside what simulated cores count."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace

import pytest

from offloading import compiled
from penstock import api, execution
from penstock.backends.processor_parts import Engines
from penstock.frontends.builder import GraphBuilder
from penstock.ir.graph import Graph, Value
from penstock.ir.op import Op
from penstock.ir.tensor import Quantisation
from penstock.ops.channel_packs import PackChannels
from penstock.ops.concatenation import Concatenation
from penstock.ops.pad import Pad
from penstock.ops.slice import Slice
from penstock.ops.sums import Mean
from penstock.simulators.cortex_m55 import PROGRAM

WRONG = 0.4
"""A figure serves sizes for which a compiler makes loops of several kinds."""


def of_one(op: Op, *shapes: tuple[int, ...]) -> Graph:
    """One operator, whose output has its inputs' quantisation."""
    net = GraphBuilder("one")
    inputs = [net.input(shape, name=f"x{k}") for k, shape in enumerate(shapes)]
    return net.build(net.apply(op, *inputs, quantisation=inputs[0].type.quantisation, name="y"))


def of_vectors(rows: int, classes: int) -> Graph:
    net = GraphBuilder("vectors")
    return net.build(net.softmax(net.input((rows, classes))))


def of_rows(make: Callable[[GraphBuilder, Value], Value]) -> Graph:
    """A reduction of what is computed row by row: it is done in two halves."""
    net = GraphBuilder("rows")
    return net.build(make(net, net.max_pool2d(net.input((1, 7, 7, 512)), 1, 1)))


GRAPHS = {
    "softmax_s8": of_vectors(1, 1000),
    "softmax_s8 of short vectors": of_vectors(50, 12),
    "requantise_s32": of_rows(
        lambda net, x: net.apply(Mean((1, 2)), x, quantisation=Quantisation((0.02,), (3,)))
    ),
    "total_s8": of_one(Mean((1, 2)), (1, 5, 5, 1280)),
    "concatenate_columns": of_one(Concatenation(3), (1, 14, 14, 64), (1, 14, 14, 96)),
    "concatenate_rows": of_one(Concatenation(1), (1, 14, 14, 64), (1, 20, 14, 64)),
    "channel_runs": of_one(Pad((0,) * 4, (0, 0, 0, 5), 0), (1, 48, 48, 3)),
    "channel_runs of packs": of_one(PackChannels(8), (1, 24, 24, 32)),
    "strided": of_one(Pad((0, 1, 1, 0), (0, 1, 1, 0), -128), (1, 56, 56, 64)),
    "strided that leaves out": of_one(
        Slice((0, 1, 1, 0), (1, 16, 16, 64), (1,) * 4), (1, 17, 17, 64)
    ),
}  # fmt: skip


@pytest.mark.parametrize("target", ["cortex-m4", "cortex-m0plus", "cortex-m55"])
@pytest.mark.parametrize("kernel", GRAPHS)
def test_estimates_are_near_what_is_counted(kernel: str, target: str) -> None:
    if target == "cortex-m55" and shutil.which(PROGRAM) is None:
        pytest.skip(f"{PROGRAM} is not installed: apt install qemu-system-arm")
    if target != "cortex-m55":
        pytest.importorskip("unicorn")
    done = compiled(GRAPHS[kernel], target=target)
    done = replace(done, request=replace(done.request, stack_bytes=4096))
    with execution.firmware(done) as chip:
        counted = chip.run(api.drawn_sets(done, 1)[0]).steps[-1].cycles
    part = done.schedule.steps[-1]
    assert part.kernel.name == kernel.split()[0]
    processor = Engines(done.request.target.engines[0])
    estimated = processor.work_cycles(part) + processor.call_cycles(part)
    assert abs(estimated / counted - 1) < WRONG
