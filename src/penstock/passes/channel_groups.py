"""channel_groups: computes hidden channels group by group, and adds up what they contribute.

A hidden chain begins with layers that compute hidden channels, such as the expansion of an inverted
bottleneck or the first layer of a feed-forward block, and ends with a pointwise layer that sums
over these channels.  For each group of channels, the rewritten graph has the nodes of the chain on
that group, and a `PartialProduct` that adds the group's products to the sums in place.
`RequantiseSums` ends the chain.  Only the hidden channels of one group are then live at a time.
The number of multiply-accumulates and the bytes of weights stay the same.

Conditions:

1. The last node is a FullyConnected or a 1 x 1 Conv2D without stride and padding; each of its
   outputs reads all channels of one input pixel.
2. Its input is computed by channelwise nodes, which read only hidden channels and constants, from
   layers that compute all hidden channels (`FullyConnected`, `Conv2D` without groups) and read no
   hidden tensor.  A Reshape is channelwise if it keeps the last axis.
3. No other node reads a hidden tensor, and none is a result of the graph.
4. Sums of products of stored elements, without their zero point, fit int32.

This is no pass of the stage `simplify`, because more groups need less memory and more time: the
caller chooses their number.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import pairwise

from penstock.brief import Brief
from penstock.choices import Rounding
from penstock.frozen import frozen
from penstock.ir.graph import Graph, Node, Value, free_name, result_of
from penstock.ir.tensor import Array, Data, DType, Interval, Region, TensorType
from penstock.opkit.broadcast import Elementwise
from penstock.opkit.layers import Layer
from penstock.opkit.requantise import reach_of_sums
from penstock.ops.convolutions import Conv2D, DepthwiseConv2D
from penstock.ops.fully_connected import FullyConnected
from penstock.ops.partial_product import PartialProduct, RequantiseSums, first_sums
from penstock.ops.pool import AveragePool2D, MaxPool2D
from penstock.ops.reshape import Reshape
from penstock.ops.sums import Mean, Sum

# Operators whose attributes, but the shape of a Reshape, hold for any selection of channels.
CHANNELWISE = Elementwise | DepthwiseConv2D | MaxPool2D | AveragePool2D | Mean | Sum | Reshape
# Channels of a group are a multiple of it where possible: optimised kernels compute four at a time.
CHANNEL_MULTIPLE = 4


@frozen(repr=False)
class HiddenChain(Brief):
    """Nodes whose channels can be computed group by group.

    nodes: the nodes that compute hidden channels, in topological order.
    last: the layer that sums over the hidden channels.
    """

    nodes: tuple[Node, ...]
    last: Node

    @property
    def name(self) -> str:
        """The name of the last node, which identifies the chain in its graph."""
        return self.last.name

    @property
    def channels(self) -> int:
        """Number of hidden channels, and so the largest number of groups."""
        return self.last.inputs[0].shape[-1]


def hidden_chains(graph: Graph) -> tuple[HiddenChain, ...]:
    """The chains of a graph whose channels can be grouped, in the order of their last nodes.

    A node may be the last of one chain and the first of the next one; at most one of these two can
    be grouped."""
    producers, consumers = graph.producers(), graph.consumers()
    results = frozenset(value.name for value in graph.results)
    found: list[HiddenChain] = []
    for last in graph.nodes:
        names = _hidden_names(last, producers) if _sums_over_channels(last) else None
        if names is None or not names.isdisjoint(results) or _first_sums(last) is None:
            continue
        if all(reader.name in names or reader is last for n in names for reader in consumers[n]):
            nodes = tuple(node for node in graph.nodes if node.name in names)
            found.append(HiddenChain(nodes, last))
    return tuple(found)


def group_channels(graph: Graph, groups: Mapping[str, int]) -> Graph:
    """Return the graph with the channels of some chains computed group by group.

    groups: number of groups by name of the chain (`HiddenChain.name`), in [1, channels].  The
        chains must have no node in common.
    """
    chosen = {chain.name: chain for chain in hidden_chains(graph) if chain.name in groups}
    assert chosen.keys() == groups.keys(), f"no chains: {sorted(groups.keys() - chosen.keys())}"
    inside = [node.name for chain in chosen.values() for node in (*chain.nodes, chain.last)]
    assert len(inside) == len(set(inside)), "chains have nodes in common"
    hidden = frozenset(inside) - chosen.keys()
    names = graph.names()
    nodes: list[Node] = []
    for node in graph.nodes:
        if node.name in chosen:
            nodes += _grouped(chosen[node.name], groups[node.name], names)
        elif node.name not in hidden:
            nodes.append(node)
    return graph.with_nodes(tuple(nodes))


def channel_groups(channels: int, count: int) -> tuple[Interval, ...]:
    """Split channels into `count` intervals, whose sizes differ by at most `CHANNEL_MULTIPLE`.

    >>> channel_groups(22, 3)
    ((0, 8), (8, 16), (16, 22))
    >>> channel_groups(5, 3)
    ((0, 1), (1, 3), (3, 5))
    """
    assert 1 <= count <= channels, f"{count} groups of {channels} channels"
    blocks = -(-channels // CHANNEL_MULTIPLE)
    size, blocks = (CHANNEL_MULTIPLE, blocks) if blocks >= count else (1, channels)
    ends = [min(channels, k * blocks // count * size) for k in range(count + 1)]
    return tuple(pairwise(ends))


def _sums_over_channels(node: Node) -> bool:
    """Whether condition 1 holds."""
    op = node.op
    if not isinstance(op, FullyConnected | Conv2D) or not _has_constant_weights(node):
        return False
    x, y = node.inputs[0].type, node.output.type
    if x.rank < 2 or x.shape[:-1] != y.shape[:-1]:
        return False
    if isinstance(op, FullyConnected):
        return x.shape[-1] == node.inputs[1].shape[1]
    windows = (op.rows, op.columns)
    plain = all((w.size, w.stride, w.before, w.after) == (1, 1, 0, 0) for w in windows)
    return plain and x.shape[-1] == node.inputs[1].shape[3]


def _first_sums(last: Node) -> Array | None:
    """The sums with which the last layer of a chain begins; None if condition 4 does not hold."""
    site = last.site
    return first_sums(site.x, _matrix(last), site.constant(2))


def _matrix(last: Node) -> Array:
    """The weights of the last layer of a chain, of shape (outputs, hidden channels)."""
    return last.site.constant(1).reshape(last.output.shape[-1], -1)


def _has_constant_weights(node: Node) -> bool:
    """Whether a layer reads one variable tensor, its first input, of int8 elements, and its
    multipliers are those of the scales, so that they are sliced as its weights are."""
    if isinstance(node.op, Layer) and node.op.stated is not None:
        return False
    types = [value.dtype for value in node.inputs[:2]]
    return node.variable_inputs == node.inputs[:1] and types == [DType.INT8, DType.INT8]


def _hidden_names(last: Node, producers: Mapping[str, Node]) -> frozenset[str] | None:
    """Names of the tensors of condition 2; None if the condition does not hold."""
    found: set[str] = set()
    read: set[str] = set()
    pending = [last.inputs[0]]
    while pending:
        value = pending.pop()
        node = producers.get(value.name)
        if node is None or value.shape[-1:] != last.inputs[0].shape[-1:]:
            return None
        if value.name in found:
            continue
        found.add(value.name)
        if _computes_channels(node):
            read.add(node.inputs[0].name)
        elif _is_channelwise(node):
            pending += node.variable_inputs
        else:
            return None
    return frozenset(found) if found.isdisjoint(read) else None


def _computes_channels(node: Node) -> bool:
    """Whether a node is a layer each of whose output channels reads all of its input's."""
    if not isinstance(node.op, FullyConnected | Conv2D) or not _has_constant_weights(node):
        return False
    x, weights = node.inputs[0].type, node.inputs[1].type
    return isinstance(node.op, FullyConnected) or x.shape[3] == weights.shape[3]


