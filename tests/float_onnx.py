"""A graph as a float ONNX model: the same layers in real numbers, without quantisation."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from penstock.ir.graph import Graph, Node, Value
from penstock.ir.tensor import Array
from penstock.opkit.activation import Activation
from penstock.opkit.sliding import Window
from penstock.ops.concatenation import Concatenation
from penstock.ops.convolutions import Conv2D, DepthwiseConv2D
from penstock.ops.pool import AveragePool2D, MaxPool2D
from tools.onnx_writer import Model

CHANNELS_FIRST = (0, 3, 1, 2)


def float_model(graph: Graph) -> bytes:
    """A convolutional network with one input; images have their channels first, as in ONNX."""
    model = Model(quantised=False)
    (x,) = graph.inputs
    names = {x.name: model.input(*(x.type.shape[k] for k in CHANNELS_FIRST), name="image")}
    for node in graph.nodes:
        names[node.name] = _activated(model, node, _LAYERS[node.kind](model, node, names))
    return model.raw(*(names[y.name] for y in graph.outputs))


Names = Mapping[str, str]


def _reals(value: Value) -> Array:
    """The numbers that a constant stands for."""
    assert value.data is not None
    assert value.type.quantisation is not None
    q, elements = value.type.quantisation, value.data.array(value.type)
    shape = [1] * elements.ndim
    shape[q.axis or 0] = len(q.scales)
    return (elements * np.reshape(q.scales, shape)).astype(np.float32)


def _window(rows: Window, columns: Window) -> dict[str, list[int]]:
    ends = (rows.before, columns.before, rows.after, columns.after)
    return {"strides": [rows.stride, columns.stride], "pads": list(ends)}


def _conv(model: Model, node: Node, names: Names) -> str:
    x, w, b = node.inputs
    assert isinstance(node.op, Conv2D | DepthwiseConv2D)
    depthwise = isinstance(node.op, DepthwiseConv2D)
    weights = _reals(w).transpose((3, 0, 1, 2) if depthwise else CHANNELS_FIRST)
    parts = (names[x.name], model.constant(weights), model.constant(_reals(b)))
    groups = x.type.shape[3] if depthwise else x.type.shape[3] // w.type.shape[3]
    return model.node("Conv", *parts, group=groups, **_window(node.op.rows, node.op.columns))


def _pool(model: Model, node: Node, names: Names) -> str:
    assert isinstance(node.op, MaxPool2D | AveragePool2D)
    rows, columns = node.op.rows, node.op.columns
    kind = "MaxPool" if isinstance(node.op, MaxPool2D) else "AveragePool"
    size = [rows.size, columns.size]
    return model.node(kind, names[node.inputs[0].name], kernel_shape=size, **_window(rows, columns))


def _concat(model: Model, node: Node, names: Names) -> str:
    assert isinstance(node.op, Concatenation)
    axis = CHANNELS_FIRST.index(node.op.axis)
    return model.node("Concat", *(names[value.name] for value in node.inputs), axis=axis)


def _dense(model: Model, node: Node, names: Names) -> str:
    """Of one pixel: the order of the axes does not matter."""
    x, w, b = node.inputs
    flat = model.node("Flatten", names[x.name])
    return model.node("Gemm", flat, model.constant(_reals(w)), model.constant(_reals(b)), transB=1)


def _of_its_inputs(kind: str) -> Callable[[Model, Node, Names], str]:
    def layer(model: Model, node: Node, names: Names) -> str:
        return model.node(kind, *(names[value.name] for value in node.inputs))

    return layer


_LAYERS: Mapping[str, Callable[[Model, Node, Names], str]] = {
    "Conv2D": _conv,
    "DepthwiseConv2D": _conv,
    "MaxPool2D": _pool,
    "AveragePool2D": _pool,
    "Concatenation": _concat,
    "FullyConnected": _dense,
    "Add": _of_its_inputs("Add"),
    "Softmax": _of_its_inputs("Softmax"),
    "Reshape": _of_its_inputs("Flatten"),
}


def _activated(model: Model, node: Node, name: str) -> str:
    activation = getattr(node.op, "activation", Activation.NONE)
    if activation is Activation.NONE:
        return name
    if activation is Activation.RELU:
        return model.node("Relu", name)
    lower, upper = (model.constant(np.array(end, np.float32)) for end in activation.value)
    return model.node("Clip", name, lower, upper)
