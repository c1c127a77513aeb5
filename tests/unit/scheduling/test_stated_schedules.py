"""Schedules that users state: every axis, any order of loops, any buffer mode; compiled exactly."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

from boards import FLASH, BoardMemory, board
from penstock import api, cascader
from penstock.cascader import BufferMode, Cascade, StatedPrefetch, StripeConfig
from penstock.errors import CapacityError, UnsupportedError, UsageError
from penstock.frontends.builder import GraphBuilder
from penstock.frontends.calibrated_graph import Weights
from penstock.ir.graph import Graph
from penstock.ops.pixel_blocks import BatchToSpace
from penstock.ops.resize import ResizeNearest
from penstock.ops.slice import Slice
from penstock.simulators.graph import run_graph
from penstock.simulators.machine import Counts, Machine

BOTH = ("first", "second")
RECOMPUTE = {"first": BufferMode.RECOMPUTE}


def two(images: int = 1) -> Graph:
    net = GraphBuilder("two")
    x = net.conv2d(net.input((images, 13, 13, 8)), 8, 3, name="first")
    return net.build(net.conv2d(x, 4, 3, padding="valid", name="second"))


def counted(graph: Graph, schedule: cascader.Schedule) -> Counts:
    """What the machine counts; the outputs are those of the operators."""
    machine = Machine(cascader.program(schedule))
    random = np.random.default_rng(0)
    inputs = {v.name: random.integers(-128, 128, v.type.shape, np.int8) for v in graph.inputs}
    expected = run_graph(graph, inputs)
    for name, elements in machine.run(inputs).items():
        np.testing.assert_array_equal(elements, expected[name])
    assert machine.counts.macs == schedule.cost.macs
    return machine.counts


@pytest.mark.parametrize(
    ("images", "cascade"),
    [
        (1, Cascade(BOTH, (1, 3, 11, 4))),
        (2, Cascade(BOTH, (1, 3, 11, 4))),
        (3, Cascade(BOTH, (2, 11, 11, 4))),
        (1, Cascade(BOTH, (1, 3, 3, 4))),
        (1, Cascade(BOTH, (1, 11, 11, 1))),
        (2, Cascade(BOTH, (1, 4, 4, 3), loops=(3, 2, 0, 1))),
        (1, Cascade(BOTH, (1, 3, 3, 4), modes=RECOMPUTE)),
        (1, Cascade(BOTH, (1, 3, 3, 4), loops=(2, 1), modes=RECOMPUTE)),
        (2, Cascade(BOTH, (1, 3, 5, 2), loops=(1, 3, 2, 0), modes=RECOMPUTE)),
    ],
)
def test_stripes_along_any_axes_cover_the_output_exactly(images: int, cascade: Cascade) -> None:
    graph = two(images)
    schedule = cascader.make_schedule(cascader.parts(graph), cascade)
    counted(graph, schedule)
    configs = {config.tensor: config for config in cascader.tensor_configs(schedule)}
    shape = graph.outputs[0].type.shape
    stripe = cascade.stripe
    assert isinstance(stripe, tuple)
    counts = [-(-extent // size) for extent, size in zip(shape, stripe, strict=True)]
    assert configs["second"].count == math.prod(counts)
    assert {*configs} == {*BOTH}
    first = sum(region.elements for region in configs["first"].regions())
    recomputed = configs["first"].mode is BufferMode.RECOMPUTE
    assert (first > images * 13 * 13 * 8) == recomputed == bool(cascade.modes)


def test_loops_determine_the_order_of_stripes() -> None:
    parts = cascader.parts(two())
    for loops in ((3, 1, 2), (2, 1, 3)):
        schedule = cascader.make_schedule(parts, Cascade(BOTH, (1, 4, 4, 2), loops=loops))
        second = cascader.tensor_configs(schedule)[-1]
        order = [tuple(region.lower[axis] for axis in loops) for region in second.regions()]
        assert order == sorted(order)


@pytest.mark.parametrize(
    ("columns", "channels", "layers", "window", "stride"),
    [(8, 6, 1, (3, 2), (2, 3)), (9, 4, 2, (1, 3), (2, 2))],
)
def test_rows_between_images_that_nothing_reads_are_in_no_call_of_several(
    columns: int, channels: int, layers: int, window: tuple[int, int], stride: tuple[int, int]
) -> None:
    net = GraphBuilder("unread_rows")
    x = net.input((2, 4, columns, 1))
    for _ in range(layers):
        x = net.conv2d(x, channels, 1)
    graph = net.build(net.conv2d(x, 1, window, stride, padding="valid"))
    bands = 0
    for schedule in cascader.frontier(cascader.parts(graph)).schedules:
        counted(graph, schedule)
        bands += len(schedule.bands)
    assert bands


@pytest.mark.parametrize("start", [0, 1])
@pytest.mark.parametrize("blocks", [(3, 1), (3, 2)])
def test_rows_that_come_from_several_images_are_there(blocks: tuple[int, int], start: int) -> None:
    """A call of several rows reads a box of images and rows, not only the rows of each."""
    net = GraphBuilder("blocks")
    x = net.conv2d(net.input((2 * math.prod(blocks), 2, 2, 2)), 2, 1)
    y = net.apply(BatchToSpace(blocks), x, quantisation=x.type.quantisation)
    images, rows, *others = y.type.shape
    cropped = Slice((0, start, 0, 0), (images, rows - start - 1, *others), (1,) * 4)
    graph = net.build(net.apply(cropped, y, quantisation=x.type.quantisation))
    for schedule in cascader.frontier(cascader.parts(graph)).schedules:
        counted(graph, schedule)


def test_a_single_cascade_divides_every_image() -> None:
    """It used to run whole layers without a word."""
    schedule = cascader.single_cascade(cascader.parts(two(2)), rows=2)
    counted(two(2), schedule)
    second = cascader.tensor_configs(schedule)[-1]
    assert second.count == 2 * 6
    assert all(region.shape[:2] in ((1, 2), (1, 1)) for region in second.regions())


def test_the_search_divides_the_images_of_a_batch() -> None:
    """Images, and some rows of one, are plans: loops without copies, in the search as stated."""
    graph = two(3)
    parts = cascader.parts(graph)
    every = cascader.frontier(parts).schedules
    assert every[0].peak_bytes < 0.55 * every[-1].peak_bytes
    images = Cascade(BOTH, (1, 11, 11, 4))
    boxes = Cascade(BOTH, (1, 4, 4, 4), modes=RECOMPUTE)
    cascades = (
        Cascade(BOTH, (1, 4, 11, 4)),
        images,
        replace(images, modes=RECOMPUTE),
        boxes,
        replace(boxes, loops=(2, 0, 1)),
    )
    stated = [cascader.make_schedule(parts, one) for one in cascades]
    for schedule in (every[0], every[len(every) // 2], *stated):
        counted(graph, schedule)
        assert not schedule.boxes
    stripes = [cascader.tensor_configs(schedule)[-1] for schedule in stated]
    assert [config.count for config in stripes] == [3 * 3, 3, 3, 3 * 9, 3 * 9]
    config = StripeConfig(
        (1, 4, 11, 4), (3, 11, 11, 4), (1, 4, 11, 4), (1, 2, 0, 0), (3, 3, 1, 1), (0,) * 4
    )
    assert stripes[0].stripes == (config,)
    for cascade in (cascades[0], boxes):
        done = api.verify(graph, schedule=cascade, last_rung="host")
        assert {rung.compared.mismatches for rung in done.rungs if rung.compared} == {0}


@pytest.mark.parametrize(
    ("cascade", "plans"),
    [
        (Cascade(BOTH, (1, 3, 11, 2)), 1),
        (Cascade(BOTH, (1, 3, 3, 4)), 1),
        (Cascade(BOTH, (1, 3, 11, 2), loops=(3, 0, 1)), 2 + 1),
        (Cascade(BOTH, (1, 3, 11, 2), modes=RECOMPUTE), 1),
        (Cascade(BOTH, (1, 3, 3, 2), loops=(0, 1, 3, 2), modes=RECOMPUTE), 1),
        (Cascade(BOTH, (1, 3, 3, 2), loops=(3, 0, 1, 2), modes=RECOMPUTE), 2 + 1),
    ],
)
def test_loops_over_rows_remain_plans_beside_other_loops(cascade: Cascade, plans: int) -> None:
    """Channels, and columns that are kept, are nodes; their rows are live as in any plan."""
    graph = two(2)
    schedule = cascader.make_schedule(cascader.parts(graph), cascade)
    counted(graph, schedule)
    assert len(schedule.plans) == plans
    assert all(plan.stripe == 3 for plan in schedule.plans[:2] if len(plan.parts) > 1)
    stripe = cascade.stripe
    assert isinstance(stripe, tuple)
    whole = replace(cascade, stripe=(1, 11, *stripe[2:]), loops=None)
    assert schedule.peak_bytes < cascader.make_schedule(cascader.parts(graph), whole).peak_bytes
    if not cascade.modes:  # those of bands are listed band by band
        second = cascader.tensor_configs(schedule)[-1]
        loops = cascade.loops or (0, 1, 2, 3)
        order = [tuple(region.lower[axis] for axis in loops) for region in second.regions()]
        assert order == sorted(order)
    found = api.verify(graph, schedule=cascade, last_rung="host")
    assert {rung.compared.mismatches for rung in found.rungs if rung.compared} == {0}


@pytest.mark.parametrize("recomputed", ["first", "second"])
@pytest.mark.parametrize(
    ("stripe", "copies"), [((1, 3, 11, 4), 0), ((1, 3, 3, 4), 11), ((1, 3, 11, 2), 1)]
)
def test_buffer_modes_of_tensors_may_differ(
    recomputed: str, stripe: tuple[int, ...], copies: int
) -> None:
    """One tensor is computed once, the other one for each stripe, which needs as many columns as
    stated: whole rows were computed.  Plans, and nodes for channels and columns."""
    net = GraphBuilder("three")
    x = net.conv2d(net.input((2, 13, 13, 8)), 8, 3, name="first")
    x = net.conv2d(x, 8, 3, name="second")
    graph = net.build(net.conv2d(x, 4, 3, padding="valid", name="third"))
    parts = cascader.parts(graph)
    names = (*BOTH, "third")
    modes = {recomputed: BufferMode.RECOMPUTE}
    schedule = cascader.make_schedule(parts, Cascade(names, stripe, modes=modes))
    counted(graph, schedule)
    assert sum(box.is_copy for box in schedule.boxes) == copies
    configs = {config.tensor: config for config in cascader.tensor_configs(schedule)}
    for name, halo in zip(BOTH, (4, 2), strict=True):
        computed = sum(region.elements for region in configs[name].regions())
        assert (computed > 2 * 13 * 13 * 8) == (name == recomputed)
        stated = BufferMode.RECOMPUTE if name == recomputed else BufferMode.ROLLING
        assert configs[name].mode is stated
        widths = {region.shape[2] for region in configs[name].regions()}
        assert max(widths) <= stripe[2] + halo
    found = api.verify(graph, schedule=Cascade(names, stripe, modes=modes), last_rung="host")
    assert {rung.compared.mismatches for rung in found.rungs if rung.compared} == {0}


def test_buffer_modes_may_be_stated_by_their_names() -> None:
    """Names used to be ignored: the tensor was rolling."""
    by_name = Cascade(BOTH, (1, 3, 3, 4), modes=cast(Any, {"first": "recompute"}))
    assert by_name == Cascade(BOTH, (1, 3, 3, 4), modes=RECOMPUTE)
    with pytest.raises(UsageError, match="did you mean recompute"):
        Cascade(BOTH, modes=cast(Any, {"first": "recomputed"}))


def test_a_text_names_one_part() -> None:
    """Its letters were the parts."""
    assert Cascade(cast(Any, "first"), rows=2) == Cascade(("first",), rows=2)
    assert Cascade(cast(Any, [*BOTH])) == Cascade(BOTH)


def test_a_schedule_whose_stripes_are_nodes_can_be_changed_and_compiled() -> None:
    graph = two()
    parts, cascade = cascader.parts(graph), Cascade(BOTH, (1, 3, 11, 2))
    schedule = cascader.make_schedule(parts, cascade)
    assert cascader.cascades(schedule) == (cascade,)
    report = api.compile(graph, "host", schedule=schedule).report
    assert report == api.compile(graph, "host", schedule=cascade).report
    assert [(one.layers, one.rows) for one in report.cascades] == [(2, 3)]
    kept = api.compile(graph, "host", schedule=Cascade(BOTH, (1, 3, 3, 4))).report
    assert [(one.layers, one.rows) for one in kept.cascades] == [(2, 3)]


def test_a_stripe_configuration_states_stripes_and_loops() -> None:
    config = StripeConfig(
        (1, 4, 4, 2), (1, 11, 11, 4), (1, 4, 4, 2), (0, 3, 2, 1), (1, 3, 3, 2), (0,) * 4
    )
    schedule = cascader.make_schedule(cascader.parts(two()), Cascade(BOTH, config))
    second = cascader.tensor_configs(schedule)[-1]
    assert [*second.regions()] == [*config.regions()]


def test_a_stated_schedule_runs_on_every_rung() -> None:
    for cascade in (
        Cascade(BOTH, (1, 3, 5, 2), loops=(3, 1, 2, 0)),
        Cascade(BOTH, (1, 3, 3, 4), loops=(2, 1), modes=RECOMPUTE),
    ):
        found = api.verify(two(), schedule=cascade, last_rung="host")
        compared = [rung.compared for rung in found.rungs if rung.step != "reference"]
        assert len(compared) >= 2
        assert all(one.elements and not one.mismatches for one in compared)


def test_the_report_states_the_bytes_and_cycles_of_the_schedule() -> None:
    graph = two()
    cascade = Cascade(BOTH, (1, 3, 11, 4))
    schedule = cascader.make_schedule(cascader.parts(graph), cascade)
    report = api.compile(graph, "host", schedule=[cascade]).report
    assert report.cycles.estimated == schedule.cost.cycles
    assert [point.ram_bytes for point in report.frontier] == [report.ram_bytes.total]
    assert report.ram_bytes.arena >= schedule.peak_bytes
    assert report == api.compile(graph, "host", schedule=schedule).report


def test_every_schedule_of_the_search_can_be_stated_by_names() -> None:
    net = GraphBuilder("net")
    x = net.conv2d(net.input((1, 12, 20, 2)), 4, 3, name="stem")
    wide = net.depthwise_conv2d(net.conv2d(x, 16, 1, name="expand"), 3, name="depthwise")
    parts = cascader.parts(net.build(net.conv2d(wide, 2, 1, 2, name="project")))
    schedules = cascader.frontier(parts).schedules
    assert any(schedule.bands for schedule in schedules)
    for schedule in schedules:
        again = cascader.make_schedule(parts, cascader.cascades(schedule))
        assert (again.peak_bytes, again.cost) == (schedule.peak_bytes, schedule.cost)


def test_a_schedule_of_the_search_can_be_changed() -> None:
    parts = cascader.parts(two())
    found = cascader.cascades(cascader.frontier(parts).schedules[0])
    changed = [replace(one, rows=1) for one in found]
    schedule = cascader.make_schedule(parts, changed)
    counted(two(), schedule)
    assert all(plan.stripe == 1 for plan in schedule.plans)


def test_each_tensor_is_in_the_memory_that_is_stated(tmp_path: Path) -> None:
    slow, fast = BoardMemory("slow", 65536, bandwidth=1, latency=8), BoardMemory("fast", 65536)
    target = board(tmp_path, slow, fast, FLASH)
    cycles: list[int] = []
    for memory in ({}, {"first": "fast"}):
        for stripe in ((1, 3, 11, 4), (1, 3, 3, 2)):
            cascade = Cascade(BOTH, stripe, memory=memory)
            report = api.compile(two(), target, schedule=cascade).report
            assert ("fast" in report.memory_bytes) == bool(memory)
            cycles.append(report.cycles.estimated)
    assert cycles[2] < cycles[0]
    assert cycles[3] < cycles[1]


def test_parts_without_a_cascade_run_whole() -> None:
    net = GraphBuilder("net")
    x = net.conv2d(net.input((1, 8, 8, 4)), 8, 3, name="a")
    x = net.conv2d(net.conv2d(x, 8, 3, name="b"), 8, 3, name="c")
    graph = net.build(net.fully_connected(net.reshape(x, (1, 512)), 4, name="d"))
    schedule = cascader.make_schedule(
        cascader.parts(graph), Cascade(("b", "c"), stripe=(1, 8, 4, 4))
    )
    counted(graph, schedule)
    configs = {config.tensor: config.count for config in cascader.tensor_configs(schedule)}
    assert (configs["a"], configs["c"], configs["d"]) == (1, 4, 1)


WRONG = {
    "cascader-004": [Cascade(("first",)), Cascade(("first", "second"))],
    "cascader-004 ": Cascade(("first", "first")),
    "cascader-005": [Cascade(("second",)), Cascade(("first",))],
    "cascader-005 ": Cascade(("second", "first"), rows=2),
    "cascader-006": [Cascade(("frist",))],
    "cascader-007": [Cascade(BOTH, (1, 3, 11, 4), modes={"first": BufferMode.FULL})],
    "cascader-008": [Cascade(BOTH, (1, 3, 11))],
    "cascader-013": [Cascade(BOTH, (1, 3, 11, 4), memory={"first": "tcm"})],
}


@pytest.mark.parametrize("code", WRONG)
def test_what_does_not_exist_is_refused(code: str) -> None:
    with pytest.raises((UsageError, UnsupportedError)) as caught:
        api.compile(two(), schedule=WRONG[code])
    assert caught.value.code == code.strip()
    assert all((caught.value.where, caught.value.why, caught.value.help))


PARTS: dict[str, Callable[[Any], object]] = {
    "parts": cascader.parts,
    "needed_stripes": lambda given: cascader.needed_stripes(given, cast(Any, None)),
    "single_cascade": lambda given: cascader.single_cascade(given, 2),
    "make_schedule": lambda given: cascader.make_schedule(given, Cascade(BOTH)),
    "constants": cascader.constants,
    "plans": cascader.plans,
    "proposals": cascader.proposals,
    "frontier": cascader.frontier,
}


@pytest.mark.parametrize("function", PARTS)
def test_a_path_is_refused_with_the_way_to_read_it(function: str) -> None:
    """It was an AttributeError."""
    graph = [] if function == "parts" else [two()]
    for given in ("model.tflite", Path("model.tflite"), *graph):
        with pytest.raises(UsageError) as caught:
            PARTS[function](given)
        assert caught.value.code == "cascader-015"


def named(operator: str, images: int) -> Graph:
    """A convolution, and an operator that reads it."""
    net = GraphBuilder(operator)
    x = net.conv2d(net.input((images, 8, 8, 8)), 8, 3, name="first")
    match operator:
        case "grouped":
            last = net.conv2d(x, 16, 3, groups=4, name="last")
        case "multiplied":
            last = net.depthwise_conv2d(x, 3, multiplier=2, name="last")
        case "concatenated":
            last = net.concatenate([x, net.input(x.type.shape, name="other")], name="last")
        case "sliced":
            box = Slice((0, 1, 7, 1), (images, 6, 4, 3), (1, 1, -2, 2))
            last = net.apply(box, x, quantisation=x.type.quantisation, name="last")
        case "resized":
            scale = x.type.quantisation
            last = net.apply(ResizeNearest(16, 16), x, quantisation=scale, name="last")
        case _:
            last = net.softmax(x, name="last")
    return net.build(last)


@pytest.mark.parametrize(
    ("operator", "stripe"),
    [
        ("grouped", (2, 8, 8, 2)),  # half a group
        ("grouped", (2, 8, 8, 8)),
        ("multiplied", (2, 8, 8, 6)),
        ("concatenated", (2, 8, 8, 5)),
        ("concatenated", (1, 3, 8, 12)),
        ("resized", (1, 16, 16, 3)),
        ("sliced", (2, 6, 4, 2)),
        ("sliced", (2, 6, 3, 3)),
        ("sliced", (1, 2, 3, 2)),
        ("softmax", (2, 3, 4, 8)),
    ],
)
def test_operators_are_divided_along_axes_that_they_compute_apart(
    operator: str, stripe: tuple[int, ...]
) -> None:
    graph = named(operator, 2)
    schedule = cascader.make_schedule(cascader.parts(graph), Cascade(("first", "last"), stripe))
    counted(graph, schedule)
    counts = [-(-n // size) for n, size in zip(graph.outputs[0].type.shape, stripe, strict=True)]
    assert cascader.tensor_configs(schedule)[-1].count == math.prod(counts)


def test_what_cannot_be_divided_is_refused_and_says_which_axis() -> None:
    graph = named("softmax", 2)
    with pytest.raises(UnsupportedError) as caught:
        api.compile(graph, schedule=Cascade(("first", "last"), (2, 8, 8, 4)))
    assert caught.value.what == '"last" cannot be computed in these stripes along axis 3 (channels)'
    assert caught.value.why.startswith("Softmax cannot compute such a part of its output")


def test_a_stated_schedule_that_does_not_fit_names_the_search_as_a_remedy() -> None:
    with pytest.raises(CapacityError) as caught:
        api.compile(two(), "host", schedule=Cascade(BOTH, (1, 11, 11, 1)), sram=3700)
    assert "the stated schedule needs" in caught.value.why
    least = api.compile(two(), "host", optimize="size").report.ram_bytes.total
    # of the network: that of the graph with a node for each stripe was searched, for a minute
    assert f"with a schedule of the search {least} bytes are enough" in caught.value.help
    api.compile(two(), "host", sram=3700)


def test_the_remedy_names_the_memory_that_is_full(tmp_path: Path) -> None:
    """It named the bytes of all memories, next to an option for the one that is full."""
    target = board(tmp_path, BoardMemory("main", 65536), BoardMemory("fast", 1024), FLASH)
    with pytest.raises(CapacityError) as caught:
        api.compile(two(), target, schedule=Cascade(BOTH, memory={"first": "fast"}))
    least = api.compile(two(), target, optimize="size").report
    used = dict(least.memory_bytes)
    assert "use at least --memory fast=1352; with a schedule of the search " in caught.value.help
    assert (
        f" {least.ram_bytes.total} bytes of RAM and {used.get('fast', 0)} of fast are enough"
        in (caught.value.help)
    )


def test_the_front_of_a_stated_schedule_is_one_point() -> None:
    found = api.explore(two(), "host", schedule=Cascade(BOTH, (1, 3, 11, 4))).choices
    assert len(found.choices) == 1


def test_the_steps_of_the_rfc_lead_from_plans_to_a_compiled_schedule() -> None:
    """Steps 2 to 4: plans of every part group, proposals of them, the fastest within a budget."""
    graph = two()
    parts = cascader.parts(graph)
    plans = cascader.plans(parts)
    assert plans.keys() == {("first",), ("second",), BOTH}
    for group, found in plans.items():
        costs = [(one.peak_bytes, one.time) for one in found]
        assert costs == sorted(costs)
        assert [time for _, time in costs] == sorted({time for _, time in costs}, reverse=True)
        assert all(tuple(parts.parts[k].name for k in one.plan.parts) == group for one in found)
    proposals = cascader.proposals(parts)
    known = {plan.bare for found in plans.values() for one in found for plan in (one.plan,)}
    assert all(plan.bare in known for one in proposals for plan in one.plans)
    budget = sorted(one.peak_bytes for one in proposals)[1]
    best = min((p for p in proposals if p.peak_bytes <= budget), key=lambda p: p.time)
    schedule = cascader.make_schedule(parts, best)
    assert schedule.peak_bytes == best.peak_bytes
    counted(graph, schedule)
    report = api.compile(graph, "host", schedule=schedule).report
    assert report.cycles.estimated == schedule.cost.cycles


def test_an_accelerator_has_the_layout_that_the_stripes_need() -> None:
    """The RFC's stripes of rows and columns: not possible with channels in blocks, the default."""
    net = GraphBuilder("net")
    x = net.conv2d(net.input((1, 13, 13, 16)), 16, 3, name="first")
    graph = net.build(net.conv2d(x, 32, 3, padding="valid", name="second"))
    stated = Cascade(BOTH, (1, 3, 3, 32), modes=RECOMPUTE)
    found = api.verify(graph, accelerators="ethos_u55", schedule=stated, last_rung="host")
    assert [rung.compared.mismatches for rung in found.rungs if rung.compared] == [0, 0]
    configs = cascader.tensor_configs(found.compiled.compilation.schedule)
    assert {config.tensor: config.count for config in configs}["second"] == 4 * 4
    blocks = "ethos_u55:layout=nhcwb16"
    with pytest.raises(UnsupportedError, match="blocks of channels"):
        api.compile(graph, accelerators=blocks, schedule=stated)


