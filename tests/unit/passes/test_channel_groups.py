"""Hidden channels computed group by group: the same outputs, in less memory."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from available import MODELS, path_of
from benchmarks.small_tensors import Operand, bias, int8, weights
from lowered import assert_equal_to_graph, inputs_of_graph, lower
from offloading import assert_exact, compiled
from penstock.frontends.builder import GraphBuilder
from penstock.ground_truth import golden_inputs
from penstock.ir.graph import Graph, Node, Value
from penstock.ir.op import Op
from penstock.ir.tensor import Data, DType, TensorType
from penstock.ir.verify import verify
from penstock.ladder import Truth, climb
from penstock.opkit.activation import Activation
from penstock.opkit.sliding import Window
from penstock.ops.binary import Add, Mul, Prelu
from penstock.ops.concatenation import Concatenation
from penstock.ops.convolutions import Conv2D, DepthwiseConv2D
from penstock.ops.fully_connected import FullyConnected
from penstock.ops.pad import Pad
from penstock.ops.pool import AveragePool2D, MaxPool2D
from penstock.ops.reshape import Reshape
from penstock.ops.row_vectors import Softmax
from penstock.ops.slice import Slice
from penstock.ops.sums import Mean
from penstock.ops.transpose import Transpose
from penstock.ops.unary import Logistic, Relu, Tanh
from penstock.passes.channel_groups import channel_groups, group_channels, hidden_chains
from penstock.pipeline.graphs import read, simplify
from penstock.scheduling.options import Options
from penstock.simulators.goldens import read_goldens
from penstock.simulators.graph import run_graph
from strategies import node_of, seeds

ONE = Window(1)
SAME = Window(3, 1, 1, 1, 1)
HIDDEN = 8192
MOST_BYTES = 1_600
ACTIVATIONS = st.sampled_from((Activation.NONE, Activation.RELU, Activation.RELU6))


def pair(*, dense: bool = False, hidden: int = HIDDEN) -> Graph:
    """The 64 -> 8192 -> 64 pair of 1x1 layers, or of fully connected layers."""
    net = GraphBuilder("pair")
    if dense:
        x = net.fully_connected(net.input((1, 64)), hidden, activation="relu", name="expand")
        return net.build(net.fully_connected(x, 64, name="project"))
    x = net.conv2d(net.input((1, 1, 1, 64)), hidden, 1, activation="relu", name="expand")
    return net.build(net.conv2d(x, 64, 1, name="project"))


@pytest.mark.parametrize(
    ("dense", "target"),
    [(False, "cortex-m4"), (True, "cortex-m0plus")],
)
def test_a_pair_needs_a_group_of_hidden_channels_at_a_time(dense: bool, target: str) -> None:
    """The goal: 1,600 bytes instead of 8,256, with no multiply-accumulate executed twice."""
    whole = pair(dense=dense)
    (chain,) = hidden_chains(whole)
    assert (chain.name, chain.channels) == ("project", HIDDEN)
    alone = compiled(whole, target=target, options=Options(alternatives=False))
    assert alone.points[0].height_bytes == HIDDEN + 64
    done = compiled(group_channels(whole, {chain.name: 32}), target=target)
    done = replace(done, model=whole)
    assert done.points[0].height_bytes == 64 + 4 * 64 + HIDDEN // 32
    assert done.points[0].height_bytes <= MOST_BYTES
    assert done.schedule.cost.macs == whole.macs()
    for name in ("ziglang", "unicorn"):
        pytest.importorskip(name, reason="the extra 'simulate' is not installed")
    assert_exact(done, "core")


def test_rows_of_groups_interleave() -> None:
    """Each group's row of hidden channels is live only while its products are added."""
    net = GraphBuilder("rows")
    x = net.conv2d(net.input((1, 16, 4, 16)), 512, 1, activation="relu6", name="expand")
    whole = net.build(net.conv2d(x, 16, 1, name="project"))
    grouped = group_channels(whole, {"project": 8})
    before, after = (compiled(graph).points[0].height_bytes for graph in (whole, grouped))
    image, sums = 16 * 4 * 16, 4 * 4 * 16
    assert before >= image + 512
    assert after <= image + sums + 4 * 512 // 8 + 4 * 16
    assert_equal_to_graph(lower(grouped), seed=1)


