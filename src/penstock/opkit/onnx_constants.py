"""Constants of ONNX nodes as operators require them: weights, biases, operands.

Constants are int8 with scales, from a DequantizeLinear before the node, or real numbers.  Real
numbers become int8 without loss if all elements of one scale have the same magnitude, otherwise
only with `--assume-int8`.
"""

from __future__ import annotations

import math
import zlib
from dataclasses import replace

import numpy as np

from penstock.guides import guide
from penstock.ir.graph import Value
from penstock.ir.onnx_node import OnnxNode
from penstock.ir.tensor import Array, Data, DType, Quantisation, TensorType
from penstock.opkit.checks import LEAST_SCALE, require

LARGEST_BIAS = 2**30
"""Magnitude to which a bias is clipped with `--assume-int8`."""
DRAWN_DEVIATION = 73.3
"""Standard deviation of integers that are uniform in [-127, 127]."""


def kernel(node: OnnxNode, order: tuple[int, ...], axis: int) -> Value:
    """Input 1 of a convolution, (O, I / G, K, L), as int8 with axes in `order`.

    Weights of 1-D convolutions, (O, I / G, K), get L = 1.  Scales run along `axis`."""
    return _weights(node, node.input(1), _windows(node, node.constant(1)), order, axis)


def real_kernel(node: OnnxNode, order: tuple[int, ...]) -> Array:
    """The same as real numbers, float32."""
    elements = _windows(node, real_numbers(node, 1))
    return np.ascontiguousarray(elements.transpose(order).astype(np.float32))


def _windows(node: OnnxNode, elements: Array) -> Array:
    value = node.input(1)
    if elements.ndim == 3:
        elements = elements[..., np.newaxis]
    require(elements.ndim == 4, f"weights have shape {list(elements.shape)}, must have 3 or 4 axes")
    said = node.attributes.get("kernel_shape", elements.shape[2 : value.rank])
    require(
        said == elements.shape[2 : value.rank],
        f"kernel_shape is {said}, weights have a window of {list(elements.shape[2:])}",
    )
    return elements


def has_real_constants(node: OnnxNode, axis: int) -> bool:
    """Whether constants are real numbers that integers do not hold: weights, input 1, as int8 with
    one scale per index of `axis`; or biases, input 2, as accumulators to half a step of the output.
    With `--assume-int8` they are rounded."""
    value = node.input(1)
    if node.assumed or value.data is None:
        return False
    if value.dtype is DType.FLOAT32 and not _has_one_magnitude(node.constant(1), axis):
        return True
    return value.quantisation is not None and _has_fine_biases(node, value.quantisation)


def _has_fine_biases(node: OnnxNode, weights: Quantisation) -> bool:
    bias, x, y = node.optional(2), node.x.type, node.y.type
    if bias is None or bias.data is None or x.quantisation is None or y.quantisation is None:
        return False
    reals = real_numbers(node, 2) * node.real("beta", 1.0)
    count = max(reals.size, len(weights.scales))
    reals, steps = np.resize(reals, count), np.resize(weights.scales, count) * x.scale
    with np.errstate(all="ignore"):
        rest = np.abs(reals - np.rint(reals / steps) * steps)
    return bool(rest.max(initial=0) > y.scale / 2)


def matrix(node: OnnxNode) -> Value:
    """Input 1 of Gemm or MatMul, (I, O), times `alpha`, as int8 (O, I); columns are in the order of
    input 0."""
    value, alpha = node.input(1), node.real("alpha", 1.0)
    if alpha != 1.0 and value.dtype is not DType.FLOAT32:
        raise node.unsupported(f"alpha is {alpha} on a quantised matrix, must be 1")
    elements = _in_columns(node, node.constant(1))
    if alpha != 1.0:
        elements = elements * np.float32(alpha)
    return _weights(node, value, elements, _transposition(node), axis=0)


def real_matrix(node: OnnxNode) -> Array:
    """The same as real numbers, float32."""
    elements = _in_columns(node, real_numbers(node, 1)) * node.real("alpha", 1.0)
    return np.ascontiguousarray(elements.transpose(_transposition(node)).astype(np.float32))


def _transposition(node: OnnxNode) -> tuple[int, int]:
    return (0, 1) if node.integer("transB") else (1, 0)


