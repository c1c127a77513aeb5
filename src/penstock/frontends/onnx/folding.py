"""Constant folding: nodes whose inputs are all constant are evaluated with NumPy.

Covers the operators by which exporters compute shapes (Shape, Gather, Concat, ..) and constants.
Source: ONNX operator specification.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import onnx

from penstock.allowance import take
from penstock.errors import ModelError
from penstock.frontends.onnx.file import FileNode
from penstock.ir.foreign import MALFORMED
from penstock.ir.tensor import Array

MOST_ELEMENTS = 2**26
"""Largest result of a node that expands its inputs; larger ones raise ValueError."""

Fold = Callable[[FileNode, Sequence[Array]], Array]


def folded(node: FileNode, inputs: Sequence[Array | None]) -> Array | None:
    """Result of a node of constants; None if its operator is not folded.

    `inputs`: elements by position, None for an absent input.  Raises ModelError if the node cannot
    be computed from them, or if the result is too large."""
    fold = FOLDS.get(node.name)
    if fold is None:
        return None
    try:
        with np.errstate(all="ignore"):
            found = np.asarray(fold(node, [x for x in inputs if x is not None]))
    except (ValueError, IndexError, TypeError, KeyError, OverflowError, ZeroDivisionError) as error:
        raise ModelError(
            "onnx-005",
            f"{node.name} cannot be computed from its constants",
            where=node.where,
            why=str(error)[:200],
            help=MALFORMED,
        ) from error
    found = found.astype(np.float32) if found.dtype.kind == "f" else found
    take(found.nbytes, f"the result of {node.name}, which is constant", node.where)
    return found


def wrong(node: FileNode, what: str) -> ModelError:
    """An error for a malformed node, to be raised by the caller."""
    return ModelError("onnx-005", f"{node.name}: {what}", where=node.where, help=MALFORMED)


def _constant(node: FileNode, _: Sequence[Array]) -> Array:
    if "value" in node.tensors:
        return node.tensors["value"]
    (found,) = (v for k, v in node.attributes.items() if k.startswith("value_"))
    return np.array(found, np.float32 if "float" in next(iter(node.attributes)) else np.int64)


def _cast(node: FileNode, inputs: Sequence[Array]) -> Array:
    return inputs[0].astype(onnx.helper.tensor_dtype_to_np_dtype(whole(node, "to", 1)))


def _reshape(node: FileNode, inputs: Sequence[Array]) -> Array:
    return inputs[0].reshape(
        reshaped(inputs[0].shape, numbers(inputs[1]), bool(whole(node, "allowzero", 0)))
    )


def reshaped(
    shape: tuple[int, ...], wanted: tuple[int, ...], zero_is_zero: bool = False
) -> tuple[int, ...]:
    """Output shape of Reshape: 0 keeps an extent, unless `zero_is_zero`; -1 infers one.

    >>> reshaped((2, 3, 4), (0, -1))
    (2, 12)

    Raises ValueError if the numbers of elements differ."""
    found = [
        shape[k] if extent == 0 and not zero_is_zero and k < len(shape) else extent
        for k, extent in enumerate(wanted)
    ]
    if found.count(-1) == 1:
        known = -math.prod(found)
        found[found.index(-1)] = math.prod(shape) // known if known > 0 else 0
    if math.prod(found) != math.prod(shape) or min(found, default=0) < 0:
        raise ValueError(f"{list(shape)} cannot have shape {list(wanted)}")
    return tuple(found)


def squeezed(shape: tuple[int, ...], axes: Sequence[int] | None) -> tuple[int, ...]:
    """Output shape of Squeeze: without `axes`, or without all axes of extent 1.

    Raises ValueError if an axis has another extent."""
    rank = len(shape)
    chosen = {_axis(a, rank) for a in axes} if axes is not None else set(range(rank))
    if axes is not None and any(shape[a] != 1 for a in chosen):
        raise ValueError(f"axes {list(axes)} of {list(shape)} cannot be dropped")
    return tuple(e for a, e in enumerate(shape) if a not in chosen or e != 1)


def unsqueezed(shape: tuple[int, ...], axes: Sequence[int]) -> tuple[int, ...]:
    """Output shape of Unsqueeze: with axes of extent 1 inserted.

    Raises ValueError if an axis occurs twice."""
    rank = len(shape) + len(axes)
    chosen = {_axis(a, rank) for a in axes}
    if len(chosen) != len(axes):
        raise ValueError(f"axes {list(axes)} name one twice")
    rest = iter(shape)
    return tuple(1 if a in chosen else next(rest) for a in range(rank))


def flattened(shape: tuple[int, ...], axis: int) -> tuple[int, ...]:
    """Output shape of Flatten: axes before `axis` merged, and the other axes merged."""
    if not -len(shape) <= axis <= len(shape):
        raise ValueError(f"axis is {axis}, rank is {len(shape)}")
    axis += len(shape) if axis < 0 else 0
    return math.prod(shape[:axis]), math.prod(shape[axis:])


def _axis(axis: int, rank: int) -> int:
    if not -rank <= axis < rank:
        raise ValueError(f"axis is {axis}, rank is {rank}")
    return axis % rank


def listed_axes(node: FileNode, inputs: Sequence[Array | None]) -> tuple[int, ...] | None:
    """Axes of a node: an attribute in old opsets, the second input in new ones; None if absent."""
    found = node.attributes.get("axes")
    if found is not None:
        listed = found if isinstance(found, tuple) else (found,)
        if not all(isinstance(a, int) for a in listed):
            raise wrong(node, f"attribute axes is {found!r:.60}, must be integers")
        return tuple(int(a) for a in listed)
    return numbers(inputs[1]) if len(inputs) > 1 and inputs[1] is not None else None


def _unsqueeze(node: FileNode, inputs: Sequence[Array]) -> Array:
    return inputs[0].reshape(unsqueezed(inputs[0].shape, listed_axes(node, inputs) or ()))


def _squeeze(node: FileNode, inputs: Sequence[Array]) -> Array:
    return inputs[0].reshape(squeezed(inputs[0].shape, listed_axes(node, inputs)))


def _flatten(node: FileNode, inputs: Sequence[Array]) -> Array:
    return inputs[0].reshape(flattened(inputs[0].shape, whole(node, "axis", 1)))


def permutation(node: FileNode, rank: int) -> tuple[int, ...]:
    """Permutation of Transpose: input axis by output axis.  Raises ValueError if it is none."""
    found = node.attributes.get("perm", tuple(reversed(range(rank))))
    if not isinstance(found, tuple) or sorted(found) != list(range(rank)):
        raise ValueError(f"perm is {found}, must name each of {rank} axes once")
    return tuple(int(a) for a in found)


def _transpose(node: FileNode, inputs: Sequence[Array]) -> Array:
    return inputs[0].transpose(permutation(node, inputs[0].ndim))


def _concat(node: FileNode, inputs: Sequence[Array]) -> Array:
    _small(sum(x.size for x in inputs))
    return np.concatenate([np.atleast_1d(x) for x in inputs], whole(node, "axis", 0))


def _gather(node: FileNode, inputs: Sequence[Array]) -> Array:
    x, indices = inputs[0], inputs[1].astype(np.int64)
    _small(x.size * max(1, indices.size))
    return np.take(x, indices, axis=whole(node, "axis", 0))


def _shape(node: FileNode, inputs: Sequence[Array]) -> Array:
    return np.array(shape_slice(node, inputs[0].shape), np.int64)


def shape_slice(node: FileNode, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Output of Shape: the shape, or the slice of it that the node's attributes select."""
    end = node.attributes.get("end")
    return shape[whole(node, "start", 0) : None if end is None else whole(node, "end", 0)]


