"""Passes that let a layer do what operators around it do: dilation, padding, activation."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields, is_dataclass, replace
from typing import Any

from penstock.ir.graph import Graph, Node, Value, free_name
from penstock.ir.op import Op
from penstock.opkit.activation import Activation
from penstock.opkit.sliding import Window
from penstock.ops.convolutions import Conv2D, DepthwiseConv2D
from penstock.ops.pad import Pad
from penstock.ops.pixel_blocks import BatchToSpace, SpaceToBatch
from penstock.ops.plain import PlainRelu
from penstock.ops.pool import MaxPool2D
from penstock.ops.reshape import Reshape, keeps_extents
from penstock.ops.unary import Relu
from penstock.passes.cleaning import drop_dead


def fold_dilation(graph: Graph) -> Graph:
    """Returns the graph with dilated convolutions; `drop_dead` removes what they replace.

    A convolution between SpaceToBatch and BatchToSpace becomes a dilated one.  TensorFlow computes
    dilated convolutions so, those of series on views as images with one row.  SpaceToBatch and Pad
    of a series that such a view alone reads, and BatchToSpace of a series, become those of the
    image first.  Conditions:

    1. The blocks are the same, and the convolution has strides of 1 along axes with blocks.
    2. Nothing else reads the tensors between the three operators.
    """
    if not any(isinstance(node.op, SpaceToBatch | Pad) for node in graph.nodes):
        return graph
    return _rewritten(drop_dead(_rewritten(graph, _Rewriting.on_images)), _Rewriting.folded)


def _rewritten(graph: Graph, rewrite: Callable[[_Rewriting, Node], Iterator[Node]]) -> Graph:
    rewriting = _Rewriting(graph)
    return graph.with_nodes(tuple(one for node in graph.nodes for one in rewrite(rewriting, node)))


class _Rewriting:
    def __init__(self, graph: Graph) -> None:
        self._names = graph.names()
        self._producers, consumers = graph.producers(), graph.consumers()
        kept = {value.name for value in graph.results}
        self._single = {k for k, nodes in consumers.items() if len(nodes) == 1 and k not in kept}

    def _producer(self, value: Value) -> Node | None:
        """The node that computes a value that a single node reads; None if there is none."""
        return self._producers.get(value.name) if value.name in self._single else None

    def on_images(self, node: Node) -> Iterator[Node]:
        """The nodes that replace a view of a series, or a BatchToSpace of one."""
        x = node.inputs[0] if node.inputs else None
        if x is not None and isinstance(node.op, BatchToSpace) and x.rank == 3:
            view = self._producer(x)
            axis = None if view is None else _unit_axis(view.inputs[0], x)
            if view is not None and isinstance(view.op, Reshape) and axis:
                op = _on_image(node.op, axis)
                image = self._value(node.output, axis)
                yield replace(node, op=op, inputs=view.inputs, output=image)
                yield replace(node, op=Reshape(node.output.shape), inputs=(image,))
                return
        axis, moved = None, list[Node]()
        if x is not None and isinstance(node.op, Reshape):
            axis = _unit_axis(node.output, x)
            while axis and (before := self._producer(x)) is not None:
                if not isinstance(before.op, Pad | SpaceToBatch):
                    break
                moved.insert(0, before)
                x = before.inputs[0]
        if not moved or axis is None or x is None:
            yield node
            return
        image = self._value(x, axis)
        yield replace(node, op=Reshape(image.shape), inputs=(x,), output=image)
        for one in moved:
            output = node.output if one is moved[-1] else self._value(one.output, axis)
            yield replace(one, op=_on_image(one.op, axis), inputs=(image,), output=output)
            image = output

    def _value(self, series: Value, axis: int) -> Value:
        """A new value for a series as an image with a unit axis."""
        shape = series.shape
        type = series.type.with_shape((*shape[:axis], 1, *shape[axis:]))
        return Value(free_name(f"{series.name}/image", self._names), type)

    def folded(self, node: Node) -> Iterator[Node]:
        """The convolution that replaces a BatchToSpace, or the node itself."""
        layer = self._producer(node.inputs[0]) if isinstance(node.op, BatchToSpace) else None
        before = self._producer(layer.inputs[0]) if layer is not None else None
        if (
            layer is not None
            and before is not None
            and isinstance(layer.op, Conv2D | DepthwiseConv2D)
            and isinstance(before.op, SpaceToBatch)
            and isinstance(node.op, BatchToSpace)
            and before.op.blocks == node.op.blocks
            and layer.output.quantisation == node.output.quantisation
        ):
            windows = layer.op.rows, layer.op.columns
            pairs = list(zip(windows, node.op.blocks, strict=True))
            if all(window.stride == 1 or block == 1 for window, block in pairs):
                rows, columns = (_dilated(*pair) for pair in pairs)
                op = replace(layer.op, rows=rows, columns=columns)
                inputs = (before.inputs[0], *layer.inputs[1:])
                yield replace(layer, op=op, inputs=inputs, output=node.output)
                return
        yield node


def _unit_axis(image: Value, series: Value) -> int | None:
    """The axis with one element that an image has and a series of rank 3 has not."""
    shape = series.shape
    found = (k for k in (1, 2) if image.shape == (*shape[:k], 1, *shape[k:]))
    return next(found, None) if len(shape) == 3 else None


def _on_image(op: Op, axis: int) -> Op:
    """An operator on series as one on images that have a unit axis."""
    if isinstance(op, Pad):
        before, after = ((*p[:axis], 0, *p[axis:]) for p in (op.before, op.after))
        return replace(op, before=before, after=after)
    assert isinstance(op, SpaceToBatch | BatchToSpace)
    return replace(op, blocks=(1, *op.blocks) if axis == 1 else (*op.blocks, 1))


def _dilated(window: Window, block: int) -> Window:
    return replace(
        window,
        dilation=window.dilation * block,
        before=window.before * block,
        after=window.after * block,
    )


def fold_padding(graph: Graph) -> Graph:
    """Returns the graph in which Pad before a convolution or MaxPool2D is padding of its windows;
    `drop_dead` removes unread Pad nodes.  Conditions:

    1. Pad adds rows and columns only, and keeps the quantisation.
    2. For a convolution, the fill value is the zero point of Pad's input.
    3. For MaxPool2D, the fill value is the least value of the element type, and every window covers
       at least one element of the unpadded input.
    """
    pads = {node.output.name: node for node in graph.nodes if _is_border(node)}
    return graph.with_nodes(tuple(_folded(node, pads) for node in graph.nodes))


def _is_border(node: Node) -> bool:
    if not isinstance(node.op, Pad) or node.inputs[0].rank != 4:
        return False
    x, y = node.inputs[0].type, node.output.type
    outside = (node.op.before[0], node.op.after[0], node.op.before[3], node.op.after[3])
    return not any(outside) and x.quantisation == y.quantisation


def _folded(node: Node, pads: Mapping[str, Node]) -> Node:
    pad = pads.get(node.inputs[0].name) if node.inputs else None
    if pad is None or not isinstance(pad.op, Pad):
        return node
    if not isinstance(node.op, Conv2D | DepthwiseConv2D | MaxPool2D):
        return node
    x = pad.inputs[0].type
    rows, columns = _wider(node.op.rows, pad.op, 1), _wider(node.op.columns, pad.op, 2)
    if isinstance(node.op, MaxPool2D):
        folds = pad.op.fill == x.dtype.lower and all(map(_sees_an_element, (rows, columns)))
    else:
        folds = pad.op.fill == x.zero_point
    if not folds:
        return node
    op = replace(node.op, rows=rows, columns=columns)
    return replace(node, op=op, inputs=(pad.inputs[0], *node.inputs[1:]))


def _sees_an_element(window: Window) -> bool:
    return max(window.before, window.after) < window.extent


def _wider(window: Window, pad: Pad, axis: int) -> Window:
    before, after = pad.before[axis], pad.after[axis]
    return replace(window, before=window.before + before, after=window.after + after)


def fuse_activation(graph: Graph) -> Graph:
    """Returns the graph in which Relu is the activation of the operator before it.  Conditions:

    1. Input and output of Relu have the same type, so that Relu is nothing but a clamp.
    2. Relu is the only reader of its input, which is not an output of the graph.  Reshapes that
       only add or drop axes of extent 1 may come between, as after convolutions of one axis, if
       each is the only reader of its input, too.
    3. The operator that computes the input has an `activation`, and it is NONE, or, of real
       numbers, it has `limits`.

    The last of the fused nodes keeps the name of Relu's output.  What is clamped before a reshape
    gets a name of its own: goldens know the value under the old name before the clamp.
    """
    producers, consumers = graph.producers(), graph.consumers()
    outputs = {value.name for value in graph.results}
    fused: dict[str, Node] = {}

    def makers(value: Value) -> Iterator[Node]:
        """The nodes before Relu, last first: reshapes, and the first other node."""
        maker = producers.get(value.name)
        while maker is not None and len(consumers[maker.output.name]) == 1:
            if maker.output.name in outputs:
                return
            yield maker
            if not keeps_extents(maker):
                return
            maker = producers.get(maker.inputs[0].name)

    gone: set[str] = set()
    for node in graph.nodes:
        *reshapes, maker = (*makers(node.inputs[0]),) or (node,)
        op = clamped(maker.op, node.op)
        if op is None or maker is node or node.inputs[0].type != node.output.type:
            continue
        if maker.name in gone:  # a clamp itself: in the next round
            continue
        gone.add(node.name)
        output = node.output
        for reshape in reshapes:
            before = replace(reshape.inputs[0], name=f"{reshape.inputs[0].name}/clamped")
            fused[reshape.name] = replace(reshape, inputs=(before,), output=output)
            output = before
        fused[maker.name] = replace(maker, op=op, output=output)
    kept = (fused.get(node.name, node) for node in graph.nodes if node.name not in gone)
    return fuse_activation(graph.with_nodes(tuple(kept))) if gone else graph


def clamped(maker: Op, clamp: Op) -> Op | None:
    """Return an operator with a clamp of its results; None if it takes none, or there is none."""
    fused: Any = maker
    names = {f.name for f in fields(fused)} if is_dataclass(maker) else set[str]()
    if isinstance(clamp, PlainRelu) and "limits" in names:
        return replace(fused, limits=fused.limits.then(clamp.limits))
    if isinstance(clamp, Relu) and "activation" in names and fused.activation is Activation.NONE:
        return replace(fused, activation=clamp.activation)
    return None