@pytest.mark.parametrize("accelerator", ["ethos_u55", "smv"])
def test_an_accelerator_computes_stripes_of_channels_and_columns_that_are_kept(
    accelerator: str,
) -> None:
    """Each as a layer of its own, which the accelerator has a kernel for; copies are the CPU's."""
    net = GraphBuilder("net")
    x = net.conv2d(net.input((1, 13, 13, 16)), 16, 3, activation="relu", name="first")
    graph = net.build(net.conv2d(x, 32, 3, padding="valid", name="second"))
    rows = Cascade(BOTH, (1, 3, 11, 16))
    for stated in (
        rows,
        Cascade(BOTH, (1, 11, 4, 32)),
        Cascade(BOTH, (1, 3, 11, 8), modes=RECOMPUTE),
    ):
        found = api.verify(graph, accelerators=accelerator, schedule=stated, last_rung="host")
        assert [rung.compared.mismatches for rung in found.rungs if rung.compared] == [0, 0]
        schedule = found.compiled.compilation.schedule
        copies = {box.node for box in schedule.boxes if box.is_copy}
        engines = {part.name: part.engine for part in schedule.assigned_parts.parts}
        assert all(engine == accelerator for n, engine in engines.items() if n not in copies)
        configs = {config.tensor: config for config in cascader.tensor_configs(schedule)}
        shape = stated.stripe
        assert isinstance(shape, tuple)
        assert configs["second"].count == math.prod(
            map(math.ceil, np.divide((1, 11, 11, 32), shape))
        )
    whole = replace(rows, stripe=(1, 11, 11, 16))
    bytes_ = [
        api.compile(graph, accelerators=accelerator, schedule=s).report.ram_bytes.arena
        for s in (rows, whole)
    ]
    assert bytes_[0] < bytes_[1]
    with pytest.raises(UnsupportedError, match="blocks of channels"):
        api.compile(graph, accelerators="ethos_u55:layout=nhcwb16", schedule=rows)