def test_flash_stays_the_same() -> None:
    whole = pair(hidden=256)
    sizes = [
        sum(value.type.size_bytes for value in graph.constants())
        for graph in (whole, group_channels(whole, {"project": 8}))
    ]
    assert sizes[0] == sizes[1]


@st.composite
def middles(draw: st.DrawFn, k: int, values: list[Value]) -> Node:
    """A channelwise node that reads hidden tensors."""
    x, name = values[-1], f"middle{k}"
    channels = x.type.shape[-1]
    ops: list[tuple[Op, tuple[Operand, ...]]] = [
        (draw(st.sampled_from((Logistic(), Relu(), Tanh()))), ()),
        (Mul(), (weights(channels),)),
        (Prelu(), (weights(*(1,) * (x.type.rank - 1), channels),)),
    ]
    if x.type.rank == 4:
        window = draw(st.sampled_from((SAME, Window(2, 2, 1, 1, 1))))
        layer = weights(1, window.size, window.size, channels, axis=3), bias(channels)
        ops.append((DepthwiseConv2D(window, window, 1, draw(ACTIVATIONS)), layer))
        ops.append((draw(st.sampled_from((MaxPool2D, AveragePool2D)))(SAME, SAME), ()))
    op, constants = draw(st.sampled_from(ops))
    alike = [value for value in values[:-1] if value.type.shape == x.type.shape]
    if alike and draw(st.booleans()):
        op = draw(st.sampled_from((Add(), Mul())))
        return node_of(name, op, (x, draw(st.sampled_from(alike))), like=x.type)
    like = x.type if isinstance(op, MaxPool2D | AveragePool2D) else None
    return node_of(name, op, (x,), *constants, like=like)


def pooled(x: Value, as_pool: bool) -> list[Node]:
    """The mean over rows and columns, (N, C)."""
    batch, height, width, channels = x.type.shape
    op: Op = AveragePool2D(Window(height), Window(width)) if as_pool else Mean((1, 2))
    mean = node_of("mean", op, (x,), like=x.type)
    return [mean, node_of("view", Reshape((batch, channels)), (mean.output,), like=x.type)]


@st.composite
def chains(draw: st.DrawFn) -> Graph:
    """Networks with one chain: layers that expand, channelwise nodes, a layer that projects."""
    hidden, channels = draw(st.integers(2, 23)), draw(st.integers(1, 5))
    outputs = draw(st.integers(1, 6))
    axis = draw(st.sampled_from((None, 0)))
    dense = draw(st.booleans())
    if dense:
        keep = draw(st.booleans())
        leading = (2, draw(st.integers(1, 3))) if keep else (draw(st.integers(1, 4)),)
        x = Value("x", int8(*leading, channels))
        first: Op = FullyConnected(draw(ACTIVATIONS), keep)
        last: Op = FullyConnected(draw(ACTIVATIONS), keep)
        shapes = (hidden, channels), (outputs, hidden)
    else:
        extents = (draw(st.integers(1, 2)), draw(st.integers(2, 6)), draw(st.integers(2, 4)))
        x = Value("x", int8(*extents, channels))
        window = draw(st.sampled_from((ONE, SAME)))
        first = Conv2D(window, window, draw(ACTIVATIONS))
        last = Conv2D(ONE, ONE, draw(ACTIVATIONS))
        shapes = (hidden, window.size, window.size, channels), (outputs, 1, 1, hidden)
    nodes = [node_of("expand", first, (x,), weights(*shapes[0], axis=axis), bias(hidden))]
    if draw(st.booleans()):
        gate = weights(*shapes[0], axis=0, scale=0.03)
        nodes.append(node_of("gate", first, (x,), gate, bias(hidden)))
        pair = (nodes[0].output, nodes[1].output)
        nodes.append(node_of("gated", Mul(), pair, like=x.type))
    for k in range(draw(st.integers(0, 3))):
        nodes.append(draw(middles(k, [node.output for node in nodes])))
    if not dense and draw(st.integers(0, 2)) == 0:
        nodes += pooled(nodes[-1].output, draw(st.booleans()))
        last, shapes = FullyConnected(draw(ACTIVATIONS)), (shapes[0], (outputs, hidden))
    y = nodes[-1].output
    read = {v.name for node in nodes for v in node.inputs} | {y.name}
    assert {node.name for node in nodes} <= read
    nodes.append(node_of("project", last, (y,), weights(*shapes[1], axis=axis), bias(outputs)))
    nodes.append(node_of("after", Softmax(), (nodes[-1].output,)))
    return Graph("chain", (x,), (nodes[-1].output, nodes[-2].output), tuple(nodes))