def _is_channelwise(node: Node) -> bool:
    if not isinstance(node.op, CHANNELWISE):
        return False
    if isinstance(node.op, Reshape):
        return True  # both sides have equally many channels
    shape = node.output.shape
    last = (shape[-1] - 1, shape[-1])
    out = Region.whole(shape).replace(len(shape) - 1, last)
    pairs = node.reads(out)
    # a scalar has no channels
    return all(v.data is not None or read.intervals[-1:] == (last,) for v, read in pairs)


def _grouped(chain: HiddenChain, count: int, taken: frozenset[str]) -> Iterator[Node]:
    last, first = chain.last, _first_sums(chain.last)
    _, w, b = last.inputs
    assert first is not None, last.name
    matrix = replace(w, type=w.type.with_shape((w.shape[0], chain.channels)))
    if matrix != w:
        matrix = replace(matrix, name=free_name(f"{last.name}/matrix", taken))
    sums = Value(free_name(f"{last.name}/bias", taken), b.type, Data.of(first))
    for k, interval in enumerate(channel_groups(chain.channels, count)):
        values: dict[str, Value] = {}
        for node in chain.nodes:
            made = _sliced(node, interval, values, f"group{k}", taken)
            values[node.name] = made.output
            yield made
        read = values[last.inputs[0].name]
        name = f"{last.name}/group{k}"
        columns = Region.whole(matrix.shape).replace(1, interval)
        products = matrix.section(columns, free_name(f"{name}/weights", taken))
        total = Value(free_name(name, taken), TensorType(last.output.shape, DType.INT32))
        yield Node(PartialProduct(), (sums, read, products), total, last.origin)
        sums = total
    yield replace(last, op=_requantisation(last), inputs=(sums,))


def _sliced(
    node: Node, interval: Interval, values: Mapping[str, Value], label: str, taken: frozenset[str]
) -> Node:
    shape = node.output.shape
    out = Region.whole(shape).replace(len(shape) - 1, interval)
    name = f"{node.name}/{label}"
    inputs: list[Value] = []
    for k, (value, read) in enumerate(node.reads(out)):
        if value.data is None:
            inputs.append(values.get(value.name, value))
        else:
            inputs.append(value.section(read, free_name(f"{name}/input{k}", taken)))
    output = Value(free_name(name, taken), node.output.type.with_shape(out.shape))
    op = Reshape(out.shape) if isinstance(node.op, Reshape) else node.op
    assert result_of(op, inputs).shape == out.shape, node.name
    return Node(op, tuple(inputs), output, node.origin)


def _requantisation(last: Node) -> RequantiseSums:
    op, site = last.op, last.site
    assert isinstance(op, FullyConnected | Conv2D)
    return RequantiseSums(
        op.multipliers(site),
        op.activation,
        op.rounding if isinstance(op, FullyConnected) else Rounding.DOUBLE,
        reach_of_sums(site.x, _matrix(last), site.constant(2)),
    )
