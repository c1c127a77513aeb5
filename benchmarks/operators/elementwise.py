"""Families of element-wise operators, of one variable, of two, and of vectors."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial

import numpy as np

from benchmarks.operators.drawing import LEGAL_SCALES, Drawing, Shape
from penstock.opkit.lookup import Lookup
from penstock.ops.registry import operators
from tools.tflite_writer import OptionValue, TensorSpec

Family = Callable[[Drawing], None]


def unary(name: str, d: Drawing) -> None:
    """Any scales; the output's mostly near the input's."""
    x = d.input(d.every_element())
    d.operator(name, (x,), d.output(d.shape_of(x), d.scale_near(d.scale_of(x))))


def quantise(d: Drawing) -> None:
    """From int8, uint8 or real numbers to int8, from int8 to uint8, or to or from wide integers."""
    shape = d.every_element()
    if d.chance(0.3):
        quantise_wide(d, shape)
        return
    source, target = d.choose(("int8", "int8"), ("uint8", "int8"), ("int8", "uint8"), ("real", ""))
    if source == "real":
        step = d.scale()
        x, y = d.real(shape, step), d.output(shape, step)
    else:
        x = d.input(shape) if source == "int8" else d.byte(shape)
        y = d.output(shape, d.scale_near(d.scale_of(x)))
        if target == "uint8":
            spec = d.tensors[y]
            d.tensors[y] = replace(spec, dtype=target, zero_points=(spec.zero_points[0] + 128,))
    d.operator("QUANTIZE", (x,), y)


def quantise_wide(d: Drawing, shape: Shape) -> None:
    """From int16, or from int8 to int16 or int32."""
    x = d.wide(shape) if d.chance(0.6) else d.input(shape)
    source = d.tensors[x].dtype
    target = d.choose("int16", "int32", *(("int8", "int8") if source == "int16" else ()))
    finer = {"int8": 1.0, "int16": 2.0**8, "int32": 2.0 ** d.integer(8, 14)}
    scale = d.scale_near(d.scale_of(x) * finer[source] / finer[target])
    zero = d.zero_point() if target == "int8" else d.choose(0, 0, d.integer(-300, 300))
    spec = TensorSpec("y", shape, target, (float(np.clip(scale, *LEGAL_SCALES)),), (zero,))
    d.operator("QUANTIZE", (x,), d.tensor(spec))


def dequantise(d: Drawing) -> None:
    x = d.input(d.every_element())
    d.operator("DEQUANTIZE", (x,), d.tensor(TensorSpec("y", d.shape_of(x), "float32")))


def leaky_relu(d: Drawing) -> None:
    x = d.input(d.every_element())
    alpha = d.choose(0.0, 1.0, -1.0, 0.5, *(float(d.rng.normal() * 2.0 ** d.integer(-8, 3)),) * 6)
    y = d.output(d.shape_of(x), d.scale_near(d.scale_of(x)))
    d.operator("LEAKY_RELU", (x,), y, alpha=alpha)


def gelu(d: Drawing) -> None:
    x = d.input(d.every_element())
    y = d.output(d.shape_of(x), d.scale_near(d.scale_of(x)))
    d.operator("GELU", (x,), y, approximate=d.chance(0.5))


def rsqrt(d: Drawing) -> None:
    """The reference demands that no input is below its zero point.  Where both scales make exact
    roots, results of small squares lie next to ties."""
    root = d.integer(1, 20) / 10
    scale, near = (root**2, 1 / root) if d.chance(0.3) else (d.scale(), 0.0)
    x = d.int8("x0", d.every_element(), float(np.float32(scale)), -128)
    d.inputs.append(x)
    out = near / d.choose(2.5, 12.5, 50, 62.5, 100) if near else d.scale_near(scale**-0.5 / 16)
    d.operator("RSQRT", (x,), d.output(d.shape_of(x), float(np.float32(out))))


def exp(d: Drawing) -> None:
    """Outputs range from 0 to about exp of the largest input."""
    x = d.input(d.every_element())
    spec = d.tensors[x]
    largest = min((127 - spec.zero_points[0]) * spec.scales[0], 20.0)
    y = d.output(d.shape_of(x), d.scale_near(2.0 ** (largest / 0.6931 - 8)))
    d.operator("EXP", (x,), y)


def fixed(name: str, scale: float, zero_point: int, d: Drawing, **options: OptionValue) -> None:
    """An operator whose output has one quantisation always."""
    x = d.input(d.every_element())
    d.operator(name, (x,), d.output(d.shape_of(x), scale, zero_point), **options)


def vectors(name: str, scale: float, zero_point: int, d: Drawing) -> None:
    """An operator along the last axis."""
    shape = d.choose(d.shape(2), d.shape(4), (3, d.integer(100, 300)))
    x = d.input(shape)
    options: dict[str, OptionValue] = {}
    if name == "SOFTMAX":
        options["beta"] = d.choose(1.0, 1.0, float(2.0 ** d.rng.uniform(-6, 6)))
    if name == "SOFTMAX" and d.chance(0.25):
        wide = float(np.float32(1 / d.choose(65535, 65536)))
        y = d.tensor(TensorSpec("y", shape, "int16", (wide,), (-(2**15),)))
    else:
        y = d.output(shape, scale, zero_point)
    d.operator(name, (x,), y, **options)


def broadcast(d: Drawing, shape: Shape) -> Shape:
    """The shape, or one that stretches to it: axes of one, or fewer axes."""
    if d.chance(0.6):
        return shape
    kept = tuple(d.choose(1, extent) for extent in shape)
    return kept[d.integer(0, len(kept) - 1) :] if d.chance(0.4) else kept


def operands(d: Drawing, alike: bool = False) -> tuple[int, int, Shape]:
    """Two operands, either of which may be stretched, and the result's shape."""
    shape = d.choose(d.every_element(), d.shape())
    shapes = [shape, broadcast(d, shape)]
    if d.chance(0.5):
        shapes.reverse()
    a = d.input(shapes[0])
    near = None if alike else d.scale_near(d.scale_of(a))
    if near and d.chance(0.6):
        b = d.input(shapes[1], scale=near)
    else:
        b = d.operand(shapes[1], a if alike else None)
    return a, b, shape