@given(graph=chains(), data=st.data(), seed=seeds)
def test_grouped_chains_compute_the_same(graph: Graph, data: st.DataObject, seed: int) -> None:
    (chain,) = hidden_chains(graph)
    grouped = group_channels(graph, {chain.name: data.draw(st.integers(1, chain.channels))})
    verify(grouped)
    assert grouped.macs() == graph.macs()
    inputs = inputs_of_graph(graph, seed)
    before, after = run_graph(graph, inputs), run_graph(grouped, inputs)
    for value in graph.outputs:
        np.testing.assert_array_equal(after[value.name], before[value.name], value.name)
    assert_equal_to_graph(lower(grouped), seed)


CHANNELS = st.sampled_from((1, 3, 8))
"""Few numbers of channels, so that many tensors have equally many."""


@st.composite
def layers(draw: st.DrawFn, name: str, x: Value) -> Node:
    """A layer that mixes channels or one that does not, a view, a movement or a softmax."""
    channels, outputs = x.type.shape[-1], draw(CHANNELS)
    dense = FullyConnected(draw(ACTIVATIONS), keep_dimensions=x.type.rank != 2)
    dense_weights = weights(outputs, channels, axis=0), bias(outputs)
    if x.type.rank == 2:
        return node_of(name, dense, (x,), *dense_weights)
    window = draw(st.sampled_from((ONE, SAME, Window(1, 2), Window(2, 2, 1, 1, 1))))
    size = window.size, window.size
    convolution = Conv2D(window, window, draw(ACTIVATIONS))
    mixed = weights(outputs, *size, channels), bias(outputs)
    layer = draw(
        st.sampled_from(
            (
                (dense, dense_weights),
                *((convolution, mixed),) * 4,
                (convolution, (weights(channels, *size, 1), bias(channels))),
                (
                    DepthwiseConv2D(window, window),
                    (weights(1, *size, channels, axis=3), bias(channels)),
                ),
                *((op, ()) for op in (Softmax(), Logistic(), Relu(), Mean((1, 2)), Mean((3,)))),
                None,
            )
        )
    )
    if layer is not None:
        return node_of(name, layer[0], (x,), *layer[1])
    op = draw(st.sampled_from(movements(x.type.shape)))
    inputs = (x, x) if isinstance(op, Concatenation) else (x,)
    return node_of(name, op, inputs, like=x.type)


def movements(shape: tuple[int, ...]) -> tuple[Op, ...]:
    """Operators that keep the scale of an image."""
    batch, height, width, channels = shape
    return (
        MaxPool2D(SAME, SAME),
        AveragePool2D(SAME, SAME),
        Pad((0,) * 4, (0, 1, 0, 0), 3),
        Pad((0,) * 4, (0, 0, 0, 1), 3),
        Slice((0,) * 4, (batch, height, width, max(1, channels - 1)), (1,) * 4),
        Slice((0,) * 4, (batch, max(1, height - 1), width, channels), (1,) * 4),
        Concatenation(1),
        Concatenation(3),
        Reshape((batch, 1, height * width, channels)),
        Transpose((0, 2, 1, 3)),
        Transpose((0, 1, 3, 2)),
    )


