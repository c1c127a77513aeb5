"""smv: SMAUG's engine, with eight processing elements of 32 multipliers each and three scratchpads.

A layer is split into tiles that fit the scratchpads (`tiling.py`).  The commands of a call load,
compute and store tiles (`kernels.py`, `elementwise.py`, `copies.py`).  They call driver functions
(`operations.py`, `models.py`, smv.h).  The cost of a call is the sum over its
tiles (`cost.py`).

The accelerator has these attributes:

    input_bytes, weights_bytes, output_bytes    sizes of the scratchpads
    processing_elements the number of output channels that are computed at once
    multipliers         the number of input channels that a processing element sums at once
    bytes_per_cycle     the bandwidth of copies between memory and scratchpads
    tiler               how tile sizes are chosen: least_traffic for the fewest bytes copied, or
                        smaug for SMAUG's rule
    double_buffering    copies of tiles overlap with computation, and tiles take twice the space
    engines             the number of engines, 1 to 8, that share the rows of each layer, or images

Source: SMAUG's SMV backend (https://github.com/harvard-acc/smaug), which stores fp16 and adds
fp32.  This version does so in convolutions and fully connected layers of networks whose real
numbers are float16 (`--float16`), and runs all operators in int8 with TFLite's arithmetic.  It also
runs what SMAUG's engine does not: depthwise convolutions, of which each processing element computes
one channel, convolutions with groups of channels, differences, extremes, and products of stacked
matrices.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from penstock.uma import (
    AcceleratorTarget,
    Array,
    Compute,
    DType,
    ElementTypes,
    Offloaded,
    OpStrategy,
    TileSequencer,
    UMABackend,
    UsageError,
    double_rounding,
    is_constant,
    is_op,
    is_tuple,
    wildcard,
)
from penstock_smv import elementwise, kernels
from penstock_smv.cost import cycles, traffic
from penstock_smv.tiling import (
    BATCH_NORM,
    COPIES,
    ELEMENTWISE,
    HALVES,
    MULTIPLIERS,
    PROCESSING_ELEMENTS,
    TILERS,
    UNARY,
    constant_input,
    engine_count,
    scratchpads,
    why_no_tile,
)

MOST_ENGINES = 8
"""The largest number of engines.  Source: SMAUG (maxNumAccelerators)."""
SCRATCHPAD_BYTES = 32 * 1024
"""The default size of each scratchpad.  Source: SMAUG, SMV backend."""

HALF_LAYERS = {"half_conv2d": "nn.conv2d", "half_dense": "nn.dense"}
"""Patterns of float16 layers, which compute in float32: the layer, between two conversions."""
RELATIONS = ("less", "less_equal", "equal", "not_equal", "greater", "greater_equal")
BINARY = ("add", "subtract", "multiply", "maximum", "minimum", *RELATIONS)
"""Operators that combine two tensors, or a tensor and constants per channel."""
KERNELS: Mapping[str, Compute] = {
    "nn.conv2d": kernels.conv2d,
    "nn.depthwise_conv2d": kernels.depthwise_conv2d,
    "nn.dense": kernels.fully_connected,
    "nn.max_pool2d": kernels.max_pool2d,
    "nn.avg_pool2d": kernels.average_pool2d,
    BATCH_NORM: elementwise.batch_norm,
    "add": elementwise.add,
    "subtract": elementwise.add,
    "multiply": elementwise.mul,
    "maximum": elementwise.extreme,
    "minimum": elementwise.extreme,
    **dict.fromkeys(RELATIONS, elementwise.compare),
    "nn.softmax": elementwise.softmax,
    "nn.batch_matmul": kernels.matmul,
    "concatenate": kernels.concatenate,
    **dict.fromkeys(UNARY, elementwise.lookup),
    **dict.fromkeys(HALF_LAYERS, kernels.half_layer),
}
"""The kernel of each operator or pattern."""
BOOLEAN = ElementTypes((DType.INT8,), DType.BOOL)
"""The element types of a comparison."""
HALF = ElementTypes((DType.FLOAT16, DType.FLOAT32, DType.FLOAT32), DType.FLOAT16)
"""The element types of a float16 layer."""
WHOLE = ("nn.dense", "half_dense")
"""Operators whose kernel computes the whole output in one call, not row by row."""


class Smv(UMABackend):
    """Backend of smv: convolutions, depthwise convolutions, fully connected layers, products of
    matrices, pooling, functions of two tensors such as sums and comparisons, batch normalisation,
    softmax and unary operators."""

    def __init__(self) -> None:
        super().__init__()
        for role in ("input", "weights", "output"):
            self._register_target_attr(f"{role}_bytes", default=SCRATCHPAD_BYTES, least=1)
        self._register_target_attr("processing_elements", default=PROCESSING_ELEMENTS, least=1)
        self._register_target_attr("multipliers", default=MULTIPLIERS, least=1)
        self._register_target_attr("bytes_per_cycle", default=COPIES.bytes_per_cycle, least=1)
        self._register_target_attr("tiler", default="least_traffic")
        self._register_target_attr("double_buffering", default=False)
        counts = {n: f"{n} engines share the rows of a layer" for n in range(1, MOST_ENGINES + 1)}
        self._register_target_attr("engines", default=1, least=1, most=MOST_ENGINES, choices=counts)
        layers, pools = ("nn.conv2d", "nn.dense", "nn.depthwise_conv2d"), ("max", "avg")
        for name, op in HALF_LAYERS.items():
            layer = is_op(op)(is_op("cast")(wildcard()), is_constant(), is_constant())
            self._register_pattern(name, is_op("cast")(layer))
        for op in layers:
            self._register_pattern(op, is_op(op)(wildcard(), is_constant(), is_constant()))
        for kind in pools:
            self._register_pattern(f"{kind}_pool2d", is_op(f"nn.{kind}_pool2d")(wildcard()))
        product = is_op("multiply")(wildcard(), is_constant())
        self._register_pattern(BATCH_NORM, is_op("add")(product, is_constant()))
        self._register_pattern("concatenate", is_op("concatenate")(is_tuple()))
        for op in (*BINARY, "nn.batch_matmul"):
            self._register_pattern(op, is_op(op)(wildcard(), wildcard()))
        for op in (*UNARY, "nn.softmax"):
            self._register_pattern(op, is_op(op)(wildcard()))
        for rule in (
            dense_pools,
            plain_products,
            joined_rows,
            images_or_rows,
            double_rounding,
            second_operands,
            whole_channels,
            tiles_fit,
        ):
            self._register_constraint(rule)
        for op in KERNELS:
            self._register_operator_strategy(op, strategy_of(op))
        self._register_codegen(includes='#include "smv.h"', sources=sources)

    @property
    def target_name(self) -> str:
        """The name of the accelerator, "smv"."""
        return "smv"


def dense_pools(offloaded: Offloaded) -> bool | str:
    """The dilation of pooling must be 1 x 1.

    A constraint: returns True, or the reason for refusal.  Errors quote the sentence above."""
    if offloaded.main.kind not in ("MaxPool2D", "AveragePool2D"):
        return True
    dilations = offloaded.parameters["dilation_h"], offloaded.parameters["dilation_w"]
    return dilations == (1, 1) or f"it is {dilations[0]} x {dilations[1]}"


def plain_products(offloaded: Offloaded) -> bool | str:
    """Matrices must be in stacks of one shape, and their products have one multiplier.

    A constraint: returns True, or the reason for refusal.  Errors quote the sentence above."""
    if offloaded.main.kind != "BatchMatmul":
        return True
    if "multiplier" not in offloaded.parameters:
        return "multipliers are stated"
    a, b = (value.type.shape for value in offloaded.main.inputs)
    return a[:-2] == b[:-2] or f"one is broadcast: {list(a)}, {list(b)}"


def joined_rows(offloaded: Offloaded) -> bool | str:
    """Tensors must be computed, and joined along columns or channels.

    A constraint on concatenations: returns True, or the reason for refusal.  Errors quote the
    sentence above."""
    if offloaded.main.kind != "Concatenation":
        return True
    if any(value.data is not None for value in offloaded.main.inputs):
        return "one is constant"
    outer = -1 if len(offloaded.output.shape) == 2 else -2
    every = (*offloaded.main.inputs, offloaded.main.output)
    return len({value.type.shape[:outer] for value in every}) == 1 or "rows are joined"


def images_or_rows(offloaded: Offloaded) -> bool | str:
    """Tensors must have shape (N, H, W, C), (H, W, C) or (N, C).

    A constraint on the output: returns True, or the reason for refusal.  Messages quote the first
    sentence."""
    shape, rank = offloaded.output.shape, len(offloaded.output.shape)
    if offloaded.main.kind in ("FullyConnected", "PlainFullyConnected"):
        return rank == 2 or f"the output has shape {list(shape)}"
    return rank in (2, 3, 4) or f"one has shape {list(shape)}"


def whole_channels(offloaded: Offloaded) -> bool | str:
    """A float16 convolution must have one group.

    A constraint: returns True, or the reason for refusal.  Errors quote the sentence above."""
    groups = offloaded.parameters.get("groups", 1)
    return offloaded.main.kind not in HALVES or groups == 1 or f"it has {groups}"


def second_operands(offloaded: Offloaded) -> bool | str:
    """Inputs of a function of two tensors must have the shape of the output, or be one constant
    per channel, which must not be the first input of a difference.

    A constraint: returns True, or the reason for refusal.  Errors quote the sentence above."""
    if offloaded.main.kind not in ELEMENTWISE:
        return True
    shape = offloaded.output.shape
    for node in offloaded.composite.nodes:
        constant = constant_input(node)
        if constant == 0 and node.kind == "Sub":
            return "a constant is the first input of a difference"
        for k, value in enumerate(node.inputs):
            found = value.type.shape
            if k == constant:
                if value.type.elements != shape[-1] or found[-1:] != shape[-1:]:
                    return f"constant input {k} has shape {list(found)}"
            elif found != shape:
                return f"input {k} has shape {list(found)}"
    return True


def tiles_fit(offloaded: Offloaded) -> bool | str:
    """The tiler must find a tiling that fits the scratchpads.

    A constraint: returns True, or the tiler's reason for finding none.  Messages quote the first
    sentence.  Raises UsageError if the accelerator's attribute `tiler` does not name a tiler."""
    tiler = str(offloaded.target.attrs["tiler"])
    if tiler not in TILERS:
        raise UsageError(
            "usage-030",
            f'there is no tiler "{tiler}"',
            where="--accelerator smv:tiler=",
            help=f"use one of {', '.join(TILERS)}",
        )
    return why_no_tile(offloaded) or True


