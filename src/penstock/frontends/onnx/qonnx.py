"""QONNX's quantisers: Quant (also IntQuant), BipolarQuant and Trunc, as ONNX's operators.

A quantiser rounds real numbers x to y = s (q - z), with q = x / s + z clamped to the integers of b
bits and rounded.  Where int8 or uint8 holds q, a QuantizeLinear yields it and a DequantizeLinear
yields y, so that quantised weights are constants.  What QuantizeLinear lacks is computed on real
numbers before it: other rounding modes, zero points before rounding, and signs.  Wider integers
remain real numbers.

Source: QONNX, `docs/qonnx-custom-ops`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np

from penstock.errors import UnsupportedError
from penstock.frontends.onnx.definitions import Define, Definition
from penstock.frontends.onnx.folding import folded, whole, wrong
from penstock.frontends.onnx.operators import DEQUANTISE, QUANTISE
from penstock.frozen import frozen
from penstock.ir.tensor import Array

DOMAINS = ("qonnx.custom_op.general", "onnx.brevitas", "finn.custom_op.general")
MOST_BITS = 32
OPSET = 13  # In which the nodes of a definition are evaluated, whatever the model's.
_TO_NEAREST = ("ROUND", "HALF_EVEN")


@frozen
class _Integers:
    """The integers that a quantiser yields, and the names of their scales and zero points."""

    lower: int
    upper: int
    scale: str
    zero: str

    def clip(self, given: _Given, x: str, dtype: np.dtype[np.generic]) -> str:
        bounds = (np.array(bound, dtype) for bound in (self.lower, self.upper))
        return given.new.made("Clip", x, *map(given.new.constant, bounds))


@frozen
class _Storage:
    """The 8-bit element type of integers, and the constants of a QuantizeLinear that yields them:
    scales and zero points along an axis."""

    dtype: np.dtype[np.generic]
    scales: Array
    zeros: Array
    axis: int

    def dequantised(self, new: Definition, q: str) -> None:
        parameters = map(new.constant, (self.scales, self.zeros.astype(self.dtype)))
        new.made(DEQUANTISE, q, *parameters, axis=self.axis)

    def constant(self, new: Definition, elements: Array) -> None:
        """The real numbers of constant elements, such as weights.

        Elements of few bits are multiplied by a power of two, and their scales divided by it.  That
        is exact, and makes the accumulators finer, to which a layer's bias is rounded."""
        most = float(np.abs(elements).max(initial=1))
        shift = 0 if self.zeros.any() else int(np.log2(np.iinfo(self.dtype.name).max / most))
        finer = replace(self, scales=np.ldexp(self.scales, -shift))
        finer.dequantised(new, new.constant(np.ldexp(elements, shift).astype(self.dtype)))


