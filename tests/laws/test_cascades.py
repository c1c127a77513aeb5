"""Laws of the cascade search, over small networks: it finds what brute force finds, and every
schedule that it finds runs exactly as it says."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.small_tensors import bias, int8, weights
from cascade_judge import Judge, Point, efficient, points
from lowered import inputs_of_graph
from penstock.backends.processor_parts import assign
from penstock.hardware.load import load_target
from penstock.ir.graph import Graph, Value
from penstock.ir.tensor import Array, Region, row_axis, row_count
from penstock.memory.problem import LiveBuffer, PlacementProblem, live_peak, shapes
from penstock.opkit.sliding import Window
from penstock.ops.concatenation import Concatenation
from penstock.ops.convolutions import Conv2D
from penstock.ops.unary import Relu
from penstock.program.expr import Var, evaluate
from penstock.program.lower import count_at, lower
from penstock.program.writer import Addresses
from penstock.scheduling.bands.band_schedule import tensor_configs
from penstock.scheduling.cascades.search import frontier_search
from penstock.scheduling.model.memories import MemoryAssignment, MemorySystem
from penstock.scheduling.model.part import Part
from penstock.scheduling.model.parts import Parts
from penstock.scheduling.model.schedule import Schedule
from penstock.scheduling.options import Options
from penstock.scheduling.order.order import OrderOptions, find_order
from penstock.scheduling.order.steps import order_problem
from penstock.scheduling.simulate.expanded_schedule import ExpandedSchedule, placement_problems
from penstock.simulators.graph import run_graph
from penstock.simulators.machine import Machine
from quick import examples
from small_networks import networks
from strategies import node_of, seeds

TARGET = load_target("host")
MEMORIES = MemorySystem(TARGET.arenas, TARGET.memory_for("constant"), TARGET.engines[0])
MOST_STRIPE = 4

# Every example is small, and a rare one is what finds the faults.
many = settings(max_examples=examples(max(150, settings().max_examples)))
some = settings(max_examples=examples(max(60, settings().max_examples)))


NETWORKS = st.one_of(networks(), networks(5, images=2))


@dataclass(frozen=True, slots=True)
class Calls:
    """A model in which calls alone cost cycles, those of each part its own number of them."""

    def work_cycles(self, part: Part, memory: MemoryAssignment | None = None) -> int:
        return 0

    def call_cycles(self, part: Part, memory: MemoryAssignment | None = None) -> int:
        return 3 + sum(part.name.encode()) % 11

    def cycles(
        self, part: Part, stripes: Sequence[int], memory: MemoryAssignment | None = None
    ) -> int:
        return len(stripes) * self.call_cycles(part)

    def cold_start_cycles(
        self, part: Part, rows: int, memory: MemoryAssignment | None = None
    ) -> int:
        return 0


def found(parts: Parts, options: Options) -> tuple[Schedule, ...]:
    return tuple(frontier_search(parts, Calls(), MEMORIES, options).schedules())


def orders(parts: Parts, keep_input: bool) -> set[tuple[int, ...]]:
    """The orders that the search tries."""
    best = find_order(order_problem(parts, keep_inputs=keep_input), OrderOptions())
    return {best.order, tuple(range(len(parts.parts)))}


def found_points(parts: Parts, options: Options) -> list[Point]:
    return efficient({(s.peak_bytes, s.cost.cycles) for s in found(parts, options)})


@many
@given(graph=NETWORKS, streamed=st.booleans(), keep=st.booleans())
def test_the_search_finds_the_frontier_of_brute_force(
    graph: Graph, streamed: bool, keep: bool
) -> None:
    parts = assign(graph, TARGET, stream_input=streamed)
    judge = Judge(graph, streamed, keep)
    every: set[Point] = set()
    for order in orders(parts, keep):
        every |= points(judge, order, MOST_STRIPE, lambda k: Calls().call_cycles(parts.parts[k]))
    options = Options(slack=0, keep_input=keep, max_stripe=MOST_STRIPE)
    assert found_points(parts, options) == efficient(every)


@some
@given(graph=NETWORKS, streamed=st.booleans())
def test_pruning_by_shorter_cascades_changes_no_frontier(graph: Graph, streamed: bool) -> None:
    parts = assign(graph, TARGET, stream_input=streamed)
    pruned, every = (
        found_points(parts, Options(prune_by_shorter=p, slack=0)) for p in (True, False)
    )
    assert pruned == every


@given(graph=networks(), most=st.integers(1, 3))
def test_fewer_parts_in_a_cascade_never_gain(graph: Graph, most: int) -> None:
    parts = assign(graph, TARGET)
    limited = found(parts, Options(max_parts=most, slack=0))
    assert all(len(plan.parts) <= most for schedule in limited for plan in schedule.plans)
    for schedule in limited:
        assert any(
            peak <= schedule.peak_bytes and cycles <= schedule.cost.cycles
            for peak, cycles in found_points(parts, Options(slack=0))
        )


@some
@given(graph=NETWORKS, streamed=st.booleans(), keep=st.booleans(), seed=seeds)
def test_every_schedule_runs_with_the_stated_costs(
    graph: Graph, streamed: bool, keep: bool, seed: int
) -> None:
    parts = assign(graph, TARGET, stream_input=streamed)
    inputs = inputs_of_graph(graph, seed)
    expected = run_graph(graph, inputs)
    for schedule in found(parts, Options(keep_input=keep, max_stripe=MOST_STRIPE)):
        runs_as_it_says(schedule, inputs, expected)


def test_a_stripe_as_high_as_a_tensor_may_still_take_it_in_pieces() -> None:
    x = Value("x", int8(1, 4, 1, 1))
    relu = node_of("relu", Relu(), (x,))
    both = node_of("both", Concatenation(1), (x, relu.output), like=x.type)
    conv = node_of("y", Conv2D(Window(3), Window(1)), (both.output,), weights(1, 3, 1, 1), bias(1))
    graph = Graph("g", (x,), (conv.output,), (relu, both, conv))
    inputs = inputs_of_graph(graph, 1)
    schedules = found(assign(graph, TARGET), Options(keep_input=True, max_stripe=4, slack=1))
    assert any(plan.stripe == 4 and len(plan.parts) == 3 for s in schedules for plan in s.plans)
    for schedule in schedules:
        runs_as_it_says(schedule, inputs, run_graph(graph, inputs))


def test_an_unread_input_is_live_when_the_caller_writes_it() -> None:
    x, unread = Value("x", int8(1, 4, 1, 1)), Value("unread", int8(1, 100, 1, 1))
    relu = node_of("y", Relu(), (x,))
    graph = Graph("g", (x, unread), (relu.output,), (relu,))
    parts = assign(graph, TARGET)
    for keep, peak_bytes in ((False, 4 + 100), (True, 4 + 100 + 4)):
        schedules = found(parts, Options(keep_input=keep))
        assert {schedule.peak_bytes for schedule in schedules} == {peak_bytes}
    streamed = found(assign(graph, TARGET, stream_input=True), Options())
    assert min(schedule.peak_bytes for schedule in streamed) == 1 + 4


def runs_as_it_says(
    schedule: Schedule, inputs: Mapping[str, Array], expected: Mapping[str, Array]
) -> None:
    """Every row that it computes is right, in the order of its calls; its cost is what is counted,
    and its peak is that of the blocks to be placed."""
    expanded = ExpandedSchedule(schedule)
    ((memory, blocks),) = placement_problems(expanded)
    bare = PlacementProblem(tuple(replace(block, alignment=1) for block in blocks.buffers))
    assert live_peak(bare).size_bytes == schedule.peak_bytes
    called: list[tuple[str, tuple[int, int]]] = []

    def compare(tensor: str, region: Region, elements: Array) -> None:
        np.testing.assert_array_equal(elements, expected[tensor][region.slices], tensor)
        called.append((tensor, rows_of(region, expected[tensor].shape)))

    offsets = first_fit(blocks)
    height = max(offsets[b.name] + b.size_bytes for b in blocks.buffers)
    machine = Machine(lower(expanded, Addresses(offsets, ((memory, height),))), compare)
    outputs = machine.run(inputs)
    for name, elements in outputs.items():
        np.testing.assert_array_equal(elements, expected[name], name)
    assert called == list(calls_of(expanded))
    for config in tensor_configs(expanded):
        regions = list(config.regions())
        assert len(regions) == config.count
        assert machine.counts.stripes.pop(config.tensor) == Counter(regions)
        rows = [rows_of(region, config.stripes[0].extent) for region in regions]
        assert rows == sorted(rows)
    assert not machine.counts.stripes
    counts, cost = machine.counts, schedule.cost
    assert counts.macs == cost.macs == schedule.parts.graph.macs()
    assert {m: n for m, n in counts.read_bytes.items() if n} == dict(cost.read_bytes)
    assert {m: n for m, n in counts.written_bytes.items() if n} == dict(cost.written_bytes)


def rows_of(region: Region, shape: tuple[int, ...]) -> tuple[int, int]:
    """Which rows of a tensor a region of some rows of an image holds; of anything else, all."""
    axis = row_axis(len(region.upper))
    if len(region.upper) < 2 or region.shape[:axis] != (1,) * axis:
        return 0, row_count(shape)
    first = int(np.ravel_multi_index(region.lower[: axis + 1], shape[: axis + 1]))
    return first, first + region.shape[axis]


def calls_of(expanded: ExpandedSchedule) -> Iterator[tuple[str, tuple[int, int]]]:
    """The tensor and the rows of every call that is no pull."""
    for cascade in expanded.cascades:
        for position, first, end, _ in cascade.calls.tolist():
            part = expanded.schedule.steps[position]
            if part.streamed_input is None:
                yield part.name, (first, end)


def first_fit(problem: PlacementProblem) -> dict[str, int]:
    """Each block, with those tied to it, at the first address where it meets nobody."""
    offsets: dict[str, int] = {}
    placed: list[LiveBuffer] = []
    for shape in shapes(problem.buffers):
        at = 0
        while any(_clash(b, at, p, offsets[p.name]) for b in shape for p in placed):
            at += max(b.alignment for b in shape)
        offsets |= {b.name: at + b.distance_bytes for b in shape}
        placed += shape
    return offsets


def _clash(one: LiveBuffer, base: int, other: LiveBuffer, other_at: int) -> bool:
    at = base + one.distance_bytes
    apart = at + one.size_bytes <= other_at or other_at + other.size_bytes <= at
    return one.meets(other) and not apart


@given(graph=NETWORKS)
def test_formulas_of_bounds_equal_their_tables(graph: Graph) -> None:
    for part in assign(graph, TARGET).rows.row_parts:
        for read in part.reads:
            needed = tuple(read.needed.tolist())
            for n, count in enumerate(needed):
                for positive in {n > 0, False}:
                    formula = count_at(needed, Var("n"), positive=positive, image=part.image_rows)
                    assert evaluate(formula, {"n": n}) == count
