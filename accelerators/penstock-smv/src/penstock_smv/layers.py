"""layers: the loop nest of a call, which a tiler splits into tiles, with the engine's constraints
on the sizes of tiles."""

from __future__ import annotations

from dataclasses import replace

from penstock.uma import (
    INPUT,
    WEIGHTS,
    Dimension,
    Layer,
    LayerOperand,
    Node,
    Offloaded,
    flattened,
    layer_of,
)

SCALE_BYTES = 9
"""Bytes per output channel: 4 for the bias, 4 for the multiplier, 1 for the shift."""
TABLE_ENTRIES = 256
"""The number of entries of the table that defines a unary operator, one per int8 value."""
WEIGHTED = ("Conv2D", "DepthwiseConv2D", "FullyConnected")
"""Kinds of operators with weights, and with a bias, multiplier and shift per output channel."""
BATCH_NORM = "batch_norm"
"""The pattern of a product and a sum with constants per channel."""
ELEMENTWISE = ("Add", "Sub", "Mul")
"""Kinds of operators that combine two tensors, or a tensor and a constant per channel."""
UNARY = (
    "Abs",
    "Elu",
    "Exp",
    "Gelu",
    "HardSwish",
    "LeakyRelu",
    "Logistic",
    "RealFunction",
    "Relu",
    "Rsqrt",
    "Tabulated",
    "Tanh",
)
"""Kinds of operators that a table of 256 entries defines."""


def layer_of_call(offloaded: Offloaded, rows: int | None, *, flat: bool) -> Layer:
    """Return the loop nest of a call that computes `rows` consecutive output rows.

    The loop nest is valid for any position of these rows in the output.  If `rows` is None, the
    call computes the whole output.

    flat: whether the loop nest of a unary or element-wise operator on tensors of one shape is a
        single loop over all elements, as in SMAUG.  Otherwise, the nest has an axis for each
        dimension of the output.

    Properties of the engine determine the loop nest:

    - A tile has all output channels, or a multiple of the number of processing elements.  If the
      layer sums over input channels, a tile has all of them, or a multiple of the number of
      multipliers in a processing element.
    - The operand of biases also holds multipliers and shifts: 4 + 4 + 1 bytes per channel.
    - The input of a fully connected layer has shape (N, C).
    - The second operand of an element-wise operator is in the scratchpad of weights.  Constants per
      channel have shape (1, C); the factors and offsets of a batch normalisation, (2, C).
    - A unary operator has an additional operand, its table."""
    layer = offloaded.layer(rows)
    kind, n = offloaded.main.kind, int(offloaded.target.attrs["processing_elements"])
    if kind == "FullyConnected":
        layer = _matrix_product(offloaded.main)
        layer = layer if rows is None else layer.stripe("n", rows)
    elif kind in ELEMENTWISE:
        layer = _with_second_operand(offloaded, layer)
    elif kind in UNARY:
        table = LayerOperand("table", WEIGHTS, (Dimension(TABLE_ENTRIES),))
        layer = replace(layer, inputs=(*layer.inputs, table))
    row = flattened(layer) if flat else None
    if row is not None:
        return row.with_axis(row.axes[0].name, lanes=n)
    layer = layer.with_axis("c", least=n, step=n, lanes=n)
    if kind not in WEIGHTED:
        return layer
    if layer.reduced:
        summed = int(offloaded.target.attrs["multipliers"])
        layer = layer.with_axis("sum", least=summed, step=summed, lanes=summed)
    x, w, scale = layer.inputs
    return replace(layer, inputs=(x, w, replace(scale, element_bytes=SCALE_BYTES)))


def has_weights(layer: Layer) -> bool:
    """Return whether an operator has weights and biases: whether it is a convolution or a fully
    connected layer.

    layer: the loop nest of the operator, a result of `layer_of_call`."""
    return any(operand.element_bytes == SCALE_BYTES for operand in layer.inputs)


def constant_input(node: Node) -> int | None:
    """Return the index of the constant input of an element-wise node; None if there is none."""
    return next((k for k, value in enumerate(node.inputs) if value.data is not None), None)


def _with_second_operand(offloaded: Offloaded, layer: Layer) -> Layer:
    """Return an element-wise layer whose second operand is in the scratchpad of weights.

    If one input of the operator is a constant, the constant becomes the second operand."""
    constant = constant_input(offloaded.main)
    if constant is None:
        x, other = layer.inputs
        return replace(layer, inputs=(x, replace(other, role=WEIGHTS)))
    channels = layer.output.dimensions[-1]
    count = len(offloaded.composite.nodes)
    second = LayerOperand("constants", WEIGHTS, (Dimension(count), channels))
    return replace(layer, inputs=(replace(layer.inputs[1 - constant], role=INPUT), second))


def _matrix_product(node: Node) -> Layer:
    """Return the loop nest of a fully connected node, with its input reshaped to (N, C)."""
    x, w, bias = node.site.inputs
    flat = replace(x, shape=(node.output.type.shape[0], w.shape[1]))
    return layer_of(node.op, replace(node.site, inputs=(flat, w, bias)), node.name)
