"""settings: a record class for each driver function that changes settings of the engine.

The fields are the arguments of the C function in `smv.h`, in order.  Settings persist until they
are set again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import TypeVar


@dataclass(frozen=True, slots=True)
class WindowSteps:
    """The arguments of `smv_window`, which sets the strides and dilations of windows in rows (h)
    and columns (w)."""

    stride_h: int = 1
    stride_w: int = 1
    dilation_h: int = 1
    dilation_w: int = 1


@dataclass(frozen=True, slots=True)
class ElementRange:
    """The arguments of `smv_numbers`, which sets zero points and the bounds of output elements.

    in_zero: zero point of the input of a convolution or fully connected layer.
    out_zero: zero point of the output.
    least, most: bounds, both inclusive, to which int8 output elements are clamped."""

    in_zero: int = 0
    out_zero: int = 0
    least: int = -128
    most: int = 127


@dataclass(frozen=True, slots=True)
class TilePitches:
    """The arguments of `smv_pitches`, which sets the pitches of tiles in the scratchpads.

    A pitch is the distance in bytes between consecutive rows, columns, output channels or taps.

    x_row, x_column: the row and column pitch of the input, or of the first of two inputs.
    w_output, w_tap: the output channel and tap pitch of the weights.  An element-wise operation has
        no weights; for it, these are the row and column pitch of the second input, or 0 if the
        second input has one element per channel.
    y_row, y_column: the row and column pitch of the output.

    A pitch that the operation does not use is 0."""

    x_row: int = 0
    x_column: int = 0
    w_output: int = 0
    w_tap: int = 0
    y_row: int = 0
    y_column: int = 0


@dataclass(frozen=True, slots=True)
class TermScales:
    """The arguments of `smv_terms`, which sets the arithmetic of sums and products of two tensors.

    For input elements a and b, the result is the requantised value of

        sum       M0 * ((a - zero0) << 20) + sign1 * M1 * ((b - zero1) << 20)
        product   (a - zero0) * (b - zero1)

    zero0, zero1: zero points of a and b.
    multiplier0, shift0: define M0 = multiplier0 * 2**(shift0 - 31).
    multiplier1, shift1: define M1 = multiplier1 * 2**(shift1 - 31).
    sign1: 1 for a sum, -1 for a difference.
    out_multiplier, out_shift: define the factor of the requantisation in the same way."""

    zero0: int = 0
    zero1: int = 0
    multiplier0: int = 0
    shift0: int = 0
    multiplier1: int = 0
    shift1: int = 0
    sign1: int = 1
    out_multiplier: int = 0
    out_shift: int = 0


@dataclass(frozen=True, slots=True)
class ProductScales:
    """The arguments of `smv_scaling`, which sets the arithmetic of the products in
    `smv_batch_norm`.

    The product of an element x and a factor f is the requantised value of

        (x - zero0) * (f - zero1)

    zero0, zero1: zero points of x and f.
    out_multiplier, out_shift: define the factor of the requantisation,
        out_multiplier * 2**(out_shift - 31).
    out_zero: zero point of the product.
    least, most: bounds, both inclusive, to which the product is clamped."""

    zero0: int = 0
    zero1: int = 0
    out_multiplier: int = 0
    out_shift: int = 0
    out_zero: int = 0
    least: int = -128
    most: int = 127


Setting = TypeVar("Setting", WindowSteps, ElementRange, TermScales, ProductScales)


def setting(kind: type[Setting], parameters: Mapping[str, int]) -> Setting:
    """Return a record of class `kind`, such as `WindowSteps`, whose fields have the values of the
    kernel parameters of the same names.

    A field for which there is no parameter is 0.

    parameters: the parameters of a kernel by name, such as "stride_h"."""
    return kind(**{field.name: parameters.get(field.name, 0) for field in fields(kind)})
