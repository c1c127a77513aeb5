"""Laws of plans with channel groups, over small networks: the search finds the frontier of brute
force over cascades of whole channels and of channel groups.

The grouped networks of brute force are written here layer by layer, from the definition: for each
group of hidden channels, the layers on this group and the products that they add to the sums.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from hypothesis import event, given
from hypothesis import strategies as st

from benchmarks.below_rows_bound import enumeration
from cascade_judge import Judge, Point, efficient, points
from found import few
from penstock import api
from penstock.backends.processor_parts import assign
from penstock.frontends.builder import GraphBuilder
from penstock.hardware.load import load_target
from penstock.ir.graph import Graph, Node, Value
from penstock.ir.tensor import Quantisation
from penstock.opkit.requantise import Multipliers
from penstock.ops.partial_product import PartialProduct, RequantiseSums
from penstock.passes.channel_groups import channel_groups, group_channels, hidden_chains
from penstock.pipeline.assignment import assign_engines
from penstock.pipeline.channel_alternatives import COUNTS
from penstock.pipeline.search import schedule
from penstock.scheduling.cascades.search import frontier_search
from penstock.scheduling.model.memories import MemoryAssignment, MemorySystem
from penstock.scheduling.model.part import Part
from penstock.scheduling.model.parts import Parts
from penstock.scheduling.model.schedule import Schedule
from penstock.scheduling.options import Options
from penstock.scheduling.order.order import OrderOptions, find_order
from penstock.scheduling.order.steps import order_problem

TARGET = load_target("host")
MEMORIES = MemorySystem(TARGET.arenas, TARGET.memory_for("constant"), TARGET.engines[0])
MOST_STRIPE = 2
OPTIONS = Options(slack=0, max_stripe=MOST_STRIPE, max_recompute=1.0)
PULL_CYCLES = 2
LOSS = 1.5
"""The search may need this much more memory than all plans with bands, whose arenas are not rounded
to words (as in `test_plan_bounds.py`)."""


def node_cycles(node: Node | None) -> int:
    """The cycles of each call, by the kind of its operator; None: of a streamed input."""
    return PULL_CYCLES if node is None else 3 + len(type(node.op).__name__) % 5


@dataclass(frozen=True, slots=True)
class Calls:
    """A model in which calls alone cost cycles."""

    def work_cycles(self, part: Part, memory: MemoryAssignment | None = None) -> int:
        return 0

    def call_cycles(self, part: Part, memory: MemoryAssignment | None = None) -> int:
        return node_cycles(part.nodes[-1] if part.nodes else None)

    def cycles(
        self, part: Part, stripes: Sequence[int], memory: MemoryAssignment | None = None
    ) -> int:
        return len(stripes) * self.call_cycles(part)

    def cold_start_cycles(
        self, part: Part, rows: int, memory: MemoryAssignment | None = None
    ) -> int:
        return 0


@dataclass(frozen=True, slots=True)
class Block:
    """Layers that compute hidden channels, and the pointwise layer that sums over these.

    shape: rows, columns and channels of the input of the network.
    outputs: number of channels of the output.
    depthwise: whether a depthwise layer of this size is in between; None if there is none.
    dense: whether the layers are fully connected; the input then has a single row.
    residual: whether the input is added to the output; both have equally many channels.
    """

    shape: tuple[int, int, int]
    hidden: int
    outputs: int
    depthwise: int | None = None
    dense: bool = False
    residual: bool = False

    def whole(self) -> Graph:
        net = GraphBuilder("block")
        x = self._input(net)
        y = self._hidden(net, x, self.hidden)
        y = net.fully_connected(y, self.outputs) if self.dense else net.conv2d(y, self.outputs, 1)
        return self._built(net, x, y)

    def grouped(self, count: int) -> Graph:
        """The same, with the hidden channels in `count` groups."""
        net = GraphBuilder("block")
        x = self._input(net)
        sums = net.constant(np.zeros(self.outputs, np.int32), None, "bias")
        for k, (first, end) in enumerate(channel_groups(self.hidden, count)):
            y = self._hidden(net, x, end - first)
            ones = np.ones((self.outputs, end - first), np.int8)
            weights = net.constant(ones, Quantisation((0.01,), (0,)), f"weights{k}")
            sums = net.apply(PartialProduct(), sums, y, weights, quantisation=None)
        requantised = RequantiseSums(Multipliers.of([0.002] * self.outputs))
        y = net.apply(requantised, sums, quantisation=Quantisation((x.type.scale,), (0,)))
        return self._built(net, x, y)

    def _input(self, net: GraphBuilder) -> Value:
        return net.input((1, self.shape[2]) if self.dense else (1, *self.shape))

    def _hidden(self, net: GraphBuilder, x: Value, channels: int) -> Value:
        if self.dense:
            return net.fully_connected(x, channels)
        y = net.conv2d(x, channels, 1)
        return y if self.depthwise is None else net.depthwise_conv2d(y, self.depthwise)

    def _built(self, net: GraphBuilder, x: Value, y: Value) -> Graph:
        return net.build(net.add(x, y) if self.residual else y)


def searched(every: Iterable[Parts]) -> list[Point]:
    """The frontier that the search finds for graphs that compute the same, one after the other."""
    known: list[Schedule] = []
    for parts in every:
        search = frontier_search(parts, Calls(), MEMORIES, OPTIONS, others=tuple(known))
        known += search.schedules()
    return efficient({(one.peak_bytes, one.cost.cycles) for one in known})


def products(parts: Parts) -> int:
    """The number of partial products, and so of groups, of a network with a single chain."""
    return sum(isinstance(node.op, PartialProduct) for node in parts.graph.nodes)


def orders(parts: Parts) -> set[tuple[int, ...]]:
    """The execution orders that the search tries."""
    best = find_order(order_problem(parts, keep_inputs=False), OrderOptions())
    return {best.order, tuple(range(len(parts.parts)))}


def enumerated(graph: Graph, *, streamed: bool) -> set[Point]:
    """The points of all partitions of the orders into cascades."""
    parts = assign(graph, TARGET, stream_input=streamed)
    judge = Judge(graph, streamed)

    def cycles(k: int) -> int:
        return node_cycles(judge.steps[k].node)

    every = (points(judge, order, MOST_STRIPE, cycles) for order in orders(parts))
    return {point for some in every for point in some}


def least_of_all_plans(graph: Graph, most_macs: float, ceiling_bytes: int) -> int:
    """The least live bytes of all plans with bands and chains, at most `ceiling_bytes`."""
    parts = assign(graph, TARGET, stream_input=True)
    found = [ceiling_bytes]
    for order in orders(parts):
        nodes = tuple(node for k in order for node in parts.parts[k].nodes)
        ordered = assign(graph.with_nodes(nodes), TARGET, stream_input=True)
        found.append(enumeration(ordered, most_macs, ceiling_bytes).least_bytes()[0])
    return min(found)


def heights_and_widths(most_rows: int) -> st.SearchStrategy[tuple[int, int]]:
    """Images with at least as many rows as columns, which are not exchanged."""
    pairs = st.tuples(st.integers(1, most_rows), st.integers(1, 3))
    return pairs.map(lambda pair: (max(pair), min(pair)))


@st.composite
def pairs_of_layers(draw: st.DrawFn) -> Block:
    """Pairs of pointwise or fully connected layers, with a residual addition or without."""
    shape = (*draw(heights_and_widths(4)), draw(st.integers(1, 2)))
    residual, dense = draw(st.booleans()), draw(st.booleans())
    outputs = shape[2] if residual else draw(st.integers(1, 2))
    return Block(shape, draw(st.integers(4, 8)), outputs, None, dense, residual)


@st.composite
def bottlenecks(draw: st.DrawFn) -> Block:
    """Inverted bottlenecks: an expanding, a depthwise and a projecting layer."""
    shape = (*draw(heights_and_widths(3)), draw(st.integers(1, 2)))
    residual = draw(st.booleans())
    outputs = shape[2] if residual else draw(st.integers(1, 2))
    size = draw(st.sampled_from((1, 3)))
    return Block(shape, draw(st.integers(3, 6)), outputs, size, False, residual)


@few
@given(block=pairs_of_layers() | bottlenecks(), streamed=st.booleans())
def test_the_compiler_finds_the_frontier_of_whole_channels_and_groups(
    block: Block, streamed: bool
) -> None:
    """The frontier of the numbers of groups that the compiler tries, which no number of groups that
    it does not try improves in memory."""
    request = api.request("zoo:lenet5", "host", stream_input=streamed, options=OPTIONS)
    parts = assign_engines(block.whole(), request)
    every = {1: enumerated(block.whole(), streamed=streamed)}
    for count in {min(n, block.hidden) for n in COUNTS}:
        every[count] = enumerated(block.grouped(count), streamed=streamed)
    tried = {1, *(products(other) for other in parts.alternatives)}
    event(f"tried: {sorted(tried)}")
    found = searched((parts, *parts.alternatives))
    assert found == efficient({point for count in tried for point in every[count]})
    best = min(peak for points in every.values() for peak, _ in points)
    assert found[0][0] == best


@few
@given(block=bottlenecks(), streamed=st.booleans(), groups=st.integers(2, 6))
def test_the_search_finds_the_frontier_of_grouped_bottlenecks(
    block: Block, streamed: bool, groups: int
) -> None:
    """For any number of groups, also where the compiler would not try them."""
    whole, count = block.whole(), min(groups, block.hidden)
    (chain,) = hidden_chains(whole)
    graphs = whole, group_channels(whole, {chain.name: count})
    found = searched(assign(graph, TARGET, stream_input=streamed) for graph in graphs)
    every = enumerated(whole, streamed=streamed)
    every |= enumerated(block.grouped(count), streamed=streamed)
    assert found == efficient(every)


@few
@given(block=bottlenecks(), limit=st.sampled_from((1.5, 2.0)))
def test_groups_bands_and_recomputation_need_little_more_than_the_best_of_all_plans(
    block: Block, limit: float
) -> None:
    """The least memory of whole channels and of groups of one, with recomputation up to a limit."""
    whole = block.whole()
    (chain,) = hidden_chains(whole)
    options = Options(max_recompute=limit)
    counts = 1, block.hidden
    grouped = [
        group_channels(whole, {chain.name: count}) if count > 1 else whole for count in counts
    ]
    by_hand = [block.grouped(count) if count > 1 else whole for count in counts]
    found: list[int] = []
    every: list[int] = []
    for graph, same in zip(grouped, by_hand, strict=True):
        parts = assign(graph, TARGET, stream_input=True)
        found.append(min(one.peak_bytes for one in schedule(parts, TARGET, options).schedules))
        most_macs = (limit - 1.0) * whole.macs()
        every.append(least_of_all_plans(same, most_macs, found[-1] + 1))
    print(f"all plans {every}, search {found}: ratio {min(found) / min(every):.3f}")
    assert all(one <= other for one, other in zip(every, found, strict=True))
    assert min(found) <= LOSS * min(every)
