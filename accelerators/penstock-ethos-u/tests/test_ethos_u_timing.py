"""ethos_u: what a schedule is said to cost is what its streams take, decoded and timed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given, reject, settings
from hypothesis import strategies as st

from available import path_of
from benchmarks.ethos_u import point_cycles, processor_cycles
from benchmarks.ethos_u_time import program_cycles
from offloading import compiled
from penstock import api
from penstock.backends.program_passes import after_placement
from penstock.errors import UnsupportedError
from penstock.frontends.builder import GraphBuilder
from penstock.ir.graph import Graph, Value
from penstock.ir.tensor import Quantisation
from penstock.opkit.activation import Activation
from penstock.ops.binary import Mul
from penstock.ops.concatenation import Concatenation
from penstock.ops.sums import Mean
from penstock.ops.transpose_conv import Spread, TransposeConv
from penstock.ops.unary import Logistic
from penstock.pipeline.compilation import compile_request
from penstock.pipeline.emission import lower_point
from penstock.pipeline.placing import PlacedPoint
from penstock.program.lower import lower
from penstock.program.placed_cost import CallCosts, with_placed_costs
from penstock.program.steps import executions
from penstock.program.writer import Addresses
from penstock.scheduling.model.plan import Plan
from penstock.scheduling.model.schedule import Schedule
from penstock.scheduling.simulate.expanded_schedule import (
    ExpandedSchedule,
    placement_problems,
    prefetch_name,
    scratch_name,
)
from penstock_ethos_u.configurations import EthosUConfiguration, configuration
from penstock_ethos_u.timeline import CommandQueue, Job, QueueWait, Step, timing

pytest.importorskip("ethosu.vela.api", reason="the package ethos-u-vela is not installed")

CONFIGURATIONS = (
    *(("ethos_u55", macs, mode) for macs in (32, 64, 128, 256)
      for mode in ("shared_sram", "sram_only")),
    *(("ethos_u65", 256, mode) for mode in ("shared_sram", "sram_only", "dedicated_sram")),
    *(("ethos_u85", macs, "shared_sram") for macs in (128, 256, 512, 2048)),
    ("ethos_u85", 1024, "sram_only"),
)  # fmt: skip
PLACES = 4000
"""Rows lie at multiples of 16 bytes below 16 times this, over each other or not."""
channel_counts = st.sampled_from((1, 8, 16, 17, 40, 150, 600))
clamps = st.sampled_from(("none", "relu6"))


@st.composite
def networks(draw: st.DrawFn) -> Graph:
    """One to three layers of every kind that the NPU takes, with scales that penstock accepts."""
    try:
        return drawn_network(draw)
    except UnsupportedError:
        reject()


def drawn_network(draw: st.DrawFn) -> Graph:
    net = GraphBuilder("drawn", seed=draw(st.integers(0, 99)))
    shape = draw(st.tuples(st.integers(1, 24), st.integers(1, 12), st.integers(1, 40)))
    x = net.input((1, *shape))
    for _ in range(draw(st.integers(1, 3))):
        x = layer(draw, net, x)
    return net.build(x)


def layer(draw: st.DrawFn, net: GraphBuilder, x: Value) -> Value:
    return draw(st.sampled_from(LAYERS))(draw, net, x)


def windows(draw: st.DrawFn, x: Value) -> tuple[tuple[int, int], int]:
    """Rows and columns of a window, and how far it moves."""
    rows, columns = (draw(st.integers(1, min(7, extent))) for extent in x.type.shape[1:3])
    return (rows, columns), draw(st.integers(1, 2))


def convolution(draw: st.DrawFn, net: GraphBuilder, x: Value) -> Value:
    size, stride = windows(draw, x)
    dilation = draw(st.integers(1, 2)) if stride == 1 else 1
    channels, clamp = draw(channel_counts), draw(clamps)
    return net.conv2d(x, channels, size, stride, activation=clamp, dilation=dilation)


def depthwise(draw: st.DrawFn, net: GraphBuilder, x: Value) -> Value:
    return net.depthwise_conv2d(x, *windows(draw, x), activation=draw(clamps))


def max_pool(draw: st.DrawFn, net: GraphBuilder, x: Value) -> Value:
    return net.max_pool2d(x, *windows(draw, x), padding="same")


def average_pool(draw: st.DrawFn, net: GraphBuilder, x: Value) -> Value:
    (rows, columns), stride = windows(draw, x)
    return net.average_pool2d(x, (min(rows, 4), min(columns, 4)), stride)


def addition(draw: st.DrawFn, net: GraphBuilder, x: Value) -> Value:
    return net.add(x, net.conv2d(x, x.type.shape[3], 1), draw(clamps))


def product(draw: st.DrawFn, net: GraphBuilder, x: Value) -> Value:
    extents = (1, *(draw(st.sampled_from((1, extent))) for extent in x.type.shape[1:]))
    every = np.arange(np.prod(extents)).reshape(extents).astype(np.int8)
    by = net.constant(every, Quantisation((0.02,), (0,)), "by")
    return net.apply(Mul(), x, by, quantisation=Quantisation((x.type.scale,), (0,)))


def table(draw: st.DrawFn, net: GraphBuilder, x: Value) -> Value:
    del draw
    return net.apply(Logistic(), x, quantisation=Quantisation((1 / 256,), (-128,)))


def together(draw: st.DrawFn, net: GraphBuilder, x: Value) -> Value:
    return net.apply(Concatenation(3), net.conv2d(x, draw(channel_counts), 1), x)


def total(draw: st.DrawFn, net: GraphBuilder, x: Value) -> Value:
    del draw
    return net.apply(Mean((1, 2)), x)


def dense(draw: st.DrawFn, net: GraphBuilder, x: Value) -> Value:
    channels = draw(channel_counts)
    return net.reshape(net.fully_connected(x, channels), (1, 1, 1, channels))


def transposed(draw: st.DrawFn, net: GraphBuilder, x: Value) -> Value:
    size, channels = draw(st.integers(2, 3)), draw(st.integers(1, 40))
    spreads = [Spread(2 * (extent - 1) + size, size, 2, 0) for extent in x.type.shape[1:3]]
    shape = (channels, size, size, x.type.shape[3])
    weights = net.constant(np.ones(shape, np.int8), Quantisation((0.01,), (0,)), "w")
    scale = Quantisation((x.type.scale * 0.01,), (0,))
    bias = net.constant(np.zeros(channels, np.int32), scale, "b")
    return net.apply(TransposeConv(*spreads, Activation.NONE), x, weights, bias)


LAYERS = (convolution, convolution, convolution, depthwise, max_pool, average_pool, addition,
          product, table, together, total, dense, transposed)  # fmt: skip


def scattered(point: PlacedPoint, share: float, seed: int) -> Addresses:
    """Addresses in which a share of the blocks of rows lie somewhere else than they were placed.

    Scratch and prefetched constants stay where they were placed: no placement lets them overlap.
    """
    rng = np.random.default_rng(seed)
    offsets = dict(point.addresses.offsets)
    schedule = point.schedule
    fixed = {scratch_name(schedule, plan) for plan in schedule.plans}
    fixed |= {prefetch_name(schedule, each) for plan in schedule.plans for each in plan.prefetches}
    for _, problem in placement_problems(ExpandedSchedule(schedule)):
        for buffer in problem.buffers:
            drawn = buffer.anchor is None and rng.random() < share
            if drawn and buffer.name not in fixed:
                offsets[buffer.name] = 16 * int(rng.integers(PLACES))
        for buffer in problem.buffers:
            if buffer.anchor is not None:
                offsets[buffer.name] = offsets[buffer.anchor] + buffer.distance_bytes
    heights = tuple((memory, 1 << 24) for memory, _ in point.addresses.heights)
    return Addresses(offsets, heights)


def with_scratch(schedule: Schedule, addresses: Addresses) -> tuple[Addresses, ExpandedSchedule]:
    """The schedule with the scratch memory that its calls need at these addresses, and addresses
    at which larger scratch memories lie behind all else."""
    needs = CallCosts.of(ExpandedSchedule(schedule), addresses).placed_scratch()
    offsets, plans = dict(addresses.offsets), list[Plan]()
    for number, (plan, need) in enumerate(zip(schedule.plans, needs, strict=True)):
        if need > plan.scratch_block_bytes:
            plan = replace(plan, placed_scratch_bytes=need)
            offsets[scratch_name(schedule, plan)] = (1 << 22) + (number << 16)
        plans.append(plan)
    placed = Addresses(offsets, addresses.heights)
    return placed, ExpandedSchedule(replace(schedule, plans=tuple(plans)))


def assert_as_estimated(
    graph: Graph, config: tuple[str, int, str], layout: str, share: float, seed: int
) -> None:
    """At every point of the frontier; and at one of them where much lies elsewhere."""
    engine, macs, mode = config
    chip = configuration(engine.replace("_", "-"), macs, mode)
    done = compiled(graph, f"{engine}:macs={macs},memory_mode={mode},layout={layout}")
    assume(any(part.engine == engine for part in done.parts.parts))
    accelerators = done.request.accelerators
    for point in done.points:
        said = point.schedule.cost.cycles - processor_cycles(point)
        assert said == point_cycles(point, accelerators, chip)
    point = done.points[seed % len(done.points)]
    addresses, expanded = with_scratch(point.schedule, scattered(point, share, seed))
    moved = replace(point, schedule=with_placed_costs(expanded, addresses))
    program = after_placement(lower(expanded, addresses), accelerators)
    said = moved.schedule.cost.cycles - processor_cycles(moved)
    assert said == program_cycles(program, chip)


def test_a_cost_of_submissions_is_counted_and_the_search_sees_it() -> None:
    """Every point takes the cycles of its streams and of its submissions; the fastest one submits
    less often than the fastest without such a cost would."""
    net = GraphBuilder("net")
    x = net.conv2d(net.input((1, 48, 32, 3)), 16, 3, name="a")
    graph = net.build(net.conv2d(net.conv2d(x, 16, 3, name="b"), 16, 3, name="c"))
    chip, calls = configuration("ethos-u55", 128, "shared_sram"), dict[int, int]()
    for cycles in (0, 5000):
        done = compiled(graph, f"ethos_u55:submission={cycles}")
        for point in done.points:
            program = lower_point(point, done.request.accelerators)
            count = sum(1 for *_, ran in executions(program.run) if ran)
            said = point.schedule.cost.cycles - processor_cycles(point)
            assert said == program_cycles(program, chip) + count * cycles
        calls[cycles] = min(point.schedule.cost.calls for point in done.points)
        assert done.points[-1].schedule.cost.calls <= done.points[0].schedule.cost.calls
    assert calls[5000] <= calls[0]


layouts = st.sampled_from(("nhcwb16", "nhwc"))
shares = st.sampled_from((0.05, 0.3, 1.0))
seeds = st.integers(0, 10_000)


@given(networks(), st.sampled_from(CONFIGURATIONS), layouts, shares, seeds)
def test_layers_take_the_stated_cycles_at_any_addresses(
    graph: Graph, config: tuple[str, int, str], layout: str, share: float, seed: int
) -> None:
    assert_as_estimated(graph, config, layout, share, seed)


@pytest.mark.long
@pytest.mark.parametrize("config", CONFIGURATIONS)
@given(graph=networks(), layout=layouts, share=shares, seed=seeds)
def test_layers_do_so_on_every_configuration(
    graph: Graph, config: tuple[str, int, str], layout: str, share: float, seed: int
) -> None:
    assert_as_estimated(graph, config, layout, share, seed)


@pytest.mark.parametrize(
    ("model", "accelerator"),
    [("zoo:tc_resnet8", "ethos_u55:macs=128"), ("zoo:resnet8:resolution=16", "ethos_u65:macs=256")],
)
def test_every_point_takes_the_stated_cycles(model: str, accelerator: str) -> None:
    engine, _, macs = accelerator.partition(":macs=")
    chip = configuration(engine.replace("_", "-"), int(macs), "shared_sram")
    done = compile_request(api.request(path_of(model), "cortex-m55", accelerators=(accelerator,)))
    assert len(done.points) > 3
    for point in done.points:
        said = point.schedule.cost.cycles - processor_cycles(point)
        assert said == point_cycles(point, done.request.accelerators, chip)


def taken(steps: Sequence[Step], most_copies: int = 1) -> float:
    found: EthosUConfiguration = configuration("ethos-u55", 128, "shared_sram")
    return timing(steps, replace(found, most_copies=most_copies))


def test_the_clock_shares_ports_and_stops_where_queues_are_full() -> None:
    work = Job(CommandQueue.OPERATIONS, 100.0, 60.0, 100.0)
    idle = Job(CommandQueue.OPERATIONS, 100.0, 0.0, 0.0)
    copy = Job(CommandQueue.COPIES, 50.0, 10.0, 50.0)
    done = QueueWait(CommandQueue.COPIES, 0)
    assert taken([idle, copy]) == 100
    assert taken([work, copy]) == 150, "both read constants all the time"
    assert taken([copy, done, work]) == 150
    assert taken([copy, copy, idle]) == 150, "the second copy is handed out behind the first one"
    assert taken([copy, copy, idle], most_copies=2) == 100
    assert taken([idle, idle, idle, copy]) == 300, "two are queued while the first one runs"
    assert taken([idle, idle, idle, idle, copy]) == 400
    assert taken([idle, QueueWait(CommandQueue.OPERATIONS, 0), copy]) == 150


@settings(max_examples=200)
@given(st.lists(st.tuples(st.booleans(), st.integers(1, 50)), max_size=12))
def test_a_stream_takes_at_least_each_engine_and_at_most_both(jobs: list[tuple[bool, int]]) -> None:
    steps = [
        Job(
            CommandQueue.COPIES if copies else CommandQueue.OPERATIONS,
            cycles,
            cycles / 2,
            cycles / 3,
        )
        for copies, cycles in jobs
    ]
    by_queue = [sum(s.cycles for s in steps if s.queue is queue) for queue in CommandQueue]
    assert max(by_queue) - 1e-3 <= taken(steps) <= sum(by_queue) + 1e-3
