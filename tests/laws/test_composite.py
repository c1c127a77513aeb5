"""Laws of composites: results, regions read and work are those of the inner nodes.

Composites come from random patterns on random graphs; larger ones from any interval of a network
that ends in one value.
"""

from __future__ import annotations

from functools import reduce

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from accelerators import named
from benchmarks.small_tensors import Sample, bias, int8, weights
from found import SAMPLES, inputs_of
from penstock.backends.partition import partition
from penstock.ir.composite import Composite
from penstock.ir.graph import Graph, Node, Value, whole_work
from penstock.ir.op import Site, Work
from penstock.ir.tensor import Array, Data, DType, Region
from penstock.opkit.sliding import Window
from penstock.ops.binary import Add
from penstock.ops.convolutions import Conv2D
from penstock.ops.pad import Pad
from penstock.ops.unary import Relu
from penstock.simulators.graph import run_graph
from small_networks import networks
from small_patterns import patternable, patterns
from strategies import graphs, intervals, node_of, partitions, regions, seeds


def recurrent(node: Node) -> bool:
    """Whether an operator goes on from its own output; such are made when all has been claimed."""
    return not node.op.ALIAS and node.op.kernel(node.site).recurrent


@st.composite
def matched(draw: st.DrawFn) -> Node:
    """What a random pattern matched."""
    graph = draw(st.one_of(graphs(most_nodes=5), networks(most_parts=5)))
    assume(patternable(graph))
    found, _ = partition(graph, (named(draw(patterns(graph))),), (), "toy")
    composites = [n for n in found.nodes if isinstance(n.op, Composite)]
    assume(composites and not any(recurrent(m) for n in composites for m in n.op.nodes))
    return max(composites, key=lambda n: len(n.op.nodes))


@st.composite
def grown(draw: st.DrawFn) -> Node:
    """Some nodes of a network that lead to one value, however many paths there are."""
    graph = draw(st.one_of(graphs(most_nodes=6), networks(most_parts=6)))
    producers = graph.producers()
    inside = {draw(st.sampled_from(graph.nodes)).name}
    (last,) = inside
    for node in reversed(graph.nodes):
        read = any(node.name in {v.name for v in producers[n].inputs} for n in inside)
        if read and draw(st.integers(0, 3)):
            inside.add(node.name)
    nodes = tuple(n for n in graph.nodes if n.name in inside)
    assume(not any(map(recurrent, nodes)))
    return composite_of(nodes, last)


def composite_of(nodes: tuple[Node, ...], last: str) -> Node:
    inside = {node.name for node in nodes}
    outside = {v.name: v for n in nodes for v in n.inputs if v.name not in inside}
    op = Composite("p", "toy", nodes, tuple(outside))
    (output,) = (n.output for n in nodes if n.name == last)
    return Node(op, tuple(outside.values()), output)


def composites() -> st.SearchStrategy[Node]:
    return st.one_of(matched(), grown())


def by_nodes(node: Node, inputs: tuple[Array, ...]) -> Array:
    """The whole output, node by node."""
    assert isinstance(node.op, Composite)
    graph = Graph("inside", (), (node.output,), node.op.nodes)
    given = dict(zip(node.op.inputs, inputs, strict=True))
    return run_graph(graph, given)[node.name]


def poisoned(elements: Array, need: Region, seed: int) -> Array:
    """The elements in a region, and others outside."""
    rng = np.random.default_rng(seed)
    other = rng.permutation(elements.reshape(-1)).reshape(elements.shape)
    result = np.where(other == elements, ~elements, other)
    result[need.slices] = elements[need.slices]
    return result


@given(node=composites(), seed=seeds)
def test_a_composite_computes_the_results_of_its_nodes(node: Node, seed: int) -> None:
    inputs = inputs_of(node.site, seed)
    whole = node.op.evaluate(node.site, inputs, Region.whole(node.output.type.shape))
    np.testing.assert_array_equal(whole, by_nodes(node, inputs))
    assert whole.dtype == node.output.type.dtype.value
    assert node.op.result_type(node.site.inputs) == node.output.type


