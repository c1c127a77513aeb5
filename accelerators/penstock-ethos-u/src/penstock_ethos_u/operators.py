"""operators: conversion of TFLite operators to operations of the NPU. An `Offloaded` is an operator
of the network that the NPU runs.

Tensors that only the NPU accesses are stored in blocks of 16 channels (`penstock.uma.packed`), so
that each row has layout NHCWB16. Tensors that the processor or the application accesses are in
NHWC. The NPU supports both.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from penstock.uma import DType, Offloaded, row_count
from penstock_ethos_u.configurations import (
    EthosUConfiguration,
    MapShape,
    check_cache_line,
    check_layout,
    configuration,
    on_board,
)
from penstock_ethos_u.operation import (
    NpuFunction,
    Operation,
    SecondInput,
    fastest_lookup,
)
from penstock_ethos_u.tiles import MOST_SCATTERED_ROWS

LARGEST_EXTENT = 65536
LARGEST_DILATION = 2
# Operators that the NPU computes as convolutions with weights.
WEIGHTED = {
    "Conv2D": NpuFunction.CONVOLUTION,
    "FullyConnected": NpuFunction.CONVOLUTION,
    "TransposeConv": NpuFunction.CONVOLUTION,
    "DepthwiseConv2D": NpuFunction.DEPTHWISE,
    "Mean": NpuFunction.DEPTHWISE,
    "Sum": NpuFunction.DEPTHWISE,
}
# Operators that the NPU computes as depthwise convolutions whose weights are all 1.
REDUCTIONS = ("Mean", "Sum")
UNSIGNED_AVERAGE = "UnsignedAveragePool2D"  # Halves are rounded up: away from an element of -128.
POOLS = {
    "MaxPool2D": NpuFunction.MAXIMUM,
    "AveragePool2D": NpuFunction.AVERAGE,
    UNSIGNED_AVERAGE: NpuFunction.AVERAGE,
}
ELEMENTWISE = {
    "Add": NpuFunction.ADD,
    "Sub": NpuFunction.SUBTRACT,
    "Mul": NpuFunction.MULTIPLY,
    "Maximum": NpuFunction.LARGER,
    "Minimum": NpuFunction.SMALLER,
}
# Operators that only move elements. The NPU copies boxes of their inputs.
MOVEMENTS = (
    "Concatenation", "Slice", "Pad", "MirrorPad", "Tile", "Gather", "Transpose", "ResizeNearest",
    "DepthToSpace", "SpaceToDepth", "BatchToSpace", "SpaceToBatch",
)  # fmt: skip
# Other operators that several operations compute.
PRELU, RESIZE, SOFTMAX = "Prelu", "ResizeBilinear", "Softmax"
EXTREMES = ("ReduceMax", "ReduceMin")
ARG_MAX, MATRIX_PRODUCT, SQUARE = "ArgMax", "BatchMatmul", "SquaredDifference"
COMPOSED = (*MOVEMENTS, PRELU, RESIZE, SOFTMAX, *EXTREMES, ARG_MAX, MATRIX_PRODUCT, SQUARE)
# Element-wise functions, computed by look-up tables. The tables are those of the operators, so the
# results are exact for all `Numerics`.
SHIFT = "ShiftZero"  # From int8 to uint8, or back.
LOOKUPS = (
    "Relu", "Logistic", "Tanh", "HardSwish", "LeakyRelu", "Quantize", "Abs", "Exp", "Log", "Sqrt",
    "Rsqrt", "Elu", "Gelu", "RealFunction", "Tabulated", "ElementTable", SHIFT,
)  # fmt: skip


def hardware(offloaded: Offloaded) -> EthosUConfiguration:
    """Return the hardware configuration that the attributes of the target select, on its board."""
    attrs = offloaded.target.attrs
    check_layout(attrs["layout"])
    check_cache_line(attrs["cache_line"])
    family = "ethos-u" + offloaded.target.name.removeprefix("ethos_u")[:2]
    found = configuration(family, int(attrs.get("macs", 256)), str(attrs["memory_mode"]))
    chip = offloaded.target.chip
    bandwidth = chip.engines[0].bandwidth_bytes_per_cycle
    return on_board(found, chip.memory_for("arena"), chip.memory_for("constant"), bandwidth)


def plain_operation(offloaded: Offloaded) -> Operation:
    """Return the NPU operation that computes an offloaded operator, with default choices for its
    weights: a single segment holds all constants, and the weights are ordered depth first (one tap
    of many channels at a time)."""
    kind = offloaded.main.kind
    if kind in LOOKUPS:
        found = _same_shape(offloaded, NpuFunction.LOOKUP)
    elif kind in COMPOSED:
        found = _same_shape(offloaded, NpuFunction.COPY)
    elif kind in ELEMENTWISE:
        found = _elementwise(offloaded)
    else:
        found = _window(offloaded)
    first, _ = operands(offloaded)
    packed_out = offloaded.output.layout is not None
    found = replace(found, packed_in=is_packed(offloaded, first), packed_out=packed_out)
    if found.function is NpuFunction.LOOKUP:
        return fastest_lookup(found)
    if not found.weighted:
        return found
    unsigned_in = offloaded.inputs[offloaded.input_index(first)].dtype is DType.UINT8
    return replace(found, unsigned_in=unsigned_in, unsigned_out=is_unsigned(offloaded))


def _same_shape(offloaded: Offloaded, function: NpuFunction) -> Operation:
    """An operation that computes `function`, a look-up or a copy, element by element. Its
    windows have one element, and its input has the shape of the output."""
    height, width, depth = _image(offloaded)
    return Operation(hardware(offloaded), function, height, width, depth, height, width, depth)


def _window(offloaded: Offloaded) -> Operation:
    # A dense layer of a single row becomes a convolution whose window is the whole input; of
    # several rows, or if its input is one pixel, one whose window is an element.
    p, kind = dict(offloaded.parameters), offloaded.main.kind
    if kind == "FullyConnected":
        height, width, p["in_c"] = dense_input(offloaded)
        p |= {"in_h": height, "in_w": width}
        if offloaded.main.output.type.elements == p["out_c"]:
            p |= {"kernel_h": height, "kernel_w": width, "out_h": 1, "out_w": 1}
        else:
            p |= {"kernel_h": 1, "kernel_w": 1, "out_h": height, "out_w": width}
    if kind in REDUCTIONS:
        p["in_h"], p["in_w"], _ = extents(offloaded.main.inputs[0].type.shape)
        p["kernel_h"], p["kernel_w"], _ = reduced_extents(offloaded)
        p |= {f"out_{axis}": p[f"in_{axis}"] // p[f"kernel_{axis}"] for axis in "hw"}
        p["out_c"] = p["in_c"] // p["span_c"]
    if kind == "TransposeConv":
        p |= _transposed(p)
    for axis in "hw" if kind not in POOLS else "":
        gap, dilation = taps(p, axis)
        p |= {f"dilation_{axis}": dilation}
        p |= {f"kernel_{axis}": (p.get(f"kernel_{axis}", 1) - 1) * gap + 1}
    if kind == UNSIGNED_AVERAGE:
        p |= {"in_zero": -128, "out_zero": -128}
    function = (WEIGHTED | POOLS)[kind]
    if function is NpuFunction.DEPTHWISE and (p["in_c"] == 1 or p["out_c"] != p["in_c"]):
        function = NpuFunction.CONVOLUTION  # an output channel has another input channel, or all
    return Operation(
        hardware(offloaded),
        function,
        p["in_h"],
        p["in_w"],
        p["in_c"],
        p["out_h"],
        p["out_w"],
        p["out_c"],
        p.get("kernel_h", 1),
        p.get("kernel_w", 1),
        p.get("stride_h", 1) if p["out_h"] > 1 else 1,
        p.get("stride_w", 1) if p["out_w"] > 1 else 1,
        p.get("dilation_h", 1),
        p.get("dilation_w", 1),
        p.get("pad_top", 0),
        p.get("pad_left", 0),
        p.get("in_zero", 0),
        p.get("out_zero", 0),
        p.get("least", -128),
        p.get("most", 127),
        upscale=p.get("upscale", 1),
    )


def dense_input(offloaded: Offloaded) -> MapShape:
    """Return rows, columns and channels of the input of a dense layer as the NPU reads it: of a
    layer with a single row of outputs, whose input is contiguous, as one pixel."""
    x = offloaded.main.inputs[0].type
    shape, out = extents(x.shape), offloaded.main.output.type
    is_whole = shape.height == 1 or shape.height > MOST_SCATTERED_ROWS  # see `by_rows`
    is_one = out.elements == out.shape[-1] and x.elements <= LARGEST_EXTENT
    return (
        MapShape(1, 1, x.elements) if is_one and is_whole and not is_packed(offloaded, 0) else shape
    )


def taps(p: Mapping[str, int], axis: str) -> tuple[int, int]:
    """Return the distance between weights, between which there are zeros, and the dilation of all
    these along an axis, "h" or "w". Together they are the dilation of the operator, of which the
    NPU has only the least two.

    p: parameters of the operator by name."""
    dilation = p.get(f"dilation_{axis}", 1) if p.get(f"kernel_{axis}", 1) > 1 else 1
    own = LARGEST_DILATION if dilation % LARGEST_DILATION == 0 else 1
    return dilation // own, own


def _transposed(p: Mapping[str, int]) -> dict[str, int]:
    """The parameters, by name, with which an ordinary convolution computes a transposed
    convolution. Parameters that are the same for both are omitted."""
    # The ordinary convolution reads an upscaled input: zeros are inserted after each row and
    # column.
    return {
        "upscale": max(transposed_strides(p), default=1),
        "stride_h": 1,
        "stride_w": 1,
        "pad_top": p["kernel_h"] - 1 - p["pad_top"],
        "pad_left": p["kernel_w"] - 1 - p["pad_left"],
    }


def transposed_strides(p: Mapping[str, int]) -> set[int]:
    """Return the set of the strides of a transposed convolution in rows and columns: {2} for 2 x 2.
    An axis is ignored if input, window and output have one element along it.

    p: parameters of the transposed convolution by name, such as "stride_h"."""
    sides = ("in", "kernel", "out")
    return {p[f"stride_{axis}"] for axis in "hw" if any(p[f"{side}_{axis}"] > 1 for side in sides)}


def _elementwise(offloaded: Offloaded) -> Operation:
    p, function = offloaded.parameters, ELEMENTWISE[offloaded.main.kind]
    first, second = operands(offloaded)
    other = offloaded.main.inputs[second]
    rank = offloaded.main.output.type.rank
    constant, elements = other.data is not None, other.type.elements
    number = constant and elements == 1
    height, width, depth = _image(offloaded)
    return Operation(
        hardware(offloaded),
        function,
        height,
        width,
        depth,
        height,
        width,
        depth,
        in_zero=p.get(f"zero{first}", 0),
        out_zero=p.get("out_zero", 0),
        least=p.get("least", -128),
        most=p.get("most", 127),
        second=SecondInput(
            extents((1,) * (rank - other.type.rank) + other.type.shape),
            p.get(f"zero{second}", 0),
            is_packed(offloaded, second),
            int(offloaded.constant(second).ravel()[0]) if number else None,
            is_left=second == 0,
        ),
        multiplier0=p.get(f"multiplier{first}", 0),
        shift0=p.get(f"shift{first}", 0),
        multiplier1=p.get(f"multiplier{second}", 0),
        shift1=p.get(f"shift{second}", 0),
        out_multiplier=p.get("out_multiplier", 0),
        out_shift=p.get("out_shift", 0),
        constant_bytes=elements if constant and not number else 0,
    )


def operands(offloaded: Offloaded) -> tuple[int, int]:
    """Return (first, second): the indices of the operator's inputs that become the first and the
    second input of the NPU operation.

    For element-wise operators with two inputs, the result is (0, 1), or (1, 0) if the inputs must
    be exchanged: only the second input of the NPU may be smaller than the output, and it should be
    the constant one. For other operators, the result is (0, 0); its second element has no
    meaning."""
    if offloaded.main.kind not in (*ELEMENTWISE, SQUARE):
        return 0, 0
    left, right = offloaded.main.inputs
    whole = offloaded.main.output.type.shape
    if left.type.shape == right.type.shape:
        return (1, 0) if left.data is not None else (0, 1)
    return (1, 0) if right.type.shape == whole else (0, 1)


def _image(offloaded: Offloaded) -> MapShape:
    return extents(offloaded.main.output.type.shape)


def reduced_extents(offloaded: Offloaded) -> MapShape:
    """Return the rows, columns and channels of the input to an element of a mean or sum."""
    p = offloaded.parameters
    if offloaded.main.inputs[0].type.rank == 2:  # its parameters count rows as columns
        return MapShape(p["span_w"], 1, p["span_c"])
    return MapShape(p["span_h"], p["span_w"], p["span_c"])


def extents(shape: tuple[int, ...]) -> MapShape:
    """Return rows, columns and channels of a tensor, with all axes before the columns flattened
    into rows. A tensor of rank 1 or 2 has one column.

    >>> [tuple(extents(shape)) for shape in ((1, 6, 5, 4), (6, 5, 4), (6, 4), (4,))]
    [(6, 5, 4), (6, 5, 4), (6, 1, 4), (1, 1, 4)]
    """
    *before, channels = shape
    width = before[-1] if len(before) > 1 else 1
    return MapShape(row_count(shape), width, channels)


def is_unsigned(offloaded: Offloaded) -> bool:
    """Return whether the elements that the operator computes are shifted to uint8."""
    return offloaded.output.dtype is DType.UINT8


def is_packed(offloaded: Offloaded, k: int) -> bool:
    """Return whether the operator's input with index `k` has layout NHCWB16 instead of NHWC."""
    return offloaded.inputs[offloaded.input_index(k)].layout is not None
