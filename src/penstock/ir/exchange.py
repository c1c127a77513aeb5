"""Exchange of rows and columns: a network computes the same if all its images are transposed.

An image is a tensor (H, W, C) or (1, H, W, C); the exchanged image is (W, H, C) or (1, W, H, C).
`Exchangeable` operators state what computes the exchanged output from exchanged operands.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Protocol, Self, TypeVar, runtime_checkable

from penstock.ir.op import Op
from penstock.ir.tensor import Array, Data, TensorType

_Item = TypeVar("_Item")


@runtime_checkable
class Exchangeable(Protocol):
    """An operator whose operands can be exchanged images (optional interface)."""

    def exchanged(self, rank: int) -> Op:
        """The operator that computes the exchanged output from exchanged operands.

        rank: of the output and of all inputs that are not constant: 3 or 4."""
        ...


class ExchangedPair:
    """Base of operators that compute the exchanged output with `rows` and `columns` exchanged, as
    those do whose results do not depend on the order of taps, such as sums of integers."""

    __slots__ = ()

    def exchanged(self, rank: int) -> Self:
        op: Any = self
        return replace(op, rows=op.columns, columns=op.rows)


class ExchangedAxis:
    """Base of operators that compute the exchanged output along the exchanged `axis`."""

    __slots__ = ()

    def exchanged(self, rank: int) -> Self:
        op: Any = self
        return replace(op, axis=exchanged_axis(op.axis, rank))


def is_image(shape: tuple[int, ...]) -> bool:
    """Whether a tensor is an image: (H, W, C) or (1, H, W, C).

    >>> is_image((7, 5, 3)), is_image((1, 7, 5, 3)), is_image((2, 7, 5, 3)), is_image((5, 3))
    (True, True, False, False)
    """
    return len(shape) == 3 or (len(shape) == 4 and shape[0] == 1)


def exchanged_axis(axis: int, rank: int) -> int:
    """The axis of the exchanged image that an axis of the image becomes.

    >>> [exchanged_axis(axis, rank=4) for axis in range(4)]
    [0, 2, 1, 3]
    """
    return {rank - 3: rank - 2, rank - 2: rank - 3}.get(axis, axis)


def exchanged_entries(entries: tuple[_Item, ...]) -> tuple[_Item, ...]:
    """Values for the axes of the exchanged image, given those for the axes of the image.

    >>> exchanged_entries((1, 5, 7, 3))
    (1, 7, 5, 3)
    """
    return (*entries[:-3], entries[-2], entries[-3], entries[-1])


def exchanged_shape(shape: tuple[int, ...]) -> tuple[int, ...]:
    """The shape of an exchanged operand: an image, weights (O, K, L, C), or values (C).

    >>> exchanged_shape((1, 5, 7, 3)), exchanged_shape((3,))
    ((1, 7, 5, 3), (3,))
    """
    assert len(shape) != 2, "a matrix is no image"
    return exchanged_entries(shape) if len(shape) >= 3 else shape


def exchanged_type(type: TensorType) -> TensorType:
    """The type of an exchanged operand; scales along an axis stay with its elements."""
    made = type.with_shape(exchanged_shape(type.shape))
    quantised = type.quantisation
    if quantised is None or quantised.axis is None:
        return made
    axis = exchanged_axis(quantised.axis % type.rank, type.rank)
    return replace(made, quantisation=replace(quantised, axis=axis))


def exchanged_elements(elements: Array) -> Array:
    """The elements of an exchanged operand."""
    return elements.swapaxes(-3, -2) if elements.ndim >= 3 else elements


def exchanged_data(type: TensorType, data: Data) -> Data:
    """The elements of an exchanged constant, given the type of the constant."""
    return Data.of(exchanged_elements(data.array(type)))
