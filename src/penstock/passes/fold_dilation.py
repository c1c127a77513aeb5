"""fold_dilation: a convolution between SpaceToBatch and BatchToSpace becomes a dilated one.

TensorFlow computes dilated convolutions so, those of series on views as images with one row.
SpaceToBatch and Pad of a series that such a view alone reads, and BatchToSpace of a series, become
those of the image first.  Conditions:

1. The blocks are the same, and the convolution has strides of 1 along axes with blocks.
2. Nothing else reads the tensors between the three operators.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from penstock.ir.graph import Graph, Node, Value, free_name
from penstock.ir.op import Op
from penstock.opkit.sliding import Window
from penstock.ops.conv2d import Conv2D
from penstock.ops.depthwise_conv2d import DepthwiseConv2D
from penstock.ops.pad import Pad
from penstock.ops.pixel_blocks import BatchToSpace, SpaceToBatch
from penstock.ops.reshape import Reshape
from penstock.passes.drop_dead import drop_dead


def fold_dilation(graph: Graph) -> Graph:
    """Returns the graph with dilated convolutions; `drop_dead` removes what they replace."""
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
        if x is not None and isinstance(node.op, BatchToSpace) and x.type.rank == 3:
            view = self._producer(x)
            axis = None if view is None else _unit_axis(view.inputs[0], x)
            if view is not None and isinstance(view.op, Reshape) and axis:
                op = _on_image(node.op, axis)
                image = self._value(node.output, axis)
                yield replace(node, op=op, inputs=view.inputs, output=image)
                yield replace(node, op=Reshape(node.output.type.shape), inputs=(image,))
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
        yield replace(node, op=Reshape(image.type.shape), inputs=(x,), output=image)
        for one in moved:
            output = node.output if one is moved[-1] else self._value(one.output, axis)
            yield replace(one, op=_on_image(one.op, axis), inputs=(image,), output=output)
            image = output

    def _value(self, series: Value, axis: int) -> Value:
        """A new value for a series as an image with a unit axis."""
        shape = series.type.shape
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
            and layer.output.type.quantisation == node.output.type.quantisation
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
    shape = series.type.shape
    found = (k for k in (1, 2) if image.type.shape == (*shape[:k], 1, *shape[k:]))
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
