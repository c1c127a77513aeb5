"""Overflow checks of layers with weights: kernels accumulate in int32.

The bound is exact, because weights are constant and an input element may be any int8 value.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from penstock.errors import UnsupportedError
from penstock.fixedpoint import Int64s
from penstock.ir.foreign import ForeignNode, Made
from penstock.ir.graph import Value
from penstock.ir.op import Op, Site
from penstock.ir.tensor import Array, Data, TensorType
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
    multipliers = op.multipliers(site)
    reach = _reach(x.type, weights, axis)
    b = _with_effect(node, b, bias, reach, multipliers)
    _require_fit(reach.with_bias(_constant(node, b, "bias")), multipliers)
    return Made(op, (x, w, b), node.output())


def _constant(node: ForeignNode, value: Value, role: str) -> Array:
    if value.data is None:
        raise node.unsupported(f'{role} "{value.name}" are computed, must be constant')
    return value.data.array(value.type)


def require_fitting_sums(
    x: TensorType, weights: Array, bias: Array, axis: int, multipliers: Multipliers
) -> None:
    """Raises UnsupportedError if a sum of products of x and weights, whose output channels are
    along `axis`, may overflow int32, before or after scaling."""
    _require_fit(_reach(x, weights, axis).with_bias(bias), multipliers)


@dataclass(frozen=True, slots=True)
class _Reach:
    """The least and greatest accumulator of each output channel."""

    lower: Int64s
    upper: Int64s

    def with_bias(self, bias: Array) -> _Reach:
        """The reach after a bias is added."""
        return _Reach(self.lower + bias.astype(np.int64), self.upper + bias.astype(np.int64))

    def overflows(self) -> NDArray[np.bool_]:
        """Whether int32 is too small, for each channel."""
        return (self.upper >= 2**31) | (self.lower < -(2**31))


def _reach(x: TensorType, weights: Array, axis: int) -> _Reach:
    """The reach of the accumulators without bias."""
    others = tuple(k for k in range(weights.ndim) if k != axis)
    up = np.maximum(weights, 0).sum(axis=others, dtype=np.int64)
    down = np.minimum(weights, 0).sum(axis=others, dtype=np.int64)
    least, most = x.dtype.lower - x.zero_point, x.dtype.upper - 1 - x.zero_point
    return _Reach(up * least + down * most, up * most + down * least)


def _with_effect(
    node: ForeignNode, b: Value, bias: Array, reach: _Reach, multipliers: Multipliers
) -> Value:
    """The bias, or zero in channels that overflow and are then multiplied by 0.

    Converters saturate the bias of channels whose weights are nearly zero."""
    unread = reach.with_bias(bias).overflows() & (multipliers.reals() == 0)
    if not unread.any():
        return b
    data = Data.of(np.where(unread, 0, bias).astype(bias.dtype))
    return Value(f"{node.output().name}/bias", b.type, data)


def _require_fit(reach: _Reach, multipliers: Multipliers) -> None:
    """Raises UnsupportedError if an accumulator may overflow int32, before or after scaling."""
    lower, upper = reach.lower, reach.upper
    channel = int(np.argmax(np.maximum(upper, -lower)))
    if reach.overflows()[channel]:
        raise UnsupportedError(
            "model-025",
            f"accumulators of channel {channel} reach from {lower[channel]} to {upper[channel]}, "
            "must fit int32",
            why="the reference adds them in 32 bits",
            help="check bias and weights of the layer",
        )
    scaled = multipliers.largest(np.maximum(np.maximum(upper, -lower), 2))
    channel = int(np.argmax(scaled))
    if scaled[channel] >= LARGEST_SCALED:
        raise UnsupportedError(
            "model-025",
            f"accumulators of channel {channel} reach {scaled[channel]:.4g} when they are brought "
            f"to the output's scale, must stay below {LARGEST_SCALED}",
            why="the reference computes the output in 32 bits before it clamps it",
            help="check the scales of input, weights and output",
        )