@given(data=st.data(), node=composites(), seed=seeds)
def test_a_composite_reads_only_the_needed_regions(
    data: st.DataObject, node: Node, seed: int
) -> None:
    inputs = inputs_of(node.site, seed)
    whole = by_nodes(node, inputs)
    out = data.draw(regions(node.output.type.shape))
    needs = node.op.needs(node.site, out)
    for need, type in zip(needs, node.site.inputs, strict=True):
        assert Region.whole(type.shape).contains(need)
    damaged = tuple(
        poisoned(elements, need, seed + k)
        for k, (elements, need) in enumerate(zip(inputs, needs, strict=True))
    )
    found = node.op.evaluate(node.site, damaged, out)
    np.testing.assert_array_equal(found, whole[out.slices])


@given(data=st.data(), node=composites(), seed=seeds)
def test_a_cropped_composite_computes_its_region(
    data: st.DataObject, node: Node, seed: int
) -> None:
    assume(node.output.type.rank == 4)
    n, height, width, channels = node.output.type.shape
    rows, columns = (data.draw(intervals(extent)) for extent in (height, width))
    assert_crops(node, Region.of((0, n), rows, columns, (0, channels)), seed)


def assert_crops(node: Node, out: Region, seed: int) -> bool:
    """Compare a cropped composite with the region of the whole one; False if there is none."""
    op, site = node.op, node.site
    assert isinstance(op, Composite)
    cropped = op.cropped(site, out)
    if cropped is None:
        return False
    needs, whole = op.needs(site, out), inputs_of(site, seed)
    inputs = tuple(x[need.slices] for x, need in zip(whole, needs, strict=True))
    constants = tuple(
        None if data is None else Data.of(np.ascontiguousarray(x))
        for data, x in zip(site.constants, inputs, strict=True)
    )
    types = tuple(t.with_shape(x.shape) for t, x in zip(site.inputs, inputs, strict=True))
    small = Site(types, site.output.with_shape(out.shape), constants)
    everything = Region.whole(out.shape)
    assert cropped.result_type(types) == small.output
    found = cropped.evaluate(small, inputs, everything)
    np.testing.assert_array_equal(found, op.evaluate(site, whole, out))
    assert cropped.needs(small, everything) == tuple(Region.whole(t.shape) for t in types)
    return True


@given(data=st.data(), node=composites())
def test_the_affine_form_of_a_composite_contains_its_needs(data: st.DataObject, node: Node) -> None:
    out = data.draw(regions(node.output.type.shape))
    triples = zip(
        node.op.affine(node.site), node.op.needs(node.site, out), node.site.inputs, strict=True
    )
    for affine, need, type in triples:
        assert affine.apply(out).meet(Region.whole(type.shape)).contains(need)


def plus(*works: Work) -> Work:
    return Work(
        sum(w.macs for w in works), sum(w.elements for w in works), sum(w.loops for w in works)
    )


@given(node=composites())
def test_the_work_of_a_composite_is_the_sum_of_what_its_nodes_must_compute(node: Node) -> None:
    """Nodes inside may compute less than their whole output: what the last node reads."""
    assert isinstance(node.op, Composite)
    out = Region.whole(node.output.type.shape)
    wanted: dict[str, list[Region]] = {node.name: [out]}
    parts: list[Work] = []
    for inner in reversed(node.op.nodes):
        read = [region for region in wanted.get(inner.name, []) if not region.empty]
        if read:
            region = reduce(Region.hull, read)
            parts.append(inner.op.work(inner.site, region))
            for value, need in zip(inner.inputs, inner.op.needs(inner.site, region), strict=True):
                wanted.setdefault(value.name, []).append(need)
    assert node.op.work(node.site, out) == plus(*parts)
    assert whole_work(node).macs <= sum(whole_work(inner).macs for inner in node.op.nodes)


