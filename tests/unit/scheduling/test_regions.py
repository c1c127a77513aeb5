"""Two memories and a copy engine: what the search makes of them pays, and runs exactly."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from available import SHARED
from found import elements
from penstock import api
from penstock.ir.region import Region
from penstock.ir.tensor import Array
from penstock.pipeline import Compilation, compile_request
from penstock.program.program import Copy
from penstock.program.steps import walk
from penstock.scheduling.options import Options
from penstock.simulators.graph import run_graph
from penstock.simulators.machine import Machine


def network(name: str) -> object:
    """A shared network, which takes a minute."""
    path = SHARED / f"{name}.tflite"
    missing = pytest.mark.skipif(not path.exists(), reason=f"there is no {path}")
    return pytest.param(str(path), marks=(pytest.mark.long, missing), id=name)


NETWORKS = (
    "zoo:resnet8",
    "zoo:mobilenet_v2:alpha=0.35,resolution=64",
    network("pretrainedResnet_quant"),
    network("mobilenetv2_160_035"),
)


@cache
def compiled(network: str, copies: bool, double_buffering: bool, fast_bytes: int) -> Compilation:
    """A network for the target with two memories, under restrictions."""
    options = Options(copies=copies, double_buffering=double_buffering)
    memory = {"tcm": fast_bytes}
    return compile_request(api.request(network, "two-region", options=options, memory=memory))


def free(network: str) -> Compilation:
    return compiled(network, True, True, 32768)


@pytest.mark.parametrize("network", NETWORKS)
def test_both_memories_and_copies_are_used(network: str) -> None:
    program = free(network).program
    used = {buffer.memory for buffer in program.buffers}
    assert used == {"sram", "tcm", "flash"}
    assert any(isinstance(command, Copy) for command in walk(program.run))


@pytest.mark.parametrize("network", NETWORKS)
@pytest.mark.parametrize("forbidden", [(False, True, 32768), (True, False, 32768), (True, True, 0)])
def test_whatever_is_forbidden_costs_cycles(
    network: str, forbidden: tuple[bool, bool, int]
) -> None:
    assert compiled(network, *forbidden).schedule.cost.cycles > free(network).schedule.cost.cycles


@pytest.mark.parametrize("network", NETWORKS)
def test_the_machine_computes_the_network_and_moves_what_was_estimated(network: str) -> None:
    done = free(network)
    inputs = {v.name: elements(v.type, 7) for v in done.graph.inputs}
    expected = run_graph(done.graph, inputs)

    def compare(tensor: str, region: Region, found: Array) -> None:
        np.testing.assert_array_equal(found, expected[tensor][region.slices], tensor)

    machine = Machine(done.program, compare)
    machine.run(inputs)
    cost, counts = done.schedule.cost, machine.counts
    assert counts.macs == cost.macs == done.graph.macs()
    assert {m: n for m, n in counts.read_bytes.items() if n} == dict(cost.read_bytes)
    assert {m: n for m, n in counts.written_bytes.items() if n} == dict(cost.written_bytes)