@st.composite
def networks(draw: st.DrawFn) -> Graph:
    """Networks in which hidden tensors have readers of every kind: layers, pools, sums, movements,
    several at once, and those that are results."""
    extents = draw(st.integers(1, 4)), draw(st.integers(1, 4)), draw(CHANNELS)
    x = Value("x", int8(1, *extents))
    hidden = draw(st.sampled_from((3, 8)))
    expand = weights(hidden, 1, 1, extents[2]), bias(hidden)
    nodes = [node_of("expand", Conv2D(ONE, ONE, draw(ACTIVATIONS)), (x,), *expand)]
    for k in range(draw(st.integers(0, 5))):
        values = [node.output for node in nodes]
        value = values[-1 - min(draw(st.sampled_from((0, 0, 1, 2))), k)]
        alike = [v for v in values if v.type.shape == value.type.shape and v is not value]
        if alike and draw(st.booleans()):
            op = draw(st.sampled_from((Add(), Mul())))
            nodes.append(node_of(f"n{k}", op, (value, draw(st.sampled_from(alike)))))
        else:
            nodes.append(draw(layers(f"n{k}", value)))
    y, unread = nodes[-1].output, _unread(nodes)
    for k, value in enumerate(v for v in unread if v.type.shape == y.type.shape and v is not y):
        nodes.append(node_of(f"sum{k}", Add(), (nodes[-1].output, value)))
    y, outputs = nodes[-1].output, draw(CHANNELS)
    project = FullyConnected(keep_dimensions=True)
    layer = weights(outputs, y.type.shape[-1]), bias(outputs)
    nodes.append(node_of("project", project, (y,), *layer))
    extra = draw(st.sampled_from((None, None, None, *(node.output for node in nodes[:-1]))))
    results = _unread(nodes)
    if extra is not None and extra not in results:
        results.append(extra)
    return Graph("network", (x,), tuple(results), tuple(nodes))


def _unread(nodes: list[Node]) -> list[Value]:
    """The outputs that no node reads."""
    read = {value.name for node in nodes for value in node.inputs}
    return [node.output for node in nodes if node.name not in read]


@given(graph=networks(), data=st.data(), seed=seeds)
def test_chains_of_any_network_compute_the_same_in_groups(
    graph: Graph, data: st.DataObject, seed: int
) -> None:
    """For all consumers of hidden tensors, and any set of chains without common nodes."""
    counts: dict[str, int] = {}
    taken: set[str] = set()
    found = hidden_chains(graph)
    for chain in data.draw(st.permutations(found)):
        names = {chain.name, *(node.name for node in chain.nodes)}
        if taken.isdisjoint(names):
            taken |= names
            counts[chain.name] = data.draw(st.integers(1, chain.channels))
    event(f"chains: {len(found)}, nodes: {max((len(c.nodes) for c in found), default=0)}")
    grouped = group_channels(graph, counts)
    verify(grouped)
    inputs = inputs_of_graph(graph, seed)
    before, after = run_graph(graph, inputs), run_graph(grouped, inputs)
    for value in graph.outputs:
        np.testing.assert_array_equal(after[value.name], before[value.name], value.name)
    if counts:
        assert_equal_to_graph(lower(grouped), seed)


def test_a_layer_that_reads_a_hidden_tensor_ends_its_chain() -> None:
    """Residual blocks, in which hidden channels are read by a layer and by an addition."""
    net = GraphBuilder("residual")
    x = net.conv2d(net.input((1, 6, 6, 3)), 16, 1, name="hidden")
    y = net.add(x, net.conv2d(x, 16, 3, name="mixes"))
    whole = net.build(net.conv2d(y, 4, 1, name="project"))
    assert not hidden_chains(whole)
    done = compiled(whole, target="host")
    assert_exact(done, "points")


def test_a_block_with_a_depthwise_layer_is_exact_on_every_rung() -> None:
    net = GraphBuilder("block")
    x = net.input((1, 7, 6, 5))
    y = net.conv2d(x, 22, 1, activation="relu6", name="expand")
    y = net.depthwise_conv2d(y, 3, stride=2, activation="relu6", name="depthwise")
    whole = net.build(net.conv2d(y, 7, 1, activation="relu", name="project"))
    done = compiled(group_channels(whole, {"project": 3}), target="cortex-m4")
    for name in ("ziglang", "unicorn"):
        pytest.importorskip(name, reason="the extra 'simulate' is not installed")
    assert_exact(replace(done, model=whole), "points")
    assert_exact(replace(done, model=whole), "core")


