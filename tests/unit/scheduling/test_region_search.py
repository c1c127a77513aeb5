"""Two memories: the search's choices save cycles and run exactly."""

from __future__ import annotations

from functools import cache

import pytest

import beside
from available import SHARED
from lowered import Lowered, assert_counts_are_the_schedules, assert_equal_to_graph
from penstock import api
from penstock.backends.processor_parts import Engines, assign
from penstock.frontends.builder import GraphBuilder
from penstock.hardware.load import load_target
from penstock.passes.accumulate import accumulate
from penstock.pipeline.compilation import Compilation, compile_request
from penstock.pipeline.graphs import simplify
from penstock.scheduling.cascades.proposals import CascadeProblem
from penstock.scheduling.cascades.region_search import RegionSearch
from penstock.scheduling.model.memories import FINE, MemoryAssignment, MemorySystem
from penstock.scheduling.model.parts import Parts
from penstock.scheduling.model.schedule import Gaps, Schedule
from penstock.scheduling.options import Options
from penstock.scheduling.simulate.cost_accounting import CostAccounting
from penstock.scheduling.simulate.expanded_schedule import ExpandedSchedule

TWO_REGIONS = load_target("two-region")


RESNET = "zoo:resnet8:resolution=16"


def network(name: str) -> object:
    """A shared network, which takes a minute."""
    path = SHARED / f"{name}.tflite"
    return pytest.param(str(path), marks=(pytest.mark.long, beside.need(path)), id=name)


NETWORKS = (
    RESNET,
    pytest.param("zoo:mobilenet_v2:alpha=0.35,resolution=32", marks=pytest.mark.long),
    network("pretrainedResnet_quant"),
    network("mobilenetv2_160_035"),
)


@cache
def compiled(network: str, fast_bytes: int) -> Compilation:
    """A network for the target with two memories."""
    return compile_request(api.request(network, "two-region", memory={"tcm": fast_bytes}))


def fast_bytes(network: str) -> int:
    """The size of the fast memory: less than the network's tensors and constants take."""
    return 8192 if network.startswith("zoo:") else 32768


def free(network: str) -> Compilation:
    return compiled(network, fast_bytes(network))


@pytest.mark.parametrize("network", NETWORKS)
def test_both_memories_are_used(network: str) -> None:
    assert {buffer.memory for buffer in free(network).program.buffers} == {"sram", "tcm", "flash"}


@pytest.mark.parametrize("network", NETWORKS)
def test_without_fast_memory_cycles_are_lost(network: str) -> None:
    assert compiled(network, 0).schedule.cost.cycles > free(network).schedule.cost.cycles


@pytest.mark.parametrize("network", NETWORKS)
def test_the_machine_computes_the_network_and_moves_what_was_estimated(network: str) -> None:
    lowered = Lowered.of(free(network))
    assert_counts_are_the_schedules(lowered, assert_equal_to_graph(lowered, seed=7))


def dense_tail() -> Parts:
    """An image whose dense layer reads it row by row, and its weights slice by slice."""
    net = GraphBuilder("dense_tail")
    x = net.conv2d(net.input((1, 8, 4, 3)), 8, 3, name="conv")
    graph = accumulate(simplify(net.build(net.fully_connected(x, 4))))
    assert any(node.op.kernel(node.site).accumulates for node in graph.nodes if not node.op.ALIAS)
    return assign(graph, TWO_REGIONS)


def test_the_search_values_a_cascade_as_it_is_costed() -> None:
    parts, model = dense_tail(), Engines(TWO_REGIONS.engines[0])
    memories = MemorySystem(
        TWO_REGIONS.arenas,
        TWO_REGIONS.memory_for("constant"),
        TWO_REGIONS.engines[0],
    )
    order = tuple(range(len(parts.parts)))
    states: list[list[MemoryAssignment]] = [[memories.default_assignment], *([] for _ in order)]
    problem = CascadeProblem(parts, model, memories, Options())
    search = RegionSearch(problem, order)
    work = sum(map(model.work_cycles, parts.parts))
    valued = [v for v in search.candidates(len(order), states)]
    for found in valued:
        bare = Schedule(parts, (found.plan,), found.memory, False, found.peak_bytes, Gaps(0.0, 0.0))
        accounting = CostAccounting(parts, model, memories)
        cascades = ExpandedSchedule(bare).cascades
        costed = accounting.costed(bare, cascades[0])
        (costed,) = accounting.with_prefetch_costs(cascades, (costed,))
        assert abs(costed.cost.cycles - work - found.time / FINE) <= len(order)


def test_work_limits_the_choice_of_regions() -> None:
    """Without work, no tensor that later cascades read leaves the default region."""
    request = api.request(RESNET, "two-region", options=Options(max_region_work=0))
    limited = compile_request(request).schedule
    last = {
        value.name: c
        for c, plan in enumerate(limited.plans)
        for k in plan.parts
        for value in limited.parts.parts[k].variable_inputs
    }
    made = {limited.parts.parts[k].name: c for c, p in enumerate(limited.plans) for k in p.parts}
    moved = [name for name, _ in limited.memory.exceptions]
    assert all(last[name] == made[name] for name in moved)
    whole = compiled(RESNET, 32768)
    assert whole.schedule.cost.cycles <= limited.cost.cycles
