"""Weights with zero points: asymmetric or unsigned ones.

Kernels take weights without zero points.  Weights less their zero points have 9 bits: if int8 does
not hold them, they are split among copies of input channels.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from penstock.ir.foreign import Made
from penstock.ir.graph import Value
from penstock.ir.tensor import Array, Data, DType, TensorType
from penstock.ops.gather import Gather


def centred(w: Value) -> Value | None:
    """Weights less their zero points, as int8; None if that does not hold them."""
    found = _differences(w)
    if found.min(initial=0) < -128 or found.max(initial=0) > 127:
        return None
    return _with_zero_points(w, found.astype(np.int8))


def centred_layer(
    name: str, x: Value, w: Value, groups: int = 1
) -> tuple[Value, Value, tuple[Made, ...]]:
    """Input and weights of a layer whose weights have no zero points, and the nodes before it.

    name: of the layer's output; x: input, channels on the last axis; w: weights,
    (O, .., C / groups).  Where int8 does not hold weights less their zero points, the layer reads a
    channel several times, and the sum of its weights is that difference.  Padding has the input's
    zero point, so the products are the same.
    """
    found = centred(w)
    if found is not None:
        return x, found, ()
    rest = _differences(w)
    others = tuple(range(rest.ndim - 1))
    copies = np.maximum(-(-rest.max(axis=others) // 127), -(rest.min(axis=others) // 128))
    copies = np.maximum(copies, 1)
    first = np.cumsum(copies) - copies
    parts = np.zeros((*rest.shape[:-1], int(copies.sum())), np.int8)
    for k in range(int(copies.max())):
        chosen = np.flatnonzero(copies > k)
        part = np.clip(rest[..., chosen], -128, 127)
        parts[..., first[chosen] + k] = part
        rest[..., chosen] -= part
    depth = w.type.shape[-1]
    indices = [g * depth + c for g in range(groups) for c in np.arange(depth).repeat(copies)]
    gather = Gather(x.type.rank - 1, tuple(int(k) for k in indices))
    type = x.type.with_shape(gather.result_type((x.type,)).shape)
    repeated = Value(f"{name}/repeated_channels", type)
    return repeated, _with_zero_points(w, parts), (Made(gather, (x,), repeated),)


def exchanged_ends(w: Value) -> Value:
    """Weights (O, K, L, 1) that int8 holds less their zero points, as (1, K, L, O)."""
    found = centred(w)
    assert found is not None
    assert found.data is not None
    elements = np.ascontiguousarray(found.data.array(found.type).transpose(3, 1, 2, 0))
    q = found.type.quantisation
    if q is not None and q.axis is not None:
        q = replace(q, axis={0: 3, 3: 0}.get(q.axis, q.axis))
    return Value(w.name, TensorType(elements.shape, DType.INT8, q), Data.of(elements))


def _differences(w: Value) -> Array:
    """Weights less their zero points, as int64."""
    q, data = w.type.quantisation, w.data
    assert data is not None
    elements = data.array(w.type).astype(np.int64)
    if q is None:
        return elements
    shape = [1] * elements.ndim
    if q.axis is not None:
        shape[q.axis] = -1
    return elements - np.array(q.zero_points, np.int64).reshape(shape)


def _with_zero_points(w: Value, elements: Array) -> Value:
    """Weights of these elements, with zero points of 0."""
    q = w.type.quantisation
    if q is not None:
        q = replace(q, zero_points=(0,) * len(q.zero_points))
    return Value(w.name, TensorType(elements.shape, DType.INT8, q), Data.of(elements))