@given(data=st.data(), node=composites())
def test_a_composite_of_one_node_is_that_node(data: st.DataObject, node: Node) -> None:
    assert isinstance(node.op, Composite)
    inner = node.op.nodes[-1]
    alone = composite_of((inner,), inner.name)
    out = data.draw(regions(inner.output.type.shape))
    assert alone.op.work(alone.site, out) == inner.op.work(inner.site, out)
    if len({v.name for v in inner.inputs}) == len(inner.inputs):
        pairs = zip(alone.op.needs(alone.site, out), inner.op.needs(inner.site, out), strict=True)
        assert all(a == b or (a.empty and b.empty) for a, b in pairs)
        assert [a.apply(out) for a in alone.op.affine(alone.site)] == [
            a.apply(out) for a in inner.op.affine(inner.site)
        ]
    parts = data.draw(partitions(inner.output.type.shape))
    pieces = [alone.op.work(alone.site, part) for part in parts]
    assert (
        plus(*pieces).macs == alone.op.work(alone.site, Region.whole(inner.output.type.shape)).macs
    )


PADDED = [
    pytest.param(sample, id=name)
    for name, sample in SAMPLES
    if sample.site.output.quantisation and sample.site.output.dtype is DType.INT8
]


@pytest.mark.parametrize("sample", PADDED)
def test_of_padding_nothing_is_read(sample: Sample) -> None:
    """Every operator, then a border: asked for the border alone, nothing is computed inside."""
    y = sample.site.output
    operands = zip(sample.site.inputs, sample.site.constants, strict=True)
    values = tuple(Value(f"i{k}", *operand) for k, operand in enumerate(operands))
    first = Node(sample.op, values, Value("a", y))
    for axis in range(y.rank):
        before = tuple(2 * (k == axis) for k in range(y.rank))
        last = node_of("b", Pad(before, (0,) * y.rank, y.zero_point), (first.output,), like=y)
        node = composite_of((first, last), "b")
        out = Region.whole(last.output.type.shape).replace(axis, (0, 2))
        inputs = inputs_of(node.site, 3)
        assert (node.op.evaluate(node.site, inputs, out) == y.zero_point).all()
        assert all(need.empty for need in node.op.needs(node.site, out))
        assert node.op.work(node.site, out) == last.op.work(last.site, out)


def test_two_windows_one_after_the_other_reach_as_far_as_both() -> None:
    """3 x 3, then 3 x 3: rows [2, 3) of the output come from rows [2, 7) of an input of 9, and the
    affine form says so."""
    x = Value("x", int8(1, 9, 9, 1))
    window = Window(3)
    first = node_of("a", Conv2D(window, window), (x,), weights(1, 3, 3, 1), bias(1), like=x.type)
    last = node_of(
        "b", Conv2D(window, window), (first.output,), weights(1, 3, 3, 1), bias(1), like=x.type
    )
    node = composite_of((first, last), "b")
    out = Region.of((0, 1), (2, 3), (0, 1), (0, 1))
    read = Region.of((0, 1), (2, 7), (0, 5), (0, 1))
    at = node.op.inputs.index("x")
    assert node.op.needs(node.site, out)[at] == read
    assert node.op.affine(node.site)[at].apply(out) == read


def test_layers_inside_a_composite_can_be_cropped() -> None:
    """A convolution and its activation, as accelerators match them; not two residual branches,
    which read different columns of the same tensor."""
    x = Value("x", int8(1, 6, 7, 2))
    window = Window(3, before=1, after=1)
    conv = Conv2D(window, window)
    first = node_of("a", conv, (x,), weights(2, 3, 3, 2), bias(2), like=x.type)
    last = node_of("b", Relu(), (first.output,))
    out = Region.of((0, 1), (0, 6), (2, 4), (0, 2))
    assert assert_crops(composite_of((first, last), "b"), out, 1)
    total = node_of("c", Add(), (x, first.output), like=x.type)
    assert not assert_crops(composite_of((first, total), "c"), out, 1)


def test_a_chain_with_a_clamp_does_the_work_of_both() -> None:
    x = Value("x", int8(1, 4, 4, 2))
    one = Window(1)
    first = node_of("a", Conv2D(one, one), (x,), weights(3, 1, 1, 2), bias(3), like=x.type)
    last = node_of("b", Relu(), (first.output,))
    node = composite_of((first, last), "b")
    assert whole_work(node).macs == 4 * 4 * 3 * 2
    assert whole_work(node).elements == 2 * 4 * 4 * 3
    with pytest.raises(AssertionError, match="no implementation"):
        node.op.kernel(node.site)
