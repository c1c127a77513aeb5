"""stripes: computes a tensor in boxes (stripes) along any axes, in any order of loops.

For each stripe, the rewritten graph has the nodes of a cascade for the boxes that the stripe needs:

    x --- Slice --- conv, cropped --- conv, cropped --- stripe 0 of y ---+
    x --- Slice --- conv, cropped --- conv, cropped --- stripe 1 of y ---+--- Concatenation --- y
            :             :                 :                            :

Elements of a tensor between two nodes that several stripes need are either computed for each of
them, or once: the graph then computes only the boxes that no earlier stripe has computed, and joins
boxes of several stripes where a node reads them.  Nodes are in the order in which they are to run.

This is no pass of the stage `simplify`: the caller chooses the stripes.  Loops over images and rows
are plans of the scheduler, of the rewritten graph, too (decision 39).

Source: the stripes of TVM's RFC 0037 (cascading scheduler).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from functools import reduce
from itertools import pairwise

from penstock.frozen import frozen
from penstock.ir.composite import Composite
from penstock.ir.graph import Graph, GraphWriter, Node, Value, Values, computes
from penstock.ir.op import Croppable, Op
from penstock.ir.tensor import Region
from penstock.opkit.axes import RowVectors
from penstock.opkit.broadcast import Elementwise
from penstock.opkit.layers import Layer
from penstock.ops.concatenation import Concatenation
from penstock.ops.convolutions import Conv2D, DepthwiseConv2D
from penstock.ops.fully_connected import FullyConnected
from penstock.ops.pool import AveragePool2D, MaxPool2D
from penstock.ops.resize import ResizeBilinear, ResizeNearest
from penstock.ops.slice import Slice, part
from penstock.scheduling.model.stripe import ComputedBox

CHANNELWISE = Elementwise | DepthwiseConv2D | MaxPool2D | AveragePool2D
"""Operators whose attributes hold for any selection of channels."""


class IndivisibleError(Exception):
    """A node cannot compute a box of its output by itself; the axis is None if it is not known."""

    def __init__(self, node: Node, axis: int | None) -> None:
        super().__init__(node.name)
        self.node, self.axis = node, axis

    @property
    def reason(self) -> str:
        """Why, as a clause for messages."""
        values = (*self.node.variable_inputs, self.node.output)
        if any(value.type.layout for value in values):
            return "tensors in blocks of channels are divided into rows alone"
        name = self.node.op.kind
        return f"{name} cannot compute such a part of its output from parts of its inputs alone"


@frozen
class StripedGraph:
    """graph: with the stripes.  groups: what the nodes that replace the cascade compute or copy, in
    order: those of each group of stripes, and last those that join the groups."""

    graph: Graph
    groups: tuple[tuple[ComputedBox, ...], ...]


def in_stripes(
    graph: Graph, cascade: Sequence[Node], groups: Sequence[Sequence[Region]], recomputed: Set[str]
) -> StripedGraph:
    """Return the graph with a cascade in stripes.

    cascade: in execution order.  Only the output of the last node is read by other nodes.
    groups: disjoint boxes that cover this output (stripes), in the order in which they are to be
        computed.  Those of a group form a box; its last node computes or joins all of it.
    recomputed: names of the tensors between these nodes of which each stripe computes all it needs.

    Raises IndivisibleError.
    """
    writer = _Writer(graph, cascade, recomputed)
    output, found = cascade[-1].output, list[tuple[ComputedBox, ...]]()
    for group in (*groups, ()):
        for stripe in group:
            writer.write(stripe)
        writer.join(reduce(Region.hull, group) if group else Region.whole(output.shape))
        found.append(tuple(writer.boxes))
        writer.boxes.clear()
    names = {node.name for node in cascade}
    nodes: list[Node] = []
    for node in graph.nodes:
        if node.name == output.name:
            nodes += writer.nodes
        elif node.name not in names:
            nodes.append(node)
    return StripedGraph(graph.with_nodes(tuple(nodes)), tuple(found))


def needed_boxes(
    cascade: Sequence[Node], stripe: Region, known: Mapping[str, Sequence[Region]] = {}
) -> dict[str, Region]:
    """Return the smallest box of each tensor but constants that the nodes need for a stripe of the
    last one's output.

    known: the boxes of tensors that need not be computed."""
    needed = {cascade[-1].name: stripe}
    for node in reversed(cascade):
        box = needed.get(node.name)
        for out in () if box is None else _remaining(box, known.get(node.name, ())):
            for value, read in node.reads(out):
                if value.data is None:
                    needed[value.name] = needed.get(value.name, read).hull(read)
    return needed


@dataclass(slots=True)
class _Writer(GraphWriter):
    """Writes the nodes of the stripes.

    pieces: the boxes of each tensor that are computed, with their values, by tensor; they are
        disjoint.
    """

    cascade: Sequence[Node]
    recomputed: Set[str]
    boxes: list[ComputedBox] = field(default_factory=list[ComputedBox])
    pieces: dict[str, list[tuple[Region, Value]]] = field(
        default_factory=dict[str, list[tuple[Region, Value]]]
    )
    # Boxes of tensors that this stripe reads.
    read: dict[tuple[str, Region], Value] = field(default_factory=dict[tuple[str, Region], Value])

    def write(self, stripe: Region) -> None:
        self.read.clear()
        for name in self.recomputed:
            self.pieces[name] = []
        known = {name: [box for box, _ in found] for name, found in self.pieces.items()}
        needed = needed_boxes(self.cascade, stripe, known)
        for node in self.cascade:
            if node.name in needed:
                for box in _remaining(needed[node.name], known.get(node.name, ())):
                    value = self._computed(node, box)
                    self.pieces.setdefault(node.name, []).append((box, value))

    def join(self, box: Region) -> None:
        """Append the nodes that make a box of the output of the pieces computed; it replaces them
        as a piece."""
        self.read.clear()
        output = self.cascade[-1].output
        is_whole = box == Region.whole(output.shape)
        value = self._value(output, box, output if is_whole else None)
        others = [one for one in self.pieces[output.name] if not box.contains(one[0])]
        self.pieces[output.name] = [*others, (box, value)]

    def _computed(self, node: Node, out: Region) -> Value:
        if any(value.type.layout for value in (*node.variable_inputs, node.output)):
            raise IndivisibleError(node, None)
        name = self.fresh(f"{node.name}[{_text(out)}]")
        output = Value(name, node.output.type.of_region(out))
        if node is self.cascade[-1] and out == Region.whole(node.output.shape):
            output = node.output

        def read(k: int, value: Value, box: Region) -> Value:
            if value.data is None:
                return self._value(value, box)
            return value.section(box, self.fresh(f"{name}/input{k}"))

        made = _of_box(node, out, output, read)
        self.nodes.append(made)
        self.boxes.append(ComputedBox(node.name, out, output.name))
        return output

    def _value(self, tensor: Value, box: Region, output: Value | None = None) -> Value:
        """The value of a box of a tensor, which is joined of what is computed; with the name of
        `output`, unless it is None."""
        whole = Region.whole(tensor.shape)
        pieces = self.pieces.get(tensor.name) or [(whole, tensor)]
        key = tensor.name, box
        if key not in self.read:
            self.read[key] = self._joined(tensor, box, pieces, output)
        return self.read[key]

    def _joined(
        self,
        tensor: Value,
        box: Region,
        pieces: Sequence[tuple[Region, Value]],
        output: Value | None,
    ) -> Value:
        met = [(region, value) for region, value in pieces if not region.meet(box).empty]
        for region, value in met:
            if region == box:
                return value
            if region.contains(box):
                start = tuple(a - b for a, b in zip(box.lower, region.lower, strict=True))
                return self._copied(tensor, box, part(start, box.shape), (value,), output)
        axis, cuts = _cuts(box, [region for region, _ in met])
        bounds = [box.lower[axis], *cuts, box.upper[axis]]
        parts = tuple(
            self._value(tensor, box.replace(axis, (lower, upper)))
            for lower, upper in pairwise(bounds)
        )
        return self._copied(tensor, box, Concatenation(axis), parts, output)

    def _copied(
        self, tensor: Value, box: Region, op: Op, inputs: Values, output: Value | None
    ) -> Value:
        if output is None:
            name = self.fresh(f"{tensor.name}[{_text(box)}] copied")
            output = Value(name, tensor.type.of_region(box))
        self.append(op, inputs, output)
        self.boxes.append(ComputedBox(tensor.name, box, output.name, is_copy=True))
        return output


def _text(box: Region) -> str:
    return ",".join(f"{lower}:{upper}" for lower, upper in box.intervals)


def _remaining(box: Region, known: Sequence[Region]) -> Iterator[Region]:
    """Disjoint boxes that cover what of a box no known one covers."""
    if box.empty:
        return
    other = next((region for region in known if not region.meet(box).empty), None)
    if other is None:
        yield box
        return
    rest = box
    for axis, (lower, upper) in enumerate(other.meet(box).intervals):
        first, end = rest.intervals[axis]
        yield from _remaining(rest.replace(axis, (first, lower)), known)
        yield from _remaining(rest.replace(axis, (upper, end)), known)
        rest = rest.replace(axis, (lower, upper))


def _cuts(box: Region, pieces: Sequence[Region]) -> tuple[int, list[int]]:
    """An axis, and where to cut a box along it, so that the cuts divide no piece if possible."""
    found: list[tuple[int, list[int]]] = []
    for axis, (lower, upper) in enumerate(box.intervals):
        inside = {c for piece in pieces for c in piece.intervals[axis] if lower < c < upper}
        clean = sorted(
            c for c in inside if not any(p.lower[axis] < c < p.upper[axis] for p in pieces)
        )
        if clean:
            return axis, clean
        if inside:
            found.append((axis, sorted(inside)))
    return found[0]


_Read = Callable[[int, Value, Region], Value]
"""Returns the value of a box of an input, given its number, the whole input and the box."""


def _of_box(node: Node, out: Region, output: Value, read: _Read) -> Node:
    """The node that computes a box of a node's output.  Raises IndivisibleError."""
    op = _composite(node, node.op, out) if isinstance(node.op, Composite) else _divided(node, out)
    reads = [one for one in enumerate(node.reads(out)) if not one[1][1].empty]
    if len(reads) < len(node.inputs) and not isinstance(op, Concatenation):
        raise IndivisibleError(node, None)
    inputs = tuple(read(k, value, box) for k, (value, box) in reads)
    if not computes(op, (value.type for value in inputs), out.shape):
        raise IndivisibleError(node, None)
    return Node(op, inputs, output, node.origin)