def strategy_of(op: str) -> Callable[..., OpStrategy]:
    """Return the strategy function of an operator.

    The compiler calls the returned function to learn which kernels can compute the operator.  That
    function returns an `OpStrategy` with a single kernel, `KERNELS[op]`.

    op: name of the operator or pattern, for example "nn.conv2d"."""

    def strategy(
        attrs: object, inputs: object, out_type: object, target: AcceleratorTarget
    ) -> OpStrategy:
        del attrs, inputs, out_type
        found = OpStrategy()
        compute = KERNELS[op]
        found.add_implementation(
            compute,
            name=f"smv_{compute.__name__}",
            cost=cycles,
            traffic=traffic,
            tables=half_weights if op in HALF_LAYERS else scales,
            folded=(1,) if op in HALF_LAYERS else (),
            element_types=HALF if op in HALF_LAYERS else BOOLEAN if op in RELATIONS else None,
            by_rows=op not in WHOLE and not may_be_sequenced(target, op),
            by_columns=not may_be_sequenced(target, op),
        )
        return found

    return strategy


def may_be_sequenced(target: AcceleratorTarget, op: str) -> bool:
    """Return whether the tiling of an operator may be a tile sequence.  If so, every call must
    compute the whole output, because a tile sequence is not divided into rows or columns.

    A `TileSequencer` is a tiler that returns tile sequences.  The result is True if one is
    registered for `op`.  It is also True if one is registered for a name that is not in `KERNELS`,
    because this may be another name of the operator, or the name of a pattern that contains it.

    op: name of the operator or pattern, for example "nn.conv2d"."""
    names = (name for name, tiler in target.tilers if isinstance(tiler, TileSequencer))
    return any(name == op or name not in KERNELS for name in names)