def _slice(node: FileNode, inputs: Sequence[Array]) -> Array:
    x, named = inputs[0], node.attributes
    if "starts" in named:
        lists = [named.get(k, ()) for k in ("starts", "ends", "axes")]
        starts, ends, axes = (tuple(v) if isinstance(v, tuple) else () for v in lists)
        steps: tuple[int | float, ...] = ()
    else:
        starts, ends, axes, steps = (*map(numbers, inputs[1:]), (), ())[:4]
    cut = [slice(None)] * x.ndim
    for k, (lower, upper) in enumerate(zip(starts, ends, strict=True)):
        axis = _axis(int(axes[k]) if axes else k, x.ndim)
        cut[axis] = slice(int(lower), int(upper), int(steps[k]) if steps else None)
    return x[tuple(cut)]


def _expand(_: FileNode, inputs: Sequence[Array]) -> Array:
    shape = np.broadcast_shapes(inputs[0].shape, numbers(inputs[1]))
    _small(math.prod(shape))
    return np.broadcast_to(inputs[0], shape)


def _constant_of_shape(node: FileNode, inputs: Sequence[Array]) -> Array:
    shape = numbers(inputs[0])
    _small(math.prod(shape))
    value = node.tensors.get("value", np.zeros(1, np.float32)).ravel()
    return np.full(shape, value[0], value.dtype)