def test_a_layer_whose_result_is_converted_is_stated_by_its_own_name() -> None:
    """nvdla packs channels: a layer is the part of the accelerator, and the conversion after it."""
    net = GraphBuilder("net")
    x = net.conv2d(net.input((1, 13, 13, 16)), 16, 3, name="first")
    graph = net.build(net.conv2d(x, 32, 3, padding="valid", name="second"))
    found = api.verify(
        graph, accelerators="nvdla:config=small", schedule=Cascade(BOTH, rows=3), last_rung="host"
    )
    assert [rung.compared.mismatches for rung in found.rungs if rung.compared] == [0, 0]
    (_, plan) = found.compiled.compilation.schedule.plans
    parts = found.compiled.compilation.parts.parts
    assert [parts[k].engine for k in plan.parts] == ["nvdla", "nvdla", "cpu"]


@pytest.mark.parametrize("accelerator", ["nvdla:config=small", "ethos_u55:layout=nhcwb16"])
def test_stripes_of_rows_have_the_shape_of_the_image_beside_blocks(accelerator: str) -> None:
    """The output of the cascade is stored in blocks of channels."""
    net = GraphBuilder("net")
    x = net.conv2d(net.input((1, 13, 13, 16)), 20, 3, name="first")
    x = net.conv2d(x, 40, 3, padding="valid", name="second")
    graph = net.build(net.conv2d(x, 16, 1, name="third"))
    stated = Cascade(BOTH, (1, 3, 11, 40))
    found = api.verify(graph, accelerators=accelerator, schedule=stated, last_rung="machine")
    assert [rung.compared.mismatches for rung in found.rungs if rung.compared] == [0]
    done = found.compiled.compilation
    plan = next(plan for plan in done.schedule.plans if len(plan.parts) == 2)
    assert plan.stripe == 3
    assert done.parts.parts[plan.parts[-1]].output.type.layout is not None