@frozen
class _Given:
    """The definition of a quantiser of a file."""

    new: Definition

    def inputs(self, count: int) -> tuple[str, ...]:
        """Raises ModelError unless the node has so many."""
        found = self.new.node.inputs
        if len(found) != count or not all(found):
            raise wrong(self.new.node, f"it has {len(found)} inputs, must have {count}")
        return found

    def known(self, name: str) -> Array | None:
        """The elements of a constant as real numbers; None for a computed tensor."""
        found = self.new.constants.get(name, self.new.file.constants.get(name))
        return None if found is None else found.astype(np.float32)

    def bits(self, name: str) -> int:
        """A bit width.  Raises UnsupportedError unless it is one constant whole number."""
        found = self.known(name)
        if found is None:
            raise self.refused("its bit width is computed, must be constant")
        first = float(found.ravel()[0]) if found.size else 0.0
        if not (found == first).all() or first != int(first) or not 0 < first <= MOST_BITS:
            several = f"{found.size} bit widths, the first of them" if found.size > 1 else ""
            raise self.refused(
                f"its bit width is {several} {first:g}".replace("  ", " ")
                + f", must be one whole number within [1, {MOST_BITS}]"
            )
        return int(first)

    def refused(self, what: str) -> UnsupportedError:
        node = self.new.node
        return UnsupportedError(
            "onnx-007",
            f"{node.name}: {what}",
            where=node.where,
            help="quantise the model with constant parameters, at most 8 bits wide if its layers "
            "are to compute on integers",
            cause=f"operator {node.name}",
        )

    def integers(self, bits: int, scale: str, zero: str) -> _Integers:
        """The integers of so many bits, by the attributes of the node."""
        node = self.new.node
        signed, narrow = whole(node, "signed", 1) != 0, whole(node, "narrow", 0) != 0
        most = 2 ** (bits - signed) - 1
        lower = narrow - most - 1 if signed else 0
        return _Integers(lower, most - (narrow and not signed), scale, zero)

    def storage(self, numbers: _Integers) -> _Storage | None:
        """None if integers or zero points fit no 8-bit type, or if they are computed, or differ
        along several axes."""
        scales, zeros = self.known(numbers.scale), self.known(numbers.zero)
        if scales is None or zeros is None or not ((scales > 0) & np.isfinite(scales)).all():
            return None
        scales, zeros = np.broadcast_arrays(scales, zeros)
        axes = [axis - scales.ndim for axis, extent in enumerate(scales.shape) if extent > 1]
        for dtype in (np.dtype(np.int8), np.dtype(np.uint8)):
            held = np.iinfo(dtype)
            fits = held.min <= numbers.lower and numbers.upper <= held.max
            points = (zeros >= held.min) & (zeros <= held.max) & (zeros == np.rint(zeros))
            if fits and points.all() and len(axes) < 2:
                shape = (-1,) if axes else ()
                found = scales.reshape(shape), zeros.reshape(shape)
                return _Storage(dtype, *found, axis=(*axes, -1)[0])
        return None

    def steps(self, x: str, scale: str, zero: str) -> str:
        """x / scale + zero."""
        found, zeros = self.new.made("Div", x, scale), self.known(zero)
        if zeros is not None and not zeros.any():
            return found
        return self.new.made("Add", found, self.real(zero))

    def real(self, name: str) -> str:
        """A parameter as real numbers, whose type in files may be another."""
        found = self.known(name)
        return self.new.as_real(name) if found is None else self.new.constant(found)

    def sign(self, x: str) -> str:
        """1 for x >= 0, else -1: floor(x) + 1 is below 1 only for negative x."""
        new = self.new
        up = new.made("Add", new.made("Floor", x), 1)
        truth = new.made("Clip", up, 0, 1)
        return new.made("Sub", new.made("Mul", truth, 2), 1)

    def mode(self, default: str) -> str:
        """Raises UnsupportedError for an unknown rounding mode."""
        found = str(self.new.node.attributes.get("rounding_mode", default)).upper()
        if found not in (*_TO_NEAREST, *_ROUNDINGS, *_OF_SIZES):
            modes = ", ".join((*_TO_NEAREST, *_ROUNDINGS, *_OF_SIZES))
            raise self.refused(f"rounding_mode is {found}, must be one of {modes}")
        return found

    def rounded(self, x: str, mode: str) -> str:
        new = self.new
        if mode in _TO_NEAREST:
            return new.made("Round", x)
        if mode in _ROUNDINGS:
            return new.made(_ROUNDINGS[mode], x)
        operator, offset = _OF_SIZES[mode]
        size = new.made("Abs", x)
        if offset:
            size = new.made("Add", size, offset)
        return new.made("Mul", new.made("Sign", x), new.made(operator, size))

    def finish(self, numbers: _Integers, steps: str) -> None:
        """The real numbers that integers represent, which are real numbers themselves so far."""
        new, storage = self.new, self.storage(numbers)
        self.evaluate()
        elements = self.known(steps)
        if storage is not None and elements is not None:
            storage.constant(new, elements)
            return
        if storage is not None:
            zero = new.constant(np.zeros((), storage.dtype))
            storage.dequantised(new, new.made(QUANTISE, steps, 1, zero))
            return
        zeros = self.known(numbers.zero)
        if zeros is None or zeros.any():
            steps = new.made("Sub", steps, self.real(numbers.zero))
        new.made("Mul", steps, numbers.scale)

    def evaluate(self) -> None:
        """Replaces nodes of constants by constants, apart from a DequantizeLinear."""
        new, nodes = self.new, list(self.new.nodes)
        new.nodes.clear()
        for node in nodes:
            known = {**self.new.file.constants, **new.constants}
            constant = node.name != DEQUANTISE and known.keys() >= set(node.inputs)
            arrays = [known[name] for name in node.inputs] if constant else []
            found = folded(node, arrays, OPSET) if constant else None
            if found is None:
                new.nodes.append(node)
            else:
                new.constants[node.y] = found[0]