def _range(_: FileNode, inputs: Sequence[Array]) -> Array:
    start, limit, step = (x.item() for x in inputs)
    _small(int(abs((limit - start) / step)) + 1)
    return np.arange(start, limit, step).astype(inputs[0].dtype)


def _divide(_: FileNode, inputs: Sequence[Array]) -> Array:
    a, b = inputs
    if a.dtype.kind == "f":
        return a / b
    return np.trunc(np.true_divide(a, b)).astype(a.dtype) if np.all(b) else a // 0


def _binary(function: Callable[[Array, Array], Array]) -> Fold:
    def fold(_: FileNode, inputs: Sequence[Array]) -> Array:
        _small(math.prod(np.broadcast_shapes(inputs[0].shape, inputs[1].shape)))
        return function(inputs[0], inputs[1])

    return fold


def _unary(function: Callable[[Array], Array]) -> Fold:
    return lambda _, inputs: function(inputs[0])


def numbers(x: Array) -> tuple[int, ...]:
    """A short list of integers, such as axes or extents.  Raises ValueError for other arrays."""
    if x.dtype.kind not in "iu":
        raise ValueError(f"{x.dtype} elements, must be integers")
    if x.size > 1000:
        raise ValueError(f"{x.size} numbers where axes or extents must be")
    return tuple(int(v) for v in x.ravel())


def whole(node: FileNode, attribute: str, default: int) -> int:
    """An integer attribute.  Raises ValueError for another type."""
    value = node.attributes.get(attribute, default)
    if not isinstance(value, int):
        raise ValueError(f"attribute {attribute} is {value!r:.60}, must be an integer")
    return value


def _small(elements: int) -> None:
    if elements > MOST_ELEMENTS:
        raise ValueError(f"it has {elements} elements, at most {MOST_ELEMENTS} are computed")


FOLDS: Mapping[str, Fold] = {
    "Abs": _unary(np.abs),
    "Add": _binary(np.add),
    "Cast": _cast,
    "Ceil": _unary(np.ceil),
    "Concat": _concat,
    "Constant": _constant,
    "ConstantOfShape": _constant_of_shape,
    "Div": _divide,
    "Expand": _expand,
    "Flatten": _flatten,
    "Exp": _unary(np.exp),
    "Floor": _unary(np.floor),
    "Gather": _gather,
    "Identity": _unary(np.asarray),
    "Mul": _binary(np.multiply),
    "Neg": _unary(np.negative),
    "Range": _range,
    "Reciprocal": _unary(np.reciprocal),
    "Relu": _unary(lambda x: np.maximum(x, 0)),
    "Reshape": _reshape,
    "Shape": _shape,
    "Sigmoid": _unary(lambda x: 1 / (1 + np.exp(-x))),
    "Slice": _slice,
    "Sqrt": _unary(np.sqrt),
    "Squeeze": _squeeze,
    "Sub": _binary(np.subtract),
    "Tanh": _unary(np.tanh),
    "Transpose": _transpose,
    "Unsqueeze": _unsqueeze,
}