def scales(offloaded: Offloaded) -> Mapping[str, Array]:
    """Return the constant tables of an operator's kernel, by name.

    They are "multiplier" and "shift", which requantise each output channel, or the "table" of a
    unary operator.  The mapping is empty if the operator has no tables."""
    return offloaded.tables


def half_weights(offloaded: Offloaded) -> Mapping[str, Array]:
    """Return the weights of a float16 layer as float16, as the table "weights"."""
    return {"weights": offloaded.constant(1).astype("float16")}


def sources(target: AcceleratorTarget) -> Mapping[str, str]:
    """Return the contents, by file name, of the C files that the accelerator adds to the generated
    code: the driver's header and implementation, and a header with the sizes of the scratchpads."""
    here = Path(__file__).parent
    sizes = [
        f"#define SMV_{memory.name.upper()}_BYTES {memory.size_bytes}\n"
        for memory in scratchpads(target).scratchpads
    ]
    sizes.append(f"#define SMV_ENGINES {engine_count(target)}\n")
    guard = "SMV_SIZES_H"
    text = "".join((f"#ifndef {guard}\n#define {guard}\n\n", *sizes, "\n#endif\n"))
    comment = "/* smv_sizes.h: bytes of an engine's scratchpads, and the number of engines. */\n"
    files = {name: (here / name).read_text("utf-8") for name in ("smv.h", "smv.c")}
    return {"smv_sizes.h": comment + text, **files}
