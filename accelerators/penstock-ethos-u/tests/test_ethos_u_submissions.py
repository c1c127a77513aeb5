"""ethos_u: consecutive calls are one stream, also those of loops; a network that the NPU computes
alone is one submission."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from lowered import inputs_of_graph
from offloading import assert_exact, compiled
from penstock.errors import BackendError
from penstock.frontends.builder import GraphBuilder
from penstock.ir.graph import Graph
from penstock.ir.tensor import Data
from penstock.pipeline.compilation import Compilation
from penstock.pipeline.emission import lower_point
from penstock.pipeline.placing import PlacedPoint
from penstock.program.program import Program
from penstock.program.steps import executions
from penstock.simulators.graph import run_graph
from penstock.simulators.machine import Machine
from test_ethos_u_faults import NETWORKS

pytest.importorskip("ethosu.vela.api", reason="the package ethos-u-vela is not installed")

KERNEL_WAIT, PMU_MASK = 0x12, 0x13
"""Commands: a wait for all operations, and one without effect."""


def in_turns() -> Graph:
    """Layers of the NPU before and after one of the processor."""
    net = GraphBuilder("net")
    x = net.conv2d(net.input((1, 24, 7, 3)), 20, 3, name="a")
    x = net.conv2d(x, 20, 3, dilation=(1, 700), name="processor")
    return net.build(net.max_pool2d(net.conv2d(x, 20, 3, name="b"), 2, name="c"))


def shared() -> Graph:
    """A layer of the NPU that a layer of the processor and one of the NPU read."""
    net = GraphBuilder("net")
    x = net.conv2d(net.conv2d(net.input((1, 24, 7, 3)), 20, 3, name="a"), 20, 3, name="b")
    y = net.conv2d(x, 20, 3, dilation=(1, 700), name="processor")
    return net.build(net.conv2d(net.add(x, y, name="sum"), 4, 3, stride=2, name="c"))


def programs(done: Compilation) -> list[tuple[PlacedPoint, Program]]:
    return [(point, lower_point(point, done.request.accelerators)) for point in done.points]


def submitted(program: Program) -> list[int]:
    """The number of calls of each submission of a run."""
    return [len(ran) for *_, ran in executions(program.run) if ran]


@pytest.mark.parametrize("network", NETWORKS)
@pytest.mark.parametrize(
    "accelerator",
    ["ethos_u55:macs=64", pytest.param("ethos_u65_256", marks=pytest.mark.long)],
)
def test_a_network_on_the_npu_is_one_submission_at_every_point(
    network: str, accelerator: str
) -> None:
    done = compiled(NETWORKS[network], accelerator)
    inputs = inputs_of_graph(done.graph, 3)
    expected = run_graph(done.graph, inputs)
    for point, program in programs(done):
        assert submitted(program) == [point.schedule.cost.calls]
        found = Machine(program).run(inputs)
        assert all(np.array_equal(found[name], expected[name]) for name in found)


@pytest.mark.parametrize("graph", [in_turns, shared])
def test_a_layer_of_the_processor_separates_submissions(graph: Callable[[], Graph]) -> None:
    """Also in loops, where the stream depends on the iteration; the last point has short ones."""
    done = compiled(graph(), "ethos_u55")
    inputs = inputs_of_graph(done.graph, 3)
    expected = run_graph(done.graph, inputs)
    counts: list[int] = []
    for _, program in programs(done):
        counts.append(len(submitted(program)))
        found = Machine(program).run(inputs)
        assert all(np.array_equal(found[name], expected[name]) for name in found)
    assert 2 <= counts[-1] <= 5
    assert max(counts) > 10


@pytest.mark.parametrize("graph", [in_turns, shared])
def test_submissions_in_loops_run_on_every_rung(graph: Callable[[], Graph]) -> None:
    """In `shared`, the loop that computes the layer with two readers counts its rows."""
    npu = "ethos_u55:memory_mode=sram_only,layout=nhcwb16"  # row by row
    whole = compiled(graph(), npu)
    least = whole.points[0].ram_bytes(whole.request)
    done = compiled(graph(), npu, target="cortex-m55", sram_bytes=least)
    assert len(submitted(done.program)) > 10
    assert ("made" in done.bundle["net.c"].decode()) == (graph is shared)
    assert_exact(done, "core")


def test_waits_between_calls_are_needed() -> None:
    """Where a call copies constants over what the call before it reads."""
    done = compiled(NETWORKS["copied weights"], "ethos_u55:macs=64")
    inputs = inputs_of_graph(done.graph, 3)
    refused = 0
    for _, program in programs(done):
        (buffer,) = (b for b in program.buffers if b.is_stream)
        assert buffer.data is not None
        words = np.frombuffer(buffer.data.raw, "<u4")
        for k in np.flatnonzero(words == KERNEL_WAIT):
            changed = words.copy()
            changed[k] = PMU_MASK
            other = replace(buffer, data=Data(changed.tobytes()))
            buffers = tuple(other if b is buffer else b for b in program.buffers)
            try:
                Machine(replace(program, buffers=buffers)).run(inputs)
            except BackendError as error:
                refused += error.code == "ethosu-110"
    assert refused