def addition(name: str, d: Drawing) -> None:
    a, b, shape = operands(d)
    y = d.output(shape, d.scale_near(max(d.scale_of(a), d.scale_of(b))))
    d.operator(name, (a, b), y, fused_activation_function=d.activation_function())


def product(d: Drawing) -> None:
    a, b, shape = operands(d)
    y = d.output(shape, d.scale_near(d.scale_of(a) * d.scale_of(b) * 100))
    d.operator("MUL", (a, b), y, fused_activation_function=d.activation_function())


def squared_difference(d: Drawing) -> None:
    a, b, shape = operands(d)
    largest = max(d.scale_of(a), d.scale_of(b))
    d.operator("SQUARED_DIFFERENCE", (a, b), d.output(shape, d.scale_near(largest**2 * 200)))


def extreme(name: str, d: Drawing) -> None:
    a, b, shape = operands(d, alike=True)
    d.operator(name, (a, b), d.same(shape, a))


def comparison(name: str, d: Drawing) -> None:
    a, b, shape = operands(d, alike=d.chance(0.3))
    d.operator(name, (a, b), d.tensor(TensorSpec("y", shape, "bool")))


def prelu(d: Drawing) -> None:
    shape = d.choose(d.every_element(), d.shape())
    x = d.input(shape)
    slope = d.operand(d.choose(broadcast(d, shape), shape[-1:]))
    d.operator("PRELU", (x, slope), d.output(shape, d.scale_near(d.scale_of(x))))


def select(name: str, d: Drawing) -> None:
    shape = d.choose(d.every_element(), d.shape())
    other = broadcast(d, shape) if name == "SELECT_V2" else shape
    condition = d.condition(other if d.chance(0.5) else shape)
    a = d.input(shape)
    b = d.operand(other, a)
    d.operator(name, (condition, a, b), d.same(shape, a))


COMPARISONS = ("LESS", "LESS_EQUAL", "EQUAL", "NOT_EQUAL", "GREATER", "GREATER_EQUAL")
FAMILIES: Mapping[str, Family] = {
    **{
        name: partial(unary, name)
        for operator in operators().values()
        if issubclass(operator, Lookup)
        for name in operator.TFLITE
    },
    "DEQUANTIZE": dequantise,
    "EXP": exp,
    "GELU": gelu,
    "LEAKY_RELU": leaky_relu,
    "QUANTIZE": quantise,
    "RSQRT": rsqrt,
    "LOGISTIC": partial(fixed, "LOGISTIC", 1 / 256, -128),
    "TANH": partial(fixed, "TANH", 1 / 128, 0),
    "SOFTMAX": partial(vectors, "SOFTMAX", 1 / 256, -128),
    "LOG_SOFTMAX": partial(vectors, "LOG_SOFTMAX", 1 / 16, 127),
    "L2_NORMALIZATION": partial(vectors, "L2_NORMALIZATION", 1 / 128, 0),
    "ADD": partial(addition, "ADD"),
    "SUB": partial(addition, "SUB"),
    "MUL": product,
    "SQUARED_DIFFERENCE": squared_difference,
    "MAXIMUM": partial(extreme, "MAXIMUM"),
    "MINIMUM": partial(extreme, "MINIMUM"),
    **{name: partial(comparison, name) for name in COMPARISONS},
    "PRELU": prelu,
    "SELECT": partial(select, "SELECT"),
    "SELECT_V2": partial(select, "SELECT_V2"),
}
"""Families by operator name; a function of one variable has `unary` unless listed itself."""