def test_constants_are_double_buffered_on_request() -> None:
    """By an accelerator that reads them from slow memory; a processor copies none."""
    net = GraphBuilder("net")
    x = net.input((1, 16, 16, 16))
    for name in ("a", "b", "c"):
        x = net.conv2d(x, 32, 3, name=name)
    graph = net.build(x)
    double = [Cascade((name,), modes={name: BufferMode.DOUBLE}) for name in ("a", "b", "c")]
    npu = "ethos_u55:macs=256"
    plain = api.compile(graph, accelerators=npu, schedule=Cascade(("a",))).report
    found = api.compile(graph, accelerators=npu, schedule=double)
    starts = [plan.prefetches[0].early for plan in found.compilation.schedule.plans]
    assert starts == [False, True, True]
    assert found.report.cycles.estimated < plain.cycles.estimated
    boxes = Cascade(("a",), (1, 16, 8, 32), modes={"a": BufferMode.DOUBLE})
    striped = api.compile(graph, accelerators=npu, schedule=boxes).compilation.schedule
    assert sum(bool(plan.prefetches) for plan in striped.plans) == 2
    verified = api.verify(graph, accelerators=npu, schedule=double, last_rung="machine")
    assert [rung.compared.mismatches for rung in verified.rungs if rung.compared] == [0]
    with pytest.raises(UnsupportedError) as caught:
        api.compile(graph, schedule=double)
    assert caught.value.code == "cascader-009"


