"""Checks of operands of operators, with error messages for the user."""

from __future__ import annotations

from penstock.errors import ModelError, UnsupportedError
from penstock.ir.foreign import ForeignNode
from penstock.ir.op import Types
from penstock.ir.tensor import DType, TensorType

LEAST_SCALE, LARGEST_SCALE = 2.0**-40, 2.0**122
"""Products of a few of the smallest scales do not vanish in single precision.  Converters give
scales of up to 2**128 / 127 to masks of attention, which add the lowest number of single
precision."""


def require(condition: bool, what: str) -> None:
    """Raises ModelError with message `what` unless the condition holds.

    `what` contains the actual value and the allowed values."""
    if not condition:
        raise ModelError(
            "model-014",
            what,
            help="convert the model again; `penstock ops` lists what is supported",
        )


def require_count(inputs: Types, count: int, role: str) -> Types:
    """The types of the inputs.  Raises ModelError unless there are so many."""
    require(len(inputs) == count, f"{role} has {len(inputs)} inputs, must have {count}")
    return inputs


def require_elements(shape: tuple[int, ...], role: str) -> None:
    """Raises UnsupportedError unless a tensor of this shape has elements."""
    if 0 in shape:
        raise UnsupportedError(
            "model-033",
            f"{role} has shape {list(shape)}, must not be empty",
            why="an extent of 0 often stands for one that the model leaves open",
            help="fix the extents of the inputs, such as a batch of 1, or remove what computes an "
            "empty tensor, and convert again",
        )


def require_rank(type: TensorType, role: str, *ranks: int) -> None:
    """Raises ModelError unless the tensor's rank is one of `ranks`."""
    allowed = " or ".join(map(str, ranks))
    require(type.rank in ranks, f"{role} has shape {list(type.shape)}, its rank must be {allowed}")


def image_shape(shape: tuple[int, ...]) -> tuple[int, int, int, int]:
    """Return the shape of an input of rank 4.  Raises ModelError for others."""
    require(len(shape) == 4, f"input has shape {list(shape)}, its rank must be 4")
    return shape[0], shape[1], shape[2], shape[3]


def require_dtype(type: TensorType, role: str, *dtypes: DType) -> None:
    """Raises UnsupportedError unless the tensor's element type is one of `dtypes`."""
    if type.dtype not in dtypes:
        allowed = " or ".join(d.value for d in dtypes)
        raise UnsupportedError(
            "model-021",
            f"{role} is {type.dtype.value}, must be {allowed}",
            help="`penstock ops` lists the element types that each operator takes",
        )


def require_int8(type: TensorType, role: str) -> None:
    """Raises UnsupportedError unless the tensor is int8 with one scale and zero point."""
    require_dtype(type, role, DType.INT8)
    require_quantised(type, role)


def require_weights(type: TensorType, axis: int) -> None:
    """Raises ModelError unless weights have zero point 0 and one scale, per tensor or per output
    channel along `axis`."""
    q = type.quantisation
    require(q is not None, "weights have no quantisation, must have a scale")
    assert q is not None
    require(
        len(q.scales) == 1 or q.axis == axis,
        f"weights have {len(q.scales)} scales along axis {q.axis}, must have one, or one for each "
        f"output channel along axis {axis}",
    )
    found = next((zero for zero in q.zero_points if zero), 0)
    require(found == 0, f"weights have zero point {found}, must be 0")


def require_quantised(type: TensorType, role: str) -> None:
    """Raises ModelError unless the tensor has one scale in [2**-40, 2**122) and a zero point in the
    range of its element type."""
    q = type.quantisation
    require(q is not None, f"{role} has no quantisation, must have a scale and a zero point")
    assert q is not None
    require(len(q.scales) == 1, f"{role} has {len(q.scales)} scales, must have one")
    require(
        LEAST_SCALE <= q.scales[0] < LARGEST_SCALE,
        f"{role} has scale {q.scales[0]}, must be within [{LEAST_SCALE}, {LARGEST_SCALE})",
    )
    lower, upper = type.dtype.lower, type.dtype.upper
    require(
        lower <= q.zero_points[0] < upper,
        f"{role} has zero point {q.zero_points[0]}, must be within [{lower}, {upper})",
    )


def require_output_steps(node: ForeignNode, steps: int, zero: int, slack: float = 0.0) -> None:
    """Raises UnsupportedError unless the output has scale 1/`steps` and that zero point.

    slack: largest relative deviation of the scale."""
    y = node.y.type
    if not abs(y.scale * steps - 1) <= slack or y.zero_point != zero:
        raise node.unsupported(
            f"output has scale {y.scale} and zero point {y.zero_point}, must be 1/{steps} and "
            f"{zero}"
        )


def require_one_quantisation(types: Types, role: str) -> None:
    """Raises UnsupportedError unless all tensors have the same scale and zero point."""
    found = tuple(dict.fromkeys((x.scale, x.zero_point) for x in types))
    if len(found) > 1:
        shown = " and ".join(f"scale {scale} with zero point {zero}" for scale, zero in found[:2])
        raise UnsupportedError(
            "model-023",
            f"{role} have {shown}, must have one scale and zero point",
            help="convert the model with a current TensorFlow Lite converter, which gives one",
        )


def constant_paddings(
    node: ForeignNode, k: int, rank: int
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """(before, after) of each of `rank` axes, from constant input k of shape (rank, 2)."""
    values = node.constant_ints(k)
    require(len(values) == 2 * rank, f"input {k} has {len(values)} elements, must have {2 * rank}")
    require(
        all(0 <= value < 2**31 for value in values),
        f"input {k} is {list(values)}, must be within [0, {2**31})",
    )
    return values[::2], values[1::2]


def resolved_axis(axis: int, rank: int) -> int:
    """A non-negative axis; negative ones count from the last.  Raises ModelError."""
    require(-rank <= axis < rank, f"axis is {axis}, must be within [{-rank}, {rank})")
    return axis % rank


def constant_axes(node: ForeignNode) -> tuple[int, ...]:
    """Axes of input 0 that constant input 1 lists, in ascending order without duplicates."""
    return tuple(sorted({resolved_axis(axis, node.x.rank) for axis in node.constant_ints(1)}))


def one_axis(node: ForeignNode, k: int, rank: int) -> int:
    """The single axis in constant input k."""
    axes = node.constant_ints(k)
    require(len(axes) == 1, f"input {k} has {len(axes)} elements, must have 1")
    return resolved_axis(axes[0], rank)