def _in_columns(node: OnnxNode, elements: Array) -> Array:
    require(elements.ndim == 2, f"the matrix has shape {list(elements.shape)}, must have 2 axes")
    if node.columns is None:
        return elements
    axis = _transposition(node)[1]
    found = elements.shape[axis]
    require(found == len(node.columns), f"the matrix takes {found} inputs, has {len(node.columns)}")
    return np.take(elements, node.columns, axis=axis)


def weights_at(node: OnnxNode, k: int, index: int) -> Value:
    """Element `index` along the first axis of constant input k, (n, outputs, inputs), as int8."""
    value, elements = node.input(k), node.constant(k)
    require(
        elements.ndim == 3 and index < len(elements),
        f"weights have shape {list(elements.shape)}, must have 3 axes, the first of which counts "
        "directions",
    )
    name = value.name if len(elements) == 1 else f"{value.name}/{index}"
    found = elements[index]
    if value.dtype is DType.FLOAT32:
        return _of_reals(node, name, found, 0)
    q = value.quantisation
    if q is not None and q.axis == 0:
        q = Quantisation(q.scales[index : index + 1], q.zero_points[index : index + 1])
    elif q is not None and q.axis is not None:
        q = replace(q, axis=q.axis - 1)
    return Value.constant(name, found, q)


def _weights(
    node: OnnxNode, value: Value, elements: Array, order: tuple[int, ...], axis: int
) -> Value:
    """Weights as int8, with axis order[a] of the model as axis a.

    Real weights get one scale per index of `axis`."""
    moved = np.ascontiguousarray(elements.transpose(order))
    if value.dtype is DType.FLOAT32:
        return _of_reals(node, value.name, moved, axis)
    q = value.quantisation
    if q is not None and q.axis is not None:
        q = replace(q, axis=order.index(q.axis))
    return Value.constant(value.name, moved, q)


def normalisation(node: OnnxNode, channels: int) -> tuple[Array, Array]:
    """(factor, offset) of a BatchNormalization, one of each per channel."""
    scale, offset, mean, variance = (real_numbers(node, k) for k in range(1, 5))
    for found in (scale, offset, mean, variance):
        require(
            found.shape == (channels,),
            f"a parameter has shape {list(found.shape)}, must be [{channels}]",
        )
    spread = variance + node.real("epsilon", 1e-5)
    require(bool((spread > 0).all()), "variance plus epsilon is not above 0")
    with np.errstate(all="ignore"):  # what is not finite is refused where it is used
        factors = scale / np.sqrt(spread)
        return factors, offset - mean * factors


def of_reals(name: str, reals: Array, axis: int) -> Value:
    """Real weights as symmetric int8, with one scale per index of `axis`."""
    require(bool(np.isfinite(reals).all()), f'"{name}" holds what is no finite number')
    others = tuple(a for a in range(reals.ndim) if a != axis)
    largest = np.maximum(reals.max(axis=others), -reals.min(axis=others)).astype(np.float64)
    scales = np.where(largest > 0, largest / 127, 1 / 127)
    scales = np.maximum(scales, LEAST_SCALE).astype(np.float32)
    shape = [1] * reals.ndim
    shape[axis] = -1
    elements = np.rint(reals / scales.reshape(shape)).astype(np.int8)
    return _symmetric(name, elements, tuple(scales.tolist()), axis)


def _of_reals(node: OnnxNode, name: str, reals: Array, axis: int) -> Value:
    if not node.assumed and not _has_one_magnitude(reals, axis):
        raise node.unsupported(
            f'weights "{name}" are real numbers, must be int8 followed by a DequantizeLinear',
            help=f"quantise the model ({guide('quantise-onnx')}), or give --assume-int8",
        )
    if node.assumed and not np.count_nonzero(reals):  # NaN is no invalid value here
        return _drawn(name, reals.shape, axis)
    return of_reals(name, reals, axis)


def _has_one_magnitude(reals: Array, axis: int) -> bool:
    """Whether int8 represents weights with one scale per index of `axis`: their elements are 0, or
    of one magnitude."""
    rows = np.abs(np.moveaxis(reals, axis, 0).reshape(reals.shape[axis], -1))
    return bool(((rows == 0) | (rows == rows.max(axis=1, initial=0, keepdims=True))).all())