def test_groups_equal_the_reference_runtime() -> None:
    """Against goldens from TensorFlow Lite Micro, on every rung."""
    whole = simplify(read(path_of("inverted_bottleneck")))
    chains = [(chain.last.kind, len(chain.nodes), chain.channels) for chain in hidden_chains(whole)]
    assert chains == [("Conv2D", 2, 26), ("Conv2D", 1, 5), ("FullyConnected", 3, 18)]
    project, _, scores = (chain.name for chain in hidden_chains(whole))
    done = compiled(group_channels(whole, {project: 5, scores: 4}), target="cortex-m4")
    goldens = read_goldens(MODELS / "inverted_bottleneck.npz")
    for name in ("ziglang", "unicorn"):
        pytest.importorskip(name, reason="the extra 'simulate' is not installed")
    rungs = list(climb(done, Truth(goldens), golden_inputs(done.model, goldens)))
    assert [rung.step for rung in rungs] == ["reference", "machine", "host", "core"]
    assert all(rung.comparison.elements and not rung.comparison.mismatches for rung in rungs)


def test_several_chains_can_be_grouped_at_once() -> None:
    net = GraphBuilder("two")
    x = net.input((1, 4, 4, 3))
    for k in range(2):
        x = net.conv2d(net.conv2d(x, 12, 1, name=f"expand{k}"), 3, 1, name=f"project{k}")
    whole = net.build(x)
    names = [chain.name for chain in hidden_chains(whole)]
    assert names == ["project0", "expand1", "project1"]  # 3 -> 12 -> 3 -> 12 -> 3
    grouped = group_channels(whole, {"project0": 2, "project1": 3})
    inputs = inputs_of_graph(whole, seed=5)
    before, after = run_graph(whole, inputs), run_graph(grouped, inputs)
    np.testing.assert_array_equal(after["project1"], before["project1"])
    with pytest.raises(AssertionError, match="in common"):
        group_channels(whole, {"project0": 2, "expand1": 2})
    with pytest.raises(AssertionError, match="no chains"):
        group_channels(whole, {"expand0": 2})


def hidden_graph(*, between: Op | None = None, last: Op | None = None, k: int = 1) -> Graph:
    """An expansion, perhaps a node, and a layer of `k` x `k`."""
    x = Value("x", int8(1, 4, 4, 3))
    nodes = [node_of("expand", Conv2D(ONE, ONE), (x,), weights(8, 1, 1, 3), bias(8))]
    if between is not None:
        nodes.append(node_of("between", between, (nodes[-1].output,)))
    depth = nodes[-1].output.type.shape[3]
    layer = weights(4, k, k, depth), bias(4)
    nodes.append(node_of("y", last or Conv2D(ONE, ONE), (nodes[-1].output,), *layer))
    return Graph("g", (x,), (nodes[-1].output,), tuple(nodes))


def test_near_misses() -> None:
    """Networks that meet all conditions but one."""
    graph = hidden_graph()
    assert len(hidden_chains(graph)) == 1
    assert len(hidden_chains(hidden_graph(between=Relu()))) == 1
    assert not hidden_chains(hidden_graph(between=Softmax())), "reads all channels"
    assert not hidden_chains(hidden_graph(between=Reshape((1, 4, 8, 4)))), "moves channels"
    assert not hidden_chains(hidden_graph(last=Conv2D(SAME, SAME), k=3)), "reads other pixels"
    assert not hidden_chains(hidden_graph(last=Conv2D(Window(1, 2), ONE))), "skips pixels"
    hidden = graph.nodes[0].output
    assert not hidden_chains(replace(graph, outputs=(*graph.outputs, hidden))), "is an output"
    reader = node_of("reader", Relu(), (hidden,))
    more = replace(graph, nodes=(*graph.nodes, reader), outputs=(*graph.outputs, reader.output))
    assert not hidden_chains(more), "has another reader"
    wide = TensorType((4,), DType.INT32), Data.of(np.full(4, 2**31 - 2**16, np.int32))
    layer = replace(graph.nodes[1], inputs=(*graph.nodes[1].inputs[:2], Value("b", *wide)))
    overflowing = replace(graph, nodes=(graph.nodes[0], layer))
    assert not hidden_chains(overflowing), "may overflow"
    assert not hidden_chains(Graph("g", (hidden,), graph.outputs, graph.nodes[1:])), "is an input"


def test_groups_are_multiples_of_four_channels_where_possible() -> None:
    assert channel_groups(8192, 2) == ((0, 4096), (4096, 8192))
    assert channel_groups(22, 5) == ((0, 4), (4, 8), (8, 12), (12, 16), (16, 22))
    assert len(channel_groups(23, 23)) == 23
