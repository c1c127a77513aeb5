"""Conditions of patterns on tensors: element types, shapes, and the elements of constants."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from penstock.backends.description import backend_code, name_of
from penstock.errors import BackendError, did_you_mean
from penstock.ir.tensor import Array, DType, TensorType

Predicate = Callable[[Array], bool]
"""A predicate of the elements of a constant."""
Extent = int | Callable[[int], bool] | None
"""The extent of an axis: a number, a predicate, or None for any extent."""


@dataclass(frozen=True, slots=True)
class ConstantTest:
    """A condition on the elements of a constant.

    text: the condition as patterns print it.
    holds: the condition as a predicate of the elements."""

    text: str
    holds: Predicate

    @staticmethod
    def of(value: float | Array | Predicate) -> ConstantTest:
        """Return the condition that `value` states.

        value: a number that every element equals, an array that equals the constant, or a predicate
            of the constant's elements."""
        if callable(value):
            return ConstantTest(f"that passes {name_of(value)}", value)
        wanted = np.asarray(value)
        if wanted.ndim == 0:
            return ConstantTest(str(value), lambda found: bool((found == wanted).all()))
        text = f"equal to an array of shape {list(wanted.shape)}"
        return ConstantTest(text, lambda found: np.array_equal(found, wanted))

    def accepts(self, elements: Array) -> bool:
        """Return whether the elements of a constant satisfy the condition.

        Raises BackendError if the predicate raises an exception."""
        with backend_code("predicate of a constant", "is_constant(..)"):
            return bool(self.holds(elements))


def element_type(dtype: str | DType) -> DType:
    """Return the element type of a name, such as "int8".  Raises BackendError for other names."""
    names = {each.name.lower(): each for each in DType}
    if isinstance(dtype, DType):
        return dtype
    if dtype in names:
        return names[dtype]
    raise BackendError(
        "backend-062",
        f"there is no element type {dtype!r}",
        where=f"has_dtype({dtype!r})",
        why=f"the element types are {', '.join(names)}",
        help=f"{did_you_mean(dtype, names)}write it in lower-case letters",
    )


def extents(shape: Sequence[Extent]) -> tuple[Extent, ...]:
    """Return the shape as a tuple of extents, one for each axis.

    An extent is a number of at least 1, a predicate of a number, or None for any number.  Raises
    BackendError if an element of `shape` is anything else."""
    for extent in shape:
        if extent is not None and not callable(extent) and (type(extent) is not int or extent < 1):
            raise BackendError(
                "backend-063",
                f"{extent!r} is not an extent",
                where=f"has_shape({list(shape)!r:.60})",
                why="an extent is a number of at least 1, None, or a predicate of a number",
                help="write None for an axis that may have any extent",
            )
    return tuple(shape)


def shape_problem(wanted: Sequence[Extent], found: tuple[int, ...]) -> str:
    """Return why a shape does not have the wanted extents; "" if it has.

    >>> shape_problem((1, None), (2, 3)), shape_problem((1, None), (1, 3))
    ('axis 0 is 2, must be 1', '')
    """
    if len(wanted) != len(found):
        return f"the rank is {len(found)}, must be {len(wanted)}"
    for axis, (extent, actual) in enumerate(zip(wanted, found, strict=True)):
        if callable(extent):
            with backend_code("predicate of an extent", "has_shape(..)"):
                accepted = bool(extent(actual))
            if not accepted:
                return f"axis {axis} is {actual}, which {name_of(extent)} rejects"
        elif extent is not None and extent != actual:
            return f"axis {axis} is {actual}, must be {extent}"
    return ""


def type_problem(dtype: DType | None, shape: tuple[Extent, ...] | None, type: TensorType) -> str:
    """Return how `type` differs from the wanted element type and shape; "" if it has both.

    dtype: the wanted element type; None for any.
    shape: the wanted extents; None for any shape."""
    if dtype is not None and type.dtype is not dtype:
        return f"the element type is {type.dtype.name.lower()}, must be {dtype.name.lower()}"
    return "" if shape is None else shape_problem(shape, type.shape)