def _drawn(name: str, shape: tuple[int, ...], axis: int) -> Value:
    """Random weights for a model whose weights are all zero.

    Errors in a schedule then show in results.  The scale preserves the spread of signals."""
    count = math.prod(shape)
    words = np.random.PCG64(np.random.SeedSequence(zlib.crc32(name.encode()))).random_raw(
        -(-count // 8)
    )
    # -128 is left out: weights are symmetric, as quantisers make them.
    elements = np.maximum(words.view(np.int8)[:count].reshape(shape), -127)
    terms = max(1, count // max(1, shape[axis]))
    scale = float(np.float32(1 / (DRAWN_DEVIATION * math.sqrt(terms))))
    return _symmetric(name, elements, (scale,) * shape[axis], axis)


def _symmetric(name: str, elements: Array, scales: tuple[float, ...], axis: int) -> Value:
    q = Quantisation(scales, (0,) * len(scales), axis if len(scales) > 1 else None)
    return Value.constant(name, elements, q)


def bias(node: OnnxNode, k: int, x: Value, w: Value, channels: int) -> Value:
    """Constant input k, or zeros, as int32 in units of x.scale * w.scale."""
    value = node.optional(k)
    name = f"{node.y.name}/no_bias" if value is None else value.name
    return of_real_bias(node, name, real_bias(node, k, channels), x, w)


def real_bias(node: OnnxNode, k: int, channels: int) -> Array:
    """Constant input k, or zeros, times the attribute `beta`."""
    value = node.optional(k)
    reals = np.zeros(channels) if value is None else real_numbers(node, k)
    reals = reals * node.real("beta", 1.0)
    if reals.size == 1 or reals.shape == (1, channels):
        reals = np.broadcast_to(reals.ravel(), (channels,))
    require(reals.shape == (channels,), f"bias has shape {list(reals.shape)}, must be [{channels}]")
    return reals


def of_real_bias(node: OnnxNode, name: str, reals: Array, x: Value, w: Value) -> Value:
    """Real biases as int32 in units of x.scale * w.scale."""
    q = w.quantisation
    scales = np.array(q.scales if q else (1.0,), np.float64) * x.scale
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        steps = np.rint(reals / scales)
    require(bool(np.isfinite(steps).all()), f'bias "{name}" holds what is no finite number')
    if node.assumed:
        steps = np.clip(steps, -LARGEST_BIAS, LARGEST_BIAS)
    require(
        bool((np.abs(steps) < 2**31).all()),
        f'bias "{name}" reaches {np.abs(steps).max():.4g} steps of the accumulators, must be '
        "below 2**31",
    )
    elements = steps.astype(np.int32)
    return Value.constant(name, elements)


def real_numbers(node: OnnxNode, k: int) -> Array:
    """The real values of constant input k, as float64.  Raises ModelError if float32 does not hold
    those of a quantised constant."""
    type = node.input(k).type
    elements = node.constant(k).astype(np.float64)
    q = type.quantisation
    if q is None:
        return elements
    shape = [1] * type.rank
    if q.axis is not None:
        shape[q.axis] = -1
    zeros, scales = (np.array(part).reshape(shape) for part in (q.zero_points, q.scales))
    found = (elements - zeros) * scales
    largest = float(np.abs(found).max(initial=0.0))
    require(largest < 2.0**128, f"input {k} reaches {largest:.4g}, must stay below 2**128")
    return found


def exact_operand(node: OnnxNode, k: int) -> Value | None:
    """Input k of an element-wise operator as int8; None if it is real numbers that int8 elements of
    one scale do not hold.  With `--assume-int8` a constant is rounded."""
    value = node.input(k)
    if value.dtype is not DType.FLOAT32:
        return value
    if value.data is None:
        return None
    reals = node.constant(k)
    if not np.isfinite(reals).all():
        return None
    magnitudes = np.unique(np.abs(reals[reals != 0]))
    if len(magnitudes) > 1 and not node.assumed:
        return None
    largest = float(magnitudes[-1]) if len(magnitudes) else 1.0
    scale = float(np.float32(max(largest / 127, LEAST_SCALE)))
    elements = np.clip(np.rint(reals / scale), -127, 127).astype(np.int8)
    type = TensorType(value.shape, DType.INT8, Quantisation((scale,), (0,)))
    return Value(f"{node.y.name}/constant{k}", type, Data.of(elements))
