"""Random ONNX models of integer elements and real numbers, mixed, in opsets 11 to 22.

Operators read quantised integers as integers (Pad, Clip, Concat, Cast, .. of int8 and uint8),
real numbers between DequantizeLinear and QuantizeLinear, or both (QLinear operators).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

import numpy as np

from benchmarks.torture.case import Case, Generator, target_of
from benchmarks.torture.onnx_growth import DOMAIN, OnnxGrowth, Tensor
from benchmarks.torture.onnx_judge import judge
from penstock.ir.tensor import Array

OPSETS = tuple(range(11, 23))
MOST_STEPS = 8
Step = Callable[[OnnxGrowth], None]


def draw(seed: int) -> Case | None:
    """The model of a seed."""
    random = Random(f"onnx grammar {seed}")
    g = OnnxGrowth(random, random.choice(OPSETS))
    _start(g)
    for _ in range(g.integer(1, MOST_STEPS)):
        g.one_of(*STEPS)(g)
    return ended(g, target_of(seed))


def ended(g: OnnxGrowth, target: str) -> Case | None:
    """The case of a grown model: unread tensors become outputs, real ones mostly quantised."""
    outputs: list[Tensor] = []
    for x in g.ends():
        if x.is_real and x.grid is None and g.chance(0.9):
            x = g.quantised(x)
        outputs.append(g.real(x) if x.is_integer and g.chance(0.4) else x)
    if g.chance(0.15):
        inner = [x for x in g.known if x not in g.inputs and x not in outputs]
        outputs += [g.one_of(*inner)] if inner else []
    return Case(g.raw(outputs), ".onnx", judge, target=target) if outputs else None


def _start(g: OnnxGrowth) -> None:
    for _ in range(g.one_of(1, 1, 1, 2)):
        shape = image_shape(g) if g.chance(0.7) else g.one_of((1, 6), (1, 3, 8), (2, 5), (1, 16))
        if g.chance(0.25):
            kind = g.one_of("int8", "uint8")
            limits = np.iinfo(kind)
            x = g.input(g.numbers.integers(limits.min, limits.max + 1, shape).astype(kind))
            g.real(x, (float(np.float32(0.02 * g.integer(1, 5))), g.integer(*_range(kind))))
        else:
            x = g.input(g.numbers.normal(0, 1, shape).astype(np.float32))
            dequantised(g, x)


def image_shape(g: OnnxGrowth) -> tuple[int, ...]:
    return (1, g.integer(1, 5), g.integer(2, 8), g.integer(2, 8))


def _range(kind: str) -> tuple[int, int]:
    limits = np.iinfo(kind)
    return int(limits.min), int(limits.max)


def dequantised(g: OnnxGrowth, x: Tensor) -> Tensor:
    """A real tensor that has passed QuantizeLinear and DequantizeLinear."""
    q = g.quantised(x)
    other = g.grid(x.elements, q.elements.dtype.name) if g.chance(0.04) else None
    return g.real(q, other)


def pick(g: OnnxGrowth, *ranks: int, real: bool | None = None) -> Tensor | None:
    """A known tensor, the latest more often; None if none is like that."""

    def fits(x: Tensor) -> bool:
        right = x.is_integer or (x.is_real and x.grid is not None)
        right = right and (real is None or x.is_real == real)
        return right and (not ranks or x.rank in ranks)

    every = [x for x in g.known if fits(x)]
    if not every:
        return None
    return every[-1] if g.chance(0.4) else g.one_of(*every)


def _finish(g: OnnxGrowth, made: Sequence[Tensor]) -> None:
    """Quantises real results, mostly; sometimes another operator follows first."""
    for x in made:
        if not x.is_real:
            continue
        if g.chance(0.12):
            follow = g.node(
                g.one_of("Relu", "Sigmoid", "Abs", "Neg", "Tanh", "Floor", "Identity"), x
            )
            x = follow[0] if follow else x
        if x.grid is None and g.chance(0.95):
            dequantised(g, x)


def weights(g: OnnxGrowth, *shape: int, axis: int = 0) -> Tensor:
    """Constant weights: dequantised integers, quantised and dequantised reals, or plain reals."""
    reals = g.numbers.normal(0, 0.4, shape).astype(np.float32)
    form = g.one_of("dq", "dq", "dq", "qdq", "real")
    if form == "real":
        return g.constant(reals)
    kind = g.one_of("int8", "int8", "int8", "uint8")
    per_channel = g.opset >= 13 and g.chance(0.5)
    others = tuple(a for a in range(reals.ndim) if a != axis)
    largest = np.abs(reals).max(axis=others if per_channel else None)
    scales = np.maximum(largest / 127, 1e-6).astype(np.float32)
    zero = g.one_of(128, 128, 120) if kind == "uint8" else g.one_of(0, 0, 0, 0, 3)
    scale = g.constant(scales)
    point = g.constant(np.full(scales.shape, zero), kind)
    attributes: dict[str, Any] = {"axis": axis} if per_channel else {}
    if form == "qdq":
        q = g.node("QuantizeLinear", g.constant(reals), scale, point, keep=False, **attributes)
        if not q:
            return g.constant(reals)
        held = q[0]
    else:
        spread = scales.reshape([-1 if a == axis else 1 for a in range(reals.ndim)])
        steps = np.rint(reals / (spread if per_channel else scales)) + zero
        limits = np.iinfo(kind)
        held = g.constant(np.clip(steps, limits.min, limits.max), kind)
    found = g.node("DequantizeLinear", held, scale, point, keep=False, **attributes)
    return found[0] if found else g.constant(reals)


def _bias(g: OnnxGrowth, count: int) -> Tensor | None:
    if g.chance(0.4):
        return None
    return g.constant(g.numbers.normal(0, 0.5, count))


def convolution(g: OnnxGrowth) -> None:
    x = pick(g, 3, 4, real=True)
    if x is None:
        return
    channels, spatial = x.shape[1], x.shape[2:]
    group = g.one_of(1, 1, 1, channels)
    outputs = group * g.integer(1, 3) if group > 1 else g.integer(1, 6)
    size = [g.integer(1, min(3, extent)) for extent in spatial]
    w = weights(g, outputs, channels // group, *size)
    attributes: dict[str, Any] = dict(group=group, strides=[g.integer(1, 3) for _ in size])
    if g.chance(0.5):
        attributes["pads"] = [g.integer(0, 2) for _ in range(2 * len(size))]
    elif g.chance(0.3):
        attributes["auto_pad"] = g.one_of("SAME_UPPER", "SAME_LOWER", "VALID")
    if g.chance(0.15):
        attributes["dilations"] = [g.integer(1, 2) for _ in size]
    _finish(g, g.node("Conv", x, w, _bias(g, outputs), **attributes))


def transposed_convolution(g: OnnxGrowth) -> None:
    x = pick(g, 4, real=True)
    if x is None:
        return
    size = [g.integer(1, 3), g.integer(1, 3)]
    outputs = g.integer(1, 4)
    w = weights(g, x.shape[1], outputs, *size, axis=1)
    pads = [g.integer(0, 1) if min(size) > 1 else 0 for _ in range(4)]
    strides = [g.integer(1, 2), g.integer(1, 2)]
    _finish(g, g.node("ConvTranspose", x, w, _bias(g, outputs), strides=strides, pads=pads))


def dense(g: OnnxGrowth) -> None:
    x = pick(g, real=True)
    if x is None:
        return
    if x.rank == 2 and g.chance(0.5):
        transposed = g.integer(0, 1)
        outputs = g.integer(1, 6)
        shape = (outputs, x.shape[1]) if transposed else (x.shape[1], outputs)
        w = weights(g, *shape, axis=0 if transposed else 1)
        _finish(g, g.node("Gemm", x, w, _bias(g, outputs), transB=transposed))
    elif g.chance(0.8):
        _finish(g, g.node("MatMul", x, weights(g, x.shape[-1], g.integer(1, 6), axis=1)))
    elif x.rank >= 2:
        _finish(g, g.node("MatMul", weights(g, g.integer(1, 4), x.shape[-2]), x))


def product(g: OnnxGrowth) -> None:
    """A product of two activations, often of a tensor with its own transpose."""
    x = pick(g, 2, 3, 4, real=True)
    if x is None:
        return
    axes = [*range(x.rank - 2), x.rank - 1, x.rank - 2]
    turned = g.node("Transpose", x, perm=axes, grid=x.grid)
    if turned:
        _finish(g, g.node("MatMul", *g.one_of((x, turned[0]), (turned[0], x))))


def pool(g: OnnxGrowth) -> None:
    x = pick(g, 3, 4)
    if x is None:
        return
    spatial = x.shape[2:]
    size = [g.integer(1, min(3, extent)) for extent in spatial]
    attributes: dict[str, Any] = dict(kernel_shape=size, strides=[g.integer(1, 3) for _ in size])
    if g.chance(0.4):
        attributes["pads"] = [g.integer(0, (k - 1)) for k in size * 2]
    if g.chance(0.4):
        attributes["ceil_mode"] = 1
    if x.is_integer or g.chance(0.5):
        if g.chance(0.25):
            attributes["dilations"] = [g.integer(1, 2) for _ in size]
        made = g.node("MaxPool", x, grid=x.grid, **attributes)
    elif g.chance(0.2):
        made = g.node(g.one_of("GlobalAveragePool", "GlobalMaxPool"), x)
    else:
        made = g.node("AveragePool", x, count_include_pad=g.integer(0, 1), **attributes)
    _finish(g, made)


def unary(g: OnnxGrowth) -> None:
    x = pick(g, real=True)
    if x is None:
        return
    operators: tuple[tuple[str, dict[str, Any]], ...] = (
        ("Relu", {}), ("Sigmoid", {}), ("Tanh", {}), ("LeakyRelu", {"alpha": 0.1}), ("Elu", {}),
        ("HardSigmoid", {"alpha": 0.3}), ("HardSwish", {}), ("Abs", {}), ("Neg", {}), ("Exp", {}),
        ("Softplus", {}), ("Erf", {}), ("Floor", {}), ("Ceil", {}), ("Round", {}), ("Selu", {}),
        ("Sqrt", {}), ("Log", {}), ("Reciprocal", {}), ("Sin", {}), ("Cos", {}), ("Sign", {}),
        ("Gelu", {}), ("Mish", {}), ("Softsign", {}), ("ThresholdedRelu", {"alpha": 0.5}),
        ("Celu", {}),
    )  # fmt: skip
    operator, attributes = g.one_of(*operators)
    _finish(g, g.node(operator, x, **attributes))


def normalised(g: OnnxGrowth) -> None:
    x = pick(g, 2, 3, 4, real=True)
    if x is None:
        return
    kind = g.one_of("Softmax", "LogSoftmax", "BatchNormalization", "InstanceNormalization",
                    "LayerNormalization", "LpNormalization")  # fmt: skip
    axis = g.integer(-x.rank, x.rank - 1)
    if kind in ("Softmax", "LogSoftmax", "LpNormalization"):
        _finish(g, g.node(kind, x, axis=axis))
    elif kind == "LayerNormalization":
        _finish(g, g.node(kind, x, g.constant(g.numbers.normal(1, 0.2, x.shape[-1]))))
    else:
        c = x.shape[1]
        parts = [g.constant(g.numbers.normal(1, 0.2, c)), g.constant(g.numbers.normal(0, 0.2, c))]
        if kind == "BatchNormalization":
            parts += [g.constant(g.numbers.normal(0, 0.2, c)), g.constant(np.full(c, 0.9))]
        _finish(g, g.node(kind, x, *parts))


def binary(g: OnnxGrowth) -> None:
    x = pick(g, real=True)
    if x is None:
        return
    operator = g.one_of("Add", "Add", "Sub", "Mul", "Mul", "Div", "Min", "Max", "Pow", "PRelu")
    alike = [y for y in g.known if y.is_real and y.shape == x.shape]
    if g.chance(0.45):
        shapes = ((), (1,), x.shape[-1:], x.shape, (1,) * x.rank)
        shape = g.one_of(*shapes, (x.shape[1], *(1,) * (x.rank - 2)) if x.rank > 1 else ())
        reals = g.numbers.normal(0.5, 1, shape).astype(np.float32)
        other = weights(g, *shape) if shape and g.chance(0.4) else g.constant(reals)
    else:
        other = g.one_of(*alike)
    pair = (x, other) if g.chance(0.8) else (other, x)
    _finish(g, g.node(operator, *pair))


def clip(g: OnnxGrowth) -> None:
    x = pick(g)
    if x is None:
        return
    if x.is_integer:
        kind = x.elements.dtype.name
        least, most = sorted(g.integer(*_range(kind)) for _ in range(2))
        bounds: list[Tensor | None] = [g.constant(least, kind), g.constant(most, kind)]
    else:
        least, most = sorted(g.numbers.normal(0, 1.5, 2).tolist())
        bounds = [g.constant(least), g.constant(most)]
        if g.chance(0.15):
            steps = g.constant(g.integer(0, 60), "int8")
            held = g.node("DequantizeLinear", steps, g.constant(0.05), g.constant(0, "int8"),
                          keep=False)  # fmt: skip
            bounds[1] = held[0] if held else bounds[1]
    if g.chance(0.3):
        bounds[g.integer(0, 1)] = None
    if bounds[1] is None:
        bounds.pop()
    _finish(g, g.node("Clip", x, *bounds, grid=x.grid if x.is_integer else None))


def pad(g: OnnxGrowth) -> None:
    x = pick(g, 2, 3, 4)
    if x is None:
        return
    sides = [g.one_of(0, 0, 1, 2, -1 if g.chance(0.2) else 1) for _ in range(2 * x.rank)]
    mode = g.one_of("constant", "constant", "constant", "reflect", "edge")
    operands: list[Tensor] = [x, g.constant(sides, "int64")]
    if mode == "constant" and g.chance(0.7):
        kind = x.elements.dtype.name
        value = g.integer(*_range(kind)) if x.is_integer else float(g.numbers.normal(0, 2))
        operands.append(g.constant(value, kind))
    _finish(g, g.node("Pad", *operands, mode=mode, grid=x.grid if x.is_integer else None))


def concat(g: OnnxGrowth) -> None:
    x = pick(g)
    if x is None or not x.rank:
        return
    axis = g.integer(0, x.rank - 1)

    def fits(y: Tensor) -> bool:
        same = y.elements.dtype == x.elements.dtype and y.rank == x.rank
        return same and all(a == axis or y.shape[a] == x.shape[a] for a in range(x.rank))

    others = [y for y in g.known if fits(y) and (y.is_integer or y.grid is not None)]
    parts = [x, *(g.one_of(*others) for _ in range(g.integer(1, 2)))]
    _finish(g, g.node("Concat", *parts, axis=axis, grid=x.grid if x.is_integer else None))


def split(g: OnnxGrowth) -> None:
    x = pick(g)
    if x is None:
        return
    axes = [a for a in range(x.rank) if x.shape[a] > 1]
    if not axes:
        return
    axis = g.one_of(*axes)
    first = g.integer(1, x.shape[axis] - 1)
    sizes = [first, x.shape[axis] - first]
    if g.opset >= 13:
        made = g.node("Split", x, g.constant(sizes, "int64"), count=2, axis=axis, grid=x.grid)
    else:
        made = g.node("Split", x, count=2, axis=axis, split=sizes, grid=x.grid)
    _finish(g, made)


def slice_(g: OnnxGrowth) -> None:
    x = pick(g, 2, 3, 4)
    if x is None:
        return
    axis = g.integer(0, x.rank - 1)
    start = g.integer(0, x.shape[axis] - 1)
    end = g.one_of(x.shape[axis], 2**31, g.integer(start + 1, x.shape[axis]))
    step = g.one_of(1, 1, 2)
    if g.chance(0.1):
        start, end, step = -1, -(2**31), -1
    operands = [g.constant([n], "int64") for n in (start, end, axis, step)]
    _finish(g, g.node("Slice", x, *operands, grid=x.grid))


def transpose(g: OnnxGrowth) -> None:
    x = pick(g, 2, 3, 4)
    if x is None:
        return
    axes = list(range(x.rank))
    g.random.shuffle(axes)
    g.node("Transpose", x, perm=axes, grid=x.grid)


def reshape(g: OnnxGrowth) -> None:
    x = pick(g)
    if x is None:
        return
    kind = g.one_of("Reshape", "Flatten", "Unsqueeze", "Squeeze", "Identity")
    if kind == "Reshape":
        size = x.elements.size
        factor = g.one_of(*(k for k in range(1, size + 1) if size % k == 0))
        target = g.one_of([factor, -1], [-1], [1, factor, -1], list(x.shape[::-1]), [0, -1])
        g.node("Reshape", x, g.constant(target, "int64"), grid=x.grid)
    elif kind in ("Flatten", "Identity"):
        more: dict[str, Any] = {"axis": g.integer(0, x.rank)} if kind == "Flatten" else {}
        g.node(kind, x, grid=x.grid, **more)
    else:
        axis = g.integer(0, x.rank)
        if kind == "Squeeze":
            axes = [a for a in range(x.rank) if x.shape[a] == 1]
            if not axes:
                return
            axis = g.one_of(*axes)
        if g.opset >= 13:
            g.node(kind, x, g.constant([axis], "int64"), grid=x.grid)
        else:
            g.node(kind, x, axes=[axis], grid=x.grid)


def resize(g: OnnxGrowth) -> None:
    x = pick(g, 3, 4)
    if x is None:
        return
    mode = "nearest" if x.is_integer else g.one_of("nearest", "linear")
    mapping = g.one_of("asymmetric", "half_pixel", "align_corners", "pytorch_half_pixel")
    spatial = [g.one_of(1.0, 2.0, 2.0, 1.5, 0.5, 3.0) for _ in x.shape[2:]]
    attributes: dict[str, Any] = dict(mode=mode, coordinate_transformation_mode=mapping)
    if mode == "nearest":
        attributes["nearest_mode"] = g.one_of("floor", "round_prefer_floor", "ceil")
    roi = g.constant(np.zeros(0)) if g.opset < 13 else None
    if g.chance(0.3):
        sizes = [
            *x.shape[:2],
            *(max(1, int(n * k)) for n, k in zip(x.shape[2:], spatial, strict=True)),
        ]
        empty = g.constant(np.zeros(0)) if g.opset < 13 else None
        made = g.node(
            "Resize", x, roi, empty, g.constant(sizes, "int64"), grid=x.grid, **attributes
        )
    else:
        made = g.node("Resize", x, roi, g.constant([1, 1, *spatial]), grid=x.grid, **attributes)
    if mode == "linear" and made:
        made = g.node("Identity", made[0])
    _finish(g, made)


def gather(g: OnnxGrowth) -> None:
    x = pick(g, 2, 3, 4)
    if x is None:
        return
    axis = g.integer(0, x.rank - 1)
    extent = x.shape[axis]
    count = g.one_of((), (1,), (2,), (3,))
    indices = g.constant(g.numbers.integers(-extent, extent, count), "int64")
    g.node("Gather", x, indices, axis=axis, grid=x.grid)


def reduction(g: OnnxGrowth) -> None:
    x = pick(g, 2, 3, 4)
    if x is None:
        return
    operator = g.one_of(
        "ReduceMean", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceSum", "ReduceL2"
    )
    axes = sorted(g.random.sample(range(x.rank), g.integer(1, x.rank)))
    keep = g.integer(0, 1)
    as_input = g.opset >= 18 or (operator == "ReduceSum" and g.opset >= 13)
    if as_input:
        made = g.node(operator, x, g.constant(axes, "int64"), keepdims=keep)
    else:
        made = g.node(operator, x, axes=axes, keepdims=keep)
    _finish(g, made)


def arguments(g: OnnxGrowth) -> None:
    x = pick(g, 2, 3, 4)
    if x is not None:
        axis = g.integer(0, x.rank - 1)
        g.node(g.one_of("ArgMax", "ArgMin"), x, axis=axis, keepdims=g.integer(0, 1))


def cast(g: OnnxGrowth) -> None:
    x = pick(g)
    if x is None:
        return
    target = 1 if x.is_integer else g.one_of(3, 2, 6)
    made = g.node("Cast", x, to=target)
    _finish(g, made)


def depth(g: OnnxGrowth) -> None:
    x = pick(g, 4)
    if x is None:
        return
    if x.shape[1] % 4 == 0 and g.chance(0.5):
        g.node("DepthToSpace", x, blocksize=2, mode=g.one_of("DCR", "CRD"), grid=x.grid)
    else:
        g.node("SpaceToDepth", x, blocksize=2, grid=x.grid)


def expand(g: OnnxGrowth) -> None:
    x = pick(g, 2, 3, 4)
    if x is None:
        return
    if g.chance(0.5):
        shape = [n if n > 1 else g.one_of(1, 2, 3) for n in x.shape]
        g.node("Expand", x, g.constant(shape, "int64"), grid=x.grid)
    else:
        g.node("Tile", x, g.constant([g.one_of(1, 1, 2) for _ in x.shape], "int64"), grid=x.grid)


def where(g: OnnxGrowth) -> None:
    x = pick(g, real=True)
    if x is None:
        return
    other = g.constant(g.numbers.normal(0, 1, g.one_of((), x.shape)))
    test = g.node(g.one_of("Greater", "Less", "Equal"), x, g.constant(0.3), keep=False)
    if test:
        _finish(g, g.node("Where", test[0], *g.one_of((x, other), (other, x))))


def integer_only(g: OnnxGrowth) -> None:
    """An operator on integers as integers."""
    x = pick(g, real=False)
    if x is None:
        return
    operator = g.one_of("Relu", "Abs", "Neg", "Sign", "Max", "Min", "Add", "Mul")
    if operator in ("Max", "Min", "Add", "Mul"):
        kind = x.elements.dtype.name
        g.node(operator, x, g.constant(g.integer(*_range(kind)), kind), grid=x.grid)
    else:
        g.node(operator, x, grid=x.grid)


@dataclass(frozen=True, slots=True, eq=False)
class _Quantised:
    """The operand of an operator that reads its scales: integers, and the reals they stand for."""

    g: OnnxGrowth
    x: Tensor
    grid: tuple[float, int]

    @property
    def kind(self) -> str:
        return self.x.elements.dtype.name

    @property
    def reals(self) -> Array:
        return (self.x.elements.astype(np.float32) - self.grid[1]) * np.float32(self.grid[0])

    @property
    def operands(self) -> tuple[Tensor, Tensor, Tensor]:
        return (self.x, *self.g.parameters(self.grid, self.kind))

    def weights(self, *shape: int, axis: int) -> tuple[Tensor, Tensor, Tensor]:
        """Constant integers, one scale or one per index of an axis, and zero points."""
        g = self.g
        signed = self.kind == "int8" or g.chance(0.5)
        each = (shape[axis],) if g.chance(0.4) else ()
        zero = 0 if signed else 128
        name = "int8" if signed else "uint8"
        held = g.constant(g.numbers.integers(-127, 128, shape) + zero, name)
        scales = g.numbers.uniform(0.002, 0.01, each).astype(np.float32)
        return held, g.constant(scales), g.constant(np.full(each, zero), name)

    def result(self, *reals: float) -> _Result:
        """Scale and zero point of a result with such numbers."""
        grid = self.g.grid(np.array(reals), self.kind)
        return grid, self.g.parameters(grid, self.kind)

    def sum_result(self, terms: int) -> _Result:
        """Scale and zero point of sums of products with weights."""
        spread = float(np.abs(self.reals).max()) * terms**0.5
        return self.result(-spread, spread)


_Result = tuple[tuple[float, int], tuple[Tensor, Tensor]]


def qlinear(g: OnnxGrowth) -> None:
    """An operator that reads its scales."""
    x = pick(g, real=False)
    if x is not None and x.grid is not None:
        g.one_of(*QLINEAR)(_Quantised(g, x, x.grid))


def _q_convolution(q: _Quantised) -> None:
    if q.x.rank != 4:
        return
    k, channels = q.g.integer(1, min(3, *q.x.shape[2:])), q.x.shape[1]
    w = q.weights(q.g.integer(1, 5), channels, k, k, axis=0)
    grid, parameters = q.sum_result(channels * k * k)
    pads = [q.g.integer(0, 1)] * 4
    q.g.node("QLinearConv", *q.operands, *w, *parameters, pads=pads, grid=grid)


def _q_product(q: _Quantised) -> None:
    if q.x.rank < 2:
        return
    depth = q.x.shape[-1]
    w = q.weights(depth, q.g.integer(1, 5), axis=1)
    grid, parameters = q.sum_result(depth)
    if q.x.rank == 2 and q.g.chance(0.5):
        ends = () if q.g.chance(0.2) else parameters
        q.g.node("QGemm", *q.operands, *w, None, *ends, domain=DOMAIN, grid=grid)
    else:
        q.g.node("QLinearMatMul", *q.operands, *w, *parameters, grid=grid)


def _q_pair(q: _Quantised) -> None:
    alike = [y for y in q.g.known if y.elements.dtype == q.x.elements.dtype and y.grid]
    y = q.g.one_of(*(z for z in alike if z.shape == q.x.shape))
    grid, parameters = q.result(*(q.reals * 2).ravel())
    other = (y, *q.g.parameters(y.grid or q.grid, q.kind))
    operator = q.g.one_of("QLinearAdd", "QLinearMul")
    q.g.node(operator, *q.operands, *other, *parameters, domain=DOMAIN, grid=grid)


def _q_concatenation(q: _Quantised) -> None:
    if not q.x.rank:
        return
    grid, parameters = q.result(*q.reals.ravel())
    axis = q.g.integer(0, q.x.rank - 1)
    parts = (*parameters, *q.operands, *q.operands)
    q.g.node("QLinearConcat", *parts, domain=DOMAIN, axis=axis, grid=grid)


def _q_unary(q: _Quantised) -> None:
    operator = q.g.one_of("QLinearSigmoid", "QLinearLeakyRelu", "QLinearSoftmax")
    is_share = operator != "QLinearLeakyRelu"
    grid, parameters = q.result(0.0, 1.0) if is_share else q.result(*q.reals.ravel())
    more: dict[str, Any] = (
        {"opset": q.g.opset, "axis": q.x.rank - 1} if operator == "QLinearSoftmax" else {}
    )
    q.g.node(operator, *q.operands, *parameters, domain=DOMAIN, grid=grid, **more)


def _q_pool(q: _Quantised) -> None:
    if q.x.rank != 4:
        return
    grid, parameters = q.result(*q.reals.ravel())
    more: dict[str, Any] = {"channels_last": 0}
    operator = "QLinearGlobalAveragePool"
    if q.g.chance(0.5):
        operator, more = "QLinearAveragePool", {"kernel_shape": [min(2, n) for n in q.x.shape[2:]]}
    q.g.node(operator, *q.operands, *parameters, domain=DOMAIN, grid=grid, **more)


QLINEAR = (_q_convolution, _q_product, _q_pair, _q_concatenation, _q_unary, _q_pool)


def requantised(g: OnnxGrowth) -> None:
    x = pick(g)
    if x is None:
        return
    if x.is_integer:
        g.real(x, g.grid(np.array([-2.0, 3.0]), x.elements.dtype.name) if g.chance(0.3) else None)
    else:
        same = x.grid if g.chance(0.3) else None
        kind = "" if same is None else g.one_of("int8" if same[1] < 128 else "uint8")
        g.quantised(x, kind, same)


STEPS: tuple[Step, ...] = (
    *(convolution,) * 3,
    *(binary, unary, pool, pad, clip, concat, qlinear) * 2,
    *(dense, product, normalised, split, slice_, transpose, reshape, resize, gather, reduction),
    *(cast, depth, expand, where, integer_only, requantised, transposed_convolution, arguments),
)
GENERATOR = Generator("onnx-grammar", draw)
