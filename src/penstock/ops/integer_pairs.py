"""IntegerPairs: a function of two integers, element by element; inputs may be broadcast.

    a, b  int8, uint8, int16, int32 or int64, of one type without quantisation
    y     as a, modulo 2^bits

Quotients are rounded towards 0.  A divisor of 0, which ONNX leaves undefined, yields the quotient 0
and the dividend as remainder.

Source: ONNX operator specification.  TFLite, `right_shift.cc`, whose counts end at 31.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum

import numpy as np

from penstock.fixedpoint import Int64s
from penstock.frozen import frozen
from penstock.ir.foreign import ForeignNode, Nodes
from penstock.ir.graph import Value
from penstock.ir.onnx_node import OnnxNode
from penstock.ir.op import Arrays, Kernel, Site, Types, row_kernel
from penstock.ir.operator_facts import PLAIN, RelayName, onnx
from penstock.ir.tensor import Array, DType, Region, TensorType
from penstock.opkit import broadcast
from penstock.opkit.broadcast import Elementwise
from penstock.opkit.checks import require_dtype
from penstock.opkit.nodes import in_shape_of_output, onnx_form
from penstock.opkit.real_nodes import RealNodes

INTEGERS = (DType.INT8, DType.UINT8, DType.INT16, DType.INT32, DType.INT64)


class IntegerFunction(Enum):
    """A function of two integers; the value is its number in the kernel."""

    ADD = 0
    SUB = 1
    MUL = 2
    DIV = 3
    MOD = 4
    """The remainder with the sign of the divisor."""
    REMAINDER = 5
    """The remainder with the sign of the dividend."""
    MAX = 6
    MIN = 7
    POW = 8
    AND = 9
    OR = 10
    XOR = 11
    LEFT = 12
    RIGHT = 13


def _quotient(a: Int64s, b: Int64s) -> Int64s:
    """Rounded towards 0."""
    floor = a // np.where(b == 0, 1, b)
    inexact = floor * b != a
    return np.where(b == 0, 0, floor + (inexact & ((a < 0) != (b < 0))))


def _power(a: Int64s, b: Int64s) -> Int64s:
    inverse = np.where(a == 1, 1, np.where(a == -1, 1 - 2 * (b & 1), 0))
    return np.where(b < 0, inverse, np.power(a, np.maximum(b, 0)))


def _shifted(a: Int64s, b: Int64s, bits: int, *, right: bool) -> Int64s:
    inside = (b >= 0) & (b < bits)
    count = np.where(inside, b, 0)
    moved = np.right_shift(a, count) if right else np.left_shift(a, count)
    return np.where(inside, moved, np.where(right & (a < 0), -1, 0))


_FUNCTIONS: Mapping[IntegerFunction, Callable[[Int64s, Int64s], Int64s]] = {
    IntegerFunction.ADD: np.add,
    IntegerFunction.SUB: np.subtract,
    IntegerFunction.MUL: np.multiply,
    IntegerFunction.DIV: _quotient,
    IntegerFunction.MOD: lambda a, b: np.where(b == 0, a, a % np.where(b == 0, 1, b)),
    IntegerFunction.REMAINDER: lambda a, b: np.where(b == 0, a, a - _quotient(a, b) * b),
    IntegerFunction.MAX: np.maximum,
    IntegerFunction.MIN: np.minimum,
    IntegerFunction.POW: _power,
    IntegerFunction.AND: np.bitwise_and,
    IntegerFunction.OR: np.bitwise_or,
    IntegerFunction.XOR: np.bitwise_xor,
}


_RELAY = {
    IntegerFunction.ADD: "add",
    IntegerFunction.SUB: "subtract",
    IntegerFunction.MUL: "multiply",
    IntegerFunction.DIV: "divide",
    IntegerFunction.MOD: "floor_mod",
    IntegerFunction.REMAINDER: "mod",
    IntegerFunction.MAX: "maximum",
    IntegerFunction.MIN: "minimum",
    IntegerFunction.POW: "power",
    IntegerFunction.AND: "bitwise_and",
    IntegerFunction.OR: "bitwise_or",
    IntegerFunction.XOR: "bitwise_xor",
    IntegerFunction.LEFT: "left_shift",
    IntegerFunction.RIGHT: "right_shift",
}


@frozen
class IntegerPairs(Elementwise):
    """A function of two integers, element by element; inputs may be broadcast."""

    function: IntegerFunction

    TFLITE = ("BITWISE_XOR", "RIGHT_SHIFT")
    ONNX = onnx(
        PLAIN,
        *("BitShift", "BitwiseAnd", "BitwiseNot", "BitwiseOr", "BitwiseXor"),
        *("Abs of integers", "Add of integers", "Clip of integers", "Div of integers"),
        *("Max of integers", "Mean of integers", "Min of integers", "Mod of integers"),
        *("Mul of integers", "Neg of integers", "Pow of integers", "Relu of integers"),
        *("Sign of integers", "Sub of integers", "Sum of integers"),
    )

    RELAY = tuple(RelayName(name, (("function", f.name),)) for f, name in _RELAY.items())

    def result_type(self, inputs: Types) -> TensorType:
        return broadcast.plain_result(inputs, "function of integers", *INTEGERS)

    def evaluate(self, site: Site, inputs: Arrays, out: Region) -> Array:
        a, b = (part.astype(np.int64) for part in broadcast.parts(site, inputs, out))
        bits = 8 * site.output.dtype.size_bytes
        with np.errstate(all="ignore"):
            if self.function in _FUNCTIONS:
                found = _FUNCTIONS[self.function](a, b)
            else:
                found = _shifted(a, b, bits, right=self.function is IntegerFunction.RIGHT)
        return found.astype(site.output.dtype.value)

    def kernel(self, site: Site) -> Kernel:
        dtype = site.output.dtype
        return row_kernel(
            "integer_pairs",
            broadcast.params(site),
            bytes=dtype.size_bytes,
            is_signed=dtype is not DType.UINT8,
            function=self.function.value,
        )


ADD, SUB, MUL, DIV, MOD = (IntegerPairs(f) for f in list(IntegerFunction)[:5])
MAX, MIN, POW, AND, OR, XOR, LEFT, RIGHT = (IntegerPairs(f) for f in list(IntegerFunction)[6:])
_OF_TWO = {
    "Add": ADD,
    "BitwiseAnd": AND,
    "BitwiseOr": OR,
    "BitwiseXor": XOR,
    "Div": DIV,
    "Max": MAX,
    "Mean": ADD,
    "Min": MIN,
    "Mul": MUL,
    "Pow": POW,
    "Sub": SUB,
    "Sum": ADD,
}


def from_foreign(node: ForeignNode) -> Nodes:
    """TFLite BITWISE_XOR and RIGHT_SHIFT."""
    require_dtype(node.x.type, "input 0", DType.INT32)
    shifts = node.name == "RIGHT_SHIFT"
    form = onnx_form(node, "BitShift" if shifts else "BitwiseXor", direction="RIGHT")
    return in_shape_of_output(node, from_onnx(form))


def from_onnx(node: OnnxNode) -> Nodes:
    """ONNX's functions of integers, and operators that integers share with real numbers."""
    new = RealNodes(node)
    if node.name in _OF_ONE:
        return new.result(_OF_ONE[node.name](new, new.plain(0)))
    op = _OF_TWO.get(node.name) or _with_attributes(node)
    x, *others = (new.plain(k) for k, _ in enumerate(node.inputs))
    for other in others:
        x = new.apply(op, x, other)
    return new.result(new.apply(DIV, x, len(node.inputs)) if node.name == "Mean" else x)


def _clipped(new: RealNodes, x: Value) -> Value:
    for k, op in ((1, MAX), (2, MIN)):
        if new.node.optional(k) is not None:
            x = new.apply(op, x, new.plain(k))
    return x


def _sign(new: RealNodes, x: Value) -> Value:
    return new.apply(MIN, new.apply(MAX, x, x.dtype.lower and -1), 1)


_OF_ONE: Mapping[str, Callable[[RealNodes, Value], Value]] = {
    "Abs": lambda new, x: new.apply(MAX, x, new.apply(SUB, 0, x) if x.dtype.lower else 0),
    "BitwiseNot": lambda new, x: new.apply(XOR, x, -1 if x.dtype.lower else 255),
    "Clip": _clipped,
    "Neg": lambda new, x: new.apply(SUB, 0, x),
    "Relu": lambda new, x: new.apply(MAX, x, 0),
    "Sign": _sign,
}


def _with_attributes(node: OnnxNode) -> IntegerPairs:
    if node.name == "Mod":
        return IntegerPairs(IntegerFunction.REMAINDER) if node.integer("fmod", 0) else MOD
    return LEFT if node.text("direction", "", ("LEFT", "RIGHT")) == "LEFT" else RIGHT
