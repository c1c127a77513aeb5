"""ONNX DFT and STFT, composed of products with constant matrices.

A discrete Fourier transform of one length is linear: each frame of real or complex numbers is
multiplied by the transforms of the unit vectors.

Source: ONNX operator specification.
"""

from __future__ import annotations

import numpy as np

from penstock.ir.foreign import Nodes
from penstock.ir.graph import Value
from penstock.ir.onnx_node import OnnxNode
from penstock.ir.operator_facts import PLAIN_MODEL, onnx
from penstock.ir.tensor import Array
from penstock.opkit.checks import require, resolved_axis
from penstock.opkit.real_nodes import RealNodes
from penstock.ops.batch_matmul import PlainBatchMatmul
from penstock.ops.gather import Gather
from penstock.ops.plain import PlainMul
from penstock.ops.transpose import Transpose

ONNX = onnx(PLAIN_MODEL, "DFT", "STFT")


def from_onnx(node: OnnxNode) -> Nodes:
    """ONNX DFT, STFT."""
    new = RealNodes(node)
    return new.result(_transform(new) if node.name == "DFT" else _frames(new))


def _transform(new: RealNodes) -> Value:
    node, x = new.node, new.input(0)
    *shape, parts = x.shape
    if node.opset < 20:
        axis = node.integer("axis", 1)
    else:
        axis = -2 if node.optional(2) is None else node.constant_ints(2)[0]
    axis = resolved_axis(axis, x.rank)
    inverse, onesided = bool(node.integer("inverse")), bool(node.integer("onesided"))
    if inverse and not onesided:
        # What ONNX's tests expect of zeros is the rounding of an algorithm.
        raise node.unsupported(
            "inverse is 1 of both halves of a spectrum, must be of one (onesided)"
        )
    extent = shape[axis]
    length = 2 * (extent - 1) if inverse and onesided else extent
    if node.optional(1) is not None:
        (length,) = node.constant_ints(1)
    require(length > 0, f"the length is {length}, must be positive")
    matrix = _matrix(extent, parts, length, inverse=inverse, onesided=onesided)
    # The transformed axis before the parts, for the product, and back.
    rank = x.rank
    order = (*(a for a in range(rank) if a not in (axis, rank - 1)), axis, rank - 1)
    rows = new.reshape(new.apply(Transpose(order), x), (-1, extent * parts))
    y = _product(new, rows, matrix)
    results = 1 if inverse and onesided else 2
    outer = tuple(shape[a] for a in order[:-2])
    y = new.reshape(y, (*outer, matrix.shape[1] // results, results))
    return new.apply(Transpose(tuple(int(a) for a in np.argsort(order))), y)


def _product(new: RealNodes, rows: Value, matrix: Array) -> Value:
    found = new.reshape(rows, (1, -1, matrix.shape[0]))
    return new.apply(PlainBatchMatmul(), found, matrix[np.newaxis])


def _matrix(extent: int, parts: int, length: int, *, inverse: bool, onesided: bool) -> Array:
    """The transforms of unit vectors, (extent * parts, outputs * results)."""
    units = np.eye(extent * parts).reshape(-1, extent, parts)
    signals = units[..., 0] + (1j * units[..., 1] if parts == 2 else 0)
    if inverse and onesided:
        return np.fft.irfft(signals, length, axis=1)
    found = np.fft.fft(signals, length, axis=1)
    if onesided:
        found = found[:, : length // 2 + 1]
    return np.stack([found.real, found.imag], -1).reshape(len(units), -1)


def _frames(new: RealNodes) -> Value:
    node, x = new.node, new.input(0)
    batch, extent, parts = x.shape if x.rank == 3 else (*x.shape, 1)
    (step,) = node.constant_ints(1)
    window = None if node.optional(2) is None else new.input(2)
    size = window.elements if window is not None else extent
    if node.optional(3) is not None:
        (size,) = node.constant_ints(3)
    count = 1 + (extent - size) // step if step > 0 else 0
    require(count > 0, f"frames of {size} every {step} do not fit into {extent} elements")
    places = (np.arange(count)[:, None] * step + np.arange(size)).ravel()
    frames = new.apply(
        Gather(1, tuple(int(k) for k in places)), new.reshape(x, (batch, extent, parts))
    )
    frames = new.reshape(frames, (batch * count, size, parts))
    if window is not None:
        frames = new.apply(PlainMul(), frames, new.reshape(window, (1, size, 1)))
    onesided = bool(node.integer("onesided", 1))
    matrix = _matrix(size, parts, size, inverse=False, onesided=onesided)
    y = _product(new, new.reshape(frames, (batch * count, size * parts)), matrix)
    return new.reshape(y, (batch, count, matrix.shape[1] // 2, 2))