def _composite(node: Node, op: Composite, out: Region) -> Composite:
    """The inner nodes for a box of their output, without kernels.  Raises IndivisibleError."""
    boxes = needed_boxes(op.nodes, out)

    def read(_: int, value: Value, box: Region) -> Value:
        if value.data is not None:
            return value.section(box, value.name)
        if boxes[value.name] != box:
            raise IndivisibleError(node, None)
        return Value(value.name, value.type.of_region(box))

    nodes: list[Node] = []
    for inner in op.nodes:
        box = boxes.get(inner.name)
        if box is None or box.empty:
            raise IndivisibleError(node, None)
        output = Value(inner.name, inner.output.type.of_region(box))
        nodes.append(_of_box(inner, box, output, read))
    return replace(op, nodes=tuple(nodes), chosen=None, fallback=None, prefetching=())


def _divided(node: Node, out: Region) -> Op:
    """The operator that computes a box of a node's output.  Raises IndivisibleError."""
    op, whole = node.op, Region.whole(node.output.shape)
    last = len(whole.lower) - 1
    divided = [a for a in range(last + 1) if out.intervals[a] != whole.intervals[a]]
    between = [a for a in divided if 0 < a < last]
    if isinstance(op, Concatenation) or (isinstance(op, RowVectors) and last not in divided):
        return op
    if isinstance(op, Slice):  # of the box that it reads
        start = tuple(max(0, step * (1 - n)) for step, n in zip(op.step, out.shape, strict=True))
        return replace(op, start=start, shape=out.shape)
    if isinstance(op, ResizeBilinear | ResizeNearest) and not between:
        return op
    if last in divided and not _divides_channels(node, *out.intervals[last]):
        raise IndivisibleError(node, last)
    if 0 in divided and not isinstance(op, Croppable | FullyConnected):
        raise IndivisibleError(node, 0)
    if not between:
        return op
    spatial = out.replace(0, whole.intervals[0]).replace(last, whole.intervals[last])
    cropped = op.cropped(node.site, spatial) if isinstance(op, Croppable) else None
    if cropped is None:
        raise IndivisibleError(node, between[0])
    return cropped


def _divides_channels(node: Node, lower: int, upper: int) -> bool:
    """Whether a node computes some channels with its attributes and some of its constants."""
    op, x = node.op, node.inputs[0].type
    if isinstance(op, Layer) and op.stated is not None:
        return False
    if isinstance(op, Conv2D | DepthwiseConv2D):  # of whole groups, or within one
        inputs = node.inputs[1].shape[3] if isinstance(op, Conv2D) else 1
        size = node.output.shape[3] * inputs // x.shape[3]
        return lower // size == (upper - 1) // size or lower % size == upper % size == 0
    return isinstance(op, FullyConnected | CHANNELWISE)