@pytest.mark.parametrize("stripe", [(1, 4, 5, 4), (1, 4, 11, 2), (1, 11, 11, 4)])
@pytest.mark.parametrize(
    "copied",
    [{"modes": {"first": BufferMode.DOUBLE}}, {"prefetches": (StatedPrefetch("first"),)}],
)
def test_copies_of_constants_are_refused_in_stripes_that_are_nodes(
    stripe: tuple[int, ...], copied: Mapping[str, Any]
) -> None:
    """The copies were dropped, and loops over rows, which no copy had prevented, unrolled."""
    with pytest.raises(UnsupportedError) as caught:
        cascader.make_schedule(cascader.parts(two()), Cascade(BOTH, stripe, **copied))
    assert caught.value.code == "cascader-009"


def test_constants_say_whether_they_are_compressed() -> None:
    """An NPU stores weights of few values in fewer bytes than the model, a processor does not."""
    net = GraphBuilder("net")
    x = net.input((1, 8, 8, 16))
    weights = np.zeros((32, 3, 3, 16), np.int8)
    weights[:, 1, 1, :] = 1
    graph = net.build(net.conv2d(x, 32, 3, name="conv", weights=Weights(weights, (0.1,))))
    for accelerators, is_compressed in (("ethos_u55:macs=256", True), ((), False)):
        done = api.compile(graph, "cortex-m55", accelerators=accelerators)
        (found,) = cascader.constants(done.compilation.parts)
        assert found.model_bytes == weights.size + 32 * 4
        assert (found.compression_ratio < 0.5) == is_compressed
        assert found.stored_bytes <= done.report.flash_bytes.weights