_ROUNDINGS: Mapping[str, str] = {"CEIL": "Ceil", "FLOOR": "Floor"}
_OF_SIZES: Mapping[str, tuple[str, float]] = {
    "UP": ("Ceil", 0.0),
    "DOWN": ("Floor", 0.0),
    "HALF_UP": ("Floor", 0.5),
    "HALF_DOWN": ("Ceil", -0.5),
}
"""Modes that round magnitudes: the operator, and what is added before."""


def _quant(given: _Given) -> None:
    x, scale, zero, width = given.inputs(4)
    bits, mode, zeros = given.bits(width), given.mode("ROUND"), given.known(zero)
    if bits == 1 and whole(given.new.node, "signed", 1):  # as the reference, for old exporters
        numbers = _Integers(-1, 1, scale, zero)
        given.finish(numbers, given.sign(given.steps(x, scale, zero)))
        return
    numbers = given.integers(bits, scale, zero)
    storage = given.storage(numbers)
    centred = zeros is not None and not zeros.any() and mode in _TO_NEAREST
    if storage is not None and centred and x not in given.new.file.constants:
        parameters = map(given.new.constant, (storage.scales, storage.zeros.astype(storage.dtype)))
        q = given.new.made(QUANTISE, x, *parameters, axis=storage.axis)
        held = np.iinfo(storage.dtype.name)
        if (numbers.lower, numbers.upper) != (held.min, held.max):
            q = numbers.clip(given, q, storage.dtype)
        storage.dequantised(given.new, q)
        return
    steps = numbers.clip(given, given.steps(x, scale, zero), np.dtype(np.float32))
    given.finish(numbers, given.rounded(steps, mode))


def _bipolar(given: _Given) -> None:
    x, scale = given.inputs(2)
    given.finish(_Integers(-1, 1, scale, given.new.real(0)), given.sign(x))


def _trunc(given: _Given) -> None:
    """Truncation of integers: a shift, which the first version states by two bit widths."""
    first, new = len(given.new.node.inputs) == 5, given.new
    x, scale, zero, bits, *rest = given.inputs(5 if first else 6)
    step, point, size = (given.known(name) for name in (scale, zero, rest[0]))
    if step is None or point is None or size is None:
        raise given.refused("its scale or zero point is computed, must be constant")
    shift = (
        np.float32(given.bits(bits) - given.bits(rest[0]))
        if first
        else np.round(np.log2(size / step))
    )
    back = np.exp2(-shift).astype(np.float32)
    steps = new.made("Mul", new.made("Round", given.steps(x, scale, zero)), back)
    mode = given.mode("FLOOR")
    if first:  # without limits, with the scale and zero point of the input
        less = new.made("Sub", given.rounded(steps, mode), point)
        new.made("Mul", less, scale)
        return
    numbers = given.integers(given.bits(rest[1]), rest[0], new.constant(point * back))
    clipped = numbers.clip(given, steps, np.dtype(np.float32))
    given.finish(numbers, given.rounded(clipped, mode))


NAMES: Mapping[str, Callable[[_Given], None]] = {
    "Quant": _quant,
    "IntQuant": _quant,
    "BipolarQuant": _bipolar,
    "Trunc": _trunc,
}


def _definition(define: Callable[[_Given], None]) -> Define:
    def defines(new: Definition) -> bool:
        given = _Given(new)
        define(given)
        new.name_output(new.nodes[-1].outputs[0])
        given.evaluate()
        return True

    return defines


DEFINITIONS: Mapping[str, Define] = {
    f"{domain}.{name}": _definition(define) for domain in DOMAINS for name, define in NAMES.items()
}
