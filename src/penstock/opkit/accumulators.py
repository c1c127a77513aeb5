"""Overflow checks of layers with weights: kernels accumulate in int32.

The bound is exact, because weights are constant and an input element may be any int8 value.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np

from penstock.errors import UnsupportedError
from penstock.ir.foreign import ForeignNode, Made
from penstock.ir.graph import Value
from penstock.ir.op import Op, Site
from penstock.ir.tensor import Array, TensorType
from penstock.opkit.checks import require_int8, require_weights
from penstock.opkit.requantise import LARGEST_SCALED, Multipliers


class WeightedOp(Op, Protocol):
    """An operator of input, weights and bias whose accumulators are requantised."""

    def multipliers(self, site: Site) -> Multipliers:
        """Requantisation multipliers of the output channels."""
        ...


def layer_node(
    op: WeightedOp, node: ForeignNode, values: tuple[Value, Value, Value], axis: int
) -> Made:
    """The node of a layer with input, weights (output channels along `axis`) and bias.

    Raises ModelError if types or shapes are inconsistent, UnsupportedError if weights or bias are
    computed, or if an accumulator may overflow int32."""
    x, w, b = values
    op.result_type((x.type, w.type, b.type))
    require_weights(w.type, axis)
    require_int8(node.output().type, "output")
    weights, bias = _constant(node, w, "weights"), _constant(node, b, "bias")
    site = Site((x.type, w.type, b.type), node.output().type, (x.data, w.data, b.data))
    _require_fit(x.type, weights, bias, axis, op.multipliers(site))
    return Made(op, values, node.output())


def _constant(node: ForeignNode, value: Value, role: str) -> Array:
    if value.data is None:
        raise node.unsupported(f'{role} "{value.name}" are computed, must be constant')
    return value.data.array(value.type)


def _require_fit(
    x: TensorType, weights: Array, bias: Array, axis: int, multipliers: Multipliers
) -> None:
    """Raises UnsupportedError if an accumulator may overflow int32, before or after scaling."""
    others = tuple(k for k in range(weights.ndim) if k != axis)
    up = np.maximum(weights, 0).sum(axis=others, dtype=np.int64)
    down = np.minimum(weights, 0).sum(axis=others, dtype=np.int64)
    least, most = x.dtype.lower - x.zero_point, x.dtype.upper - 1 - x.zero_point
    lower = bias.astype(np.int64) + up * least + down * most
    upper = bias.astype(np.int64) + up * most + down * least
    channel = int(np.argmax(np.maximum(upper, -lower)))
    if upper[channel] >= 2**31 or lower[channel] < -(2**31):
        raise UnsupportedError(
            "model-025",
            f"accumulators of channel {channel} reach from {lower[channel]} to {upper[channel]}, "
            "must fit int32",
            why="the reference adds them in 32 bits",
            help="check bias and weights of the layer",
        )
    reals = multipliers.reals()
    scaled = np.maximum(np.maximum(upper, -lower), 2) * reals
    channel = int(np.argmax(scaled))
    if scaled[channel] >= LARGEST_SCALED:
        raise UnsupportedError(
            "model-025",
            f"accumulators of channel {channel} reach {scaled[channel]:.4g} times the output's "
            f"scale, must stay below {LARGEST_SCALED}",
            why="the reference computes the output in 32 bits before it clamps it",
            help="check the scales of input, weights and output",
        )
