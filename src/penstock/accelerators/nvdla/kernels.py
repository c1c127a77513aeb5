"""kernels: operators as tasks of NVDLA's core and of the extension.

Features lie in packs of channels, row by row (`penstock.uma.packed`): a surface is one pack of a
row, and lines are as far apart as rows.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import astuple

import numpy as np

from penstock.accelerators.nvdla.configurations import (
    FEATURE_BUFFER,
    Configuration,
    configuration,
)
from penstock.accelerators.nvdla.extension import Elementwise, WindowKind
from penstock.accelerators.nvdla.packing import pack_weights
from penstock.accelerators.nvdla.programs import BEGIN, FIRST, PLACES, RESULT, ROW, RUN, SECOND
from penstock.accelerators.nvdla.task import CONVOLUTION, NUMBERS, Task
from penstock.uma import (
    Array,
    Command,
    Expr,
    KernelCall,
    Loop,
    Offloaded,
    Operand,
    TensorType,
    Var,
    maximum,
    minimum,
    quantise_multiplier,
)

POOLS = {"MaxPool2D": WindowKind.LARGEST, "AveragePool2D": WindowKind.MEAN}
ELEMENTWISE = ("Add", "Sub", "Mul")
KINDS = {
    "Conv2D": CONVOLUTION,
    "FullyConnected": CONVOLUTION,
    "DepthwiseConv2D": WindowKind.DEPTHWISE,
    **POOLS,
}
"""By operator, the kind of its task."""
WEIGHTED = ("nn.conv2d", "nn.dense", "nn.depthwise_conv2d")
TABLED = (*WEIGHTED, "clip", "multiply", "mean")
"""Those that may need a table of biases, multipliers and shifts."""
OPERATORS = (*TABLED, "nn.max_pool2d", "nn.avg_pool2d", "add", "subtract", "concatenate")


def hardware(offloaded: Offloaded) -> Configuration:
    """The configuration that the user chose, with the extension."""
    return configuration(str(offloaded.target.attrs["config"])).extended(0, 0)


def tasks(offloaded: Offloaded) -> tuple[tuple[Task, tuple[int, ...]], ...]:
    """What the main operator is on the hardware, one task after the other; and which of its inputs
    are the first tensor of each, and the second."""
    if offloaded.main.kind == "Concatenation":
        number = NUMBERS.index(hardware(offloaded).name)
        shapes = (value.type.shape for value in offloaded.main.inputs)
        return tuple((_copy(number, shape), (k,)) for k, shape in enumerate(shapes))
    t = task(offloaded)
    if t.elementwise:
        return ((t, (0, 1)),)
    return ((t, (1 if constant_factor(offloaded) == 0 else 0,)),)


def task(offloaded: Offloaded) -> Task:
    """What the main operator is on the hardware; a dense layer is a convolution of one point."""
    p, kind = dict(offloaded.parameters), offloaded.main.kind
    number = NUMBERS.index(hardware(offloaded).name)
    if kind == "Relu":
        return _clamped(number, offloaded)
    if constant_factor(offloaded) is not None:
        return _scaled(number, p, offloaded.main.output.type.shape)
    if kind == "Mean":
        return _averaged(number, p, offloaded.main.inputs[0].type.shape)
    if kind in ELEMENTWISE:
        return _elementwise(number, p, offloaded.main.output.type.shape)
    if kind == "FullyConnected":
        p |= {"in_h": 1, "in_w": 1, "out_h": 1, "out_w": 1}
    known = {name: p[name] for name in Task.__dataclass_fields__ if name in p}
    return Task(number, KINDS[kind], **known, requantise=int(kind not in POOLS))


def _copy(number: int, shape: tuple[int, ...]) -> Task:
    """A tensor as it is: elements pass under a window of one."""
    _, h, w, c = shape
    return Task(number, WindowKind.LARGEST, *(w, h, c) * 2)


def _clamped(number: int, offloaded: Offloaded) -> Task:
    """A clamp with requantisation: elements pass under a window of one, as sums of their own."""
    y = offloaded.main.output.type
    _, h, w, c = y.shape
    outputs = offloaded.tables["table"]
    return Task(
        number,
        WindowKind.LARGEST,
        *(w, h, c) * 2,
        requantise=1,
        out_zero=y.zero_point,
        least=int(outputs.min()),
        most=int(outputs.max()),
    )


def constant_factor(offloaded: Offloaded) -> int | None:
    """Which input of a product is constant: one number, or one for each channel."""
    if offloaded.main.kind != "Mul":
        return None
    channels = offloaded.main.output.type.shape[-1]
    for k, value in enumerate(offloaded.main.inputs):
        by_channel = value.type.shape[-1:] == (channels,) and value.type.elements == channels
        if value.data is not None and (value.type.elements == 1 or by_channel):
            return k
    return None


def factors(offloaded: Offloaded, constant: int) -> Array:
    """A constant factor of each channel, as whole numbers without zero point."""
    value = offloaded.main.inputs[constant]
    found = offloaded.constant(constant).astype(np.int64).ravel() - value.type.zero_point
    return np.broadcast_to(found, offloaded.main.output.type.shape[-1:])


def _scaled(number: int, p: Mapping[str, int], shape: tuple[int, ...]) -> Task:
    """A product with constants: a depthwise convolution of one tap."""
    size = (shape[2], shape[1], shape[3])
    limits = {name: p[name] for name in ("out_zero", "least", "most")}
    return Task(number, WindowKind.DEPTHWISE, *size, *size, requantise=1, **limits)


def _averaged(number: int, p: Mapping[str, int], shape: tuple[int, ...]) -> Task:
    """A mean over an image: the sum of a depthwise window as large as it."""
    _, h, w, c = shape
    zero = p["out_zero"]
    return Task(number, WindowKind.DEPTHWISE, w, h, c, 1, 1, c, w, h, requantise=1, out_zero=zero)


def _elementwise(number: int, p: Mapping[str, int], shape: tuple[int, ...]) -> Task:
    """A sum, a difference or a product: the first tensor passes under a window of one element."""
    size = (shape[2], shape[1], shape[3])
    modes = {1: Elementwise.ADD, -1: Elementwise.SUBTRACT, 0: Elementwise.MULTIPLY}
    names = ("zero0", "multiplier0", "shift0", "zero1", "multiplier1", "shift1")
    return Task(
        number,
        WindowKind.LARGEST,
        *size,
        *size,
        elementwise=modes[p.get("sign1", 0)],
        **{name: p[name] for name in names if name in p},
        result_zero=p["out_zero"],
        out_multiplier=p["out_multiplier"],
        out_shift=p["out_shift"],
        result_least=p["least"],
        result_most=p["most"],
    )


def compute(call: KernelCall) -> Sequence[Command]:
    """For each task: what it is, where everything lies, which rows are wanted.  What it computes
    stands behind what those before it have computed, in every row."""
    commands: list[Command] = []
    behind_bytes = 0
    for t, read in tasks(call):
        lower = maximum(call.first * t.stride_h - t.pad_top, 0)
        upper = minimum((call.end - 1) * t.stride_h - t.pad_top + t.reach_h, t.in_h)
        rows = ((lower, upper), (call.first, call.end))
        result = _rows(call, RESULT, call.result, call.first, call.end, behind_bytes)
        commands += [
            call.invoke(BEGIN, *map(int, astuple(t))),
            *_places(call, t),
            *(
                _rows(call, tensor, call.operands[call.source(k)], *interval)
                for tensor, k, interval in zip((FIRST, SECOND), read, rows, strict=False)
            ),
            result,
            call.invoke(RUN, call.first, call.end),
        ]
        behind_bytes += t.out_row_bytes
    return commands


def _places(call: KernelCall, t: Task) -> Sequence[Command]:
    """Where tables lie, and working memory, if there is any."""
    tables = (call.table("weights"), call.table("post")) if t.requantise else ()
    scratch = () if call.scratch_buffer is None else (call.scratch,)
    return [call.invoke(PLACES, *tables, *scratch)] if tables or scratch else []


def gathered_bytes(reach: int, packs: TensorType) -> int:
    """Working memory for the rows of a window of so many that do not lie evenly apart."""
    return reach * math.prod(packs.shape[2:]) if reach > 1 else 0


def _rows(
    call: KernelCall,
    tensor: int,
    operand: Operand,
    lower: Expr,
    upper: Expr,
    offset_bytes: int = 0,
) -> Command:
    """Where rows of a tensor lie, from so many bytes behind their beginning."""
    row = Var("row")
    place = operand.row(row, offset_bytes)
    return Loop("row", lower, upper, 1, (call.invoke(ROW, tensor, row, place),))


def buffered(offloaded: Offloaded, read: tuple[int, ...]) -> frozenset[str]:
    """What of a task's traffic goes to or from the feature buffer, by where tensors live; `read`:
    see `tasks`."""
    if not offloaded.homes:
        return frozenset()
    *inputs, output = offloaded.homes
    homes = {"output": output}
    for name, k in zip(("features", "second"), read, strict=False):
        homes[name] = inputs[offloaded.source(k)]
    return frozenset(name for name, home in homes.items() if home == FEATURE_BUFFER)


def tables(offloaded: Offloaded) -> Mapping[str, Array]:
    """Weights in the hardware's order; bias, multiplier and shift of each channel."""
    if offloaded.main.kind == "Relu":
        x, y = offloaded.main.inputs[0].type, offloaded.main.output.type
        scale = quantise_multiplier(x.scale / y.scale)
        post = np.tile(np.array([-x.zero_point, *scale], np.int32), (y.shape[-1], 1))
        return {"weights": np.zeros(1, np.int8), "post": post}
    constant = constant_factor(offloaded)
    if constant is not None:
        return _scaling_tables(offloaded, constant)
    if offloaded.main.kind == "Mul":
        return {}
    if offloaded.main.kind == "Mean":
        return _averaging_tables(offloaded)
    weights = offloaded.constant(1)
    p, t = offloaded.parameters, offloaded.tables
    if offloaded.main.kind == "DepthwiseConv2D":
        packed, sums = weights.ravel(), weights.astype(np.int64).sum(axis=(0, 1, 2))
    else:
        kernels = weights.reshape((len(weights), 1, 1, -1)) if weights.ndim == 2 else weights
        packed = np.frombuffer(pack_weights(kernels, hardware(offloaded)), np.int8)
        sums = kernels.astype(np.int64).sum(axis=(1, 2, 3))
    bias = offloaded.constant(2) - p["in_zero"] * sums
    post = np.stack([bias, t["multiplier"], t["shift"]], axis=1)
    return {"weights": packed, "post": post.astype(np.int32)}


def _averaging_tables(offloaded: Offloaded) -> Mapping[str, Array]:
    """The tables of a mean: weights are one; the input's zero point, of all its elements, is a
    bias."""
    p, (_, h, w, c) = offloaded.parameters, offloaded.main.inputs[0].type.shape
    post = (-p["in_zero"] * h * w, p["multiplier"], p["shift"])
    return {
        "weights": np.ones(h * w * c, np.int8),
        "post": np.tile(np.array(post, np.int32), (c, 1)),
    }


def _scaling_tables(offloaded: Offloaded, constant: int) -> Mapping[str, Array]:
    """The tables of a product with constants."""
    p, weights = offloaded.parameters, factors(offloaded, constant)
    bias = -p[f"zero{1 - constant}"] * weights
    scale = np.broadcast_to([p["out_multiplier"], p["out_shift"]], (len(weights), 2))
    post = np.concatenate([bias[:, None], scale], axis=1)
    return {"weights": weights.astype(np.int8), "post": post.astype(np.int32)}
