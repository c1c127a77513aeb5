"""Affine: the affine form of a propagator, which maps an output box to the input box that it reads.

For an output box [lower, upper) of rank r, the bounds along input axis i are

    lower[i] = floor(sum_j matrix[i][j] * out_lower[j] + offset[i])
    upper[i] = ceil(sum_j matrix[i][j] * out_upper[j] + offset[i] + matrix[i][r])

`matrix` is the augmented matrix without its last row (0, .., 0, 1).  `offset` is the start of the
input box for output index 0; it is negative where the input is padded.  Factors are non-negative;
constants may be negative.  Source: TVM RFC 0037, section "Affine Transforms", with exact fractions
instead of floats, so that upscaling stays exact.

The RFC's example is a 3 x 3 convolution of 8 channels without padding:

>>> from penstock import Affine
>>> conv = Affine.diagonal((1, 1, 1, 0), extra=(0, 2, 2, 8))
>>> conv.extents((1, 3, 3, 4))
(1, 5, 5, 8)

`a @ b` applies b, then a: the region that producer a reads for what its consumer b reads.

>>> (conv @ conv).extents((1, 3, 3, 4))
(1, 7, 7, 8)
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

from penstock.errors import UsageError
from penstock.frozen import frozen
from penstock.ir.tensor import Region

Number = int | Fraction


@frozen
class Affine:
    """An affine map from output boxes to input boxes.

    `matrix` has one row per input axis, and one column per output axis plus a column of constants.
    """

    matrix: tuple[tuple[Number, ...], ...]
    offset: tuple[Number, ...]

    @staticmethod
    def diagonal(
        factors: Sequence[Number], extra: Sequence[Number] = (), offset: Sequence[Number] = ()
    ) -> Affine:
        """A map in which input axis i depends only on output axis i.

        The input extent is factor * output extent + extra."""
        rank = len(factors)
        extra = extra or (0,) * rank
        rows = tuple(
            (*(factors[i] if i == j else 0 for j in range(rank)), extra[i]) for i in range(rank)
        )
        return Affine(rows, tuple(offset) or (0,) * rank)

    @staticmethod
    def constant(shape: Sequence[int], out_rank: int) -> Affine:
        """A map from every output box to the whole input."""
        return Affine(tuple((0,) * out_rank + (extent,) for extent in shape), (0,) * len(shape))

    @staticmethod
    def of_augmented(
        matrix: Sequence[Sequence[Number | float]], offset: Sequence[Number | float]
    ) -> Affine:
        """The map of a complete augmented matrix.

        Raises UsageError if the last row is not (0, .., 0, 1) or the extents do not match.

        >>> Affine.of_augmented([[0.5, 2], [0, 1]], [-1])
        Affine(matrix=((Fraction(1, 2), 2),), offset=(-1,))
        """
        rows = tuple(tuple(map(exact, row)) for row in matrix)
        _check_augmented(rows, len(offset))
        return Affine(rows[:-1], tuple(map(exact, offset)))

    @property
    def augmented(self) -> tuple[tuple[Number, ...], ...]:
        """The augmented matrix with its last row."""
        return (*self.matrix, (0,) * self.out_rank + (1,))

    @property
    def out_rank(self) -> int:
        """Number of output axes; 0 if the input has rank 0, since the matrix then has no row."""
        return len(self.matrix[0]) - 1 if self.matrix else 0

    def apply(self, out: Region) -> Region:
        """The input box of an output box, not clipped to the tensor."""
        lower: list[int] = []
        upper: list[int] = []
        for row, offset in zip(self.matrix, self.offset, strict=True):
            linear = row[:-1]
            start = sum(f * x for f, x in zip(linear, out.lower, strict=True)) + offset
            extent = sum(f * x for f, x in zip(linear, out.shape, strict=True)) + row[-1]
            lower.append(math.floor(start))
            upper.append(math.ceil(start + extent))
        return Region(tuple(lower), tuple(upper))

    def linear(self, vector: Sequence[Number]) -> tuple[Number, ...]:
        """The product of the matrix and a vector, without the constants."""
        return tuple(
            exact(sum(f * x for f, x in zip(row[:-1], vector, strict=True))) for row in self.matrix
        )

    def extents(self, shape: Sequence[int]) -> tuple[int, ...]:
        """Extents of the input box of an output box of `shape` that starts on integer indices."""
        linear = self.linear(shape)
        return tuple(math.ceil(x + row[-1]) for x, row in zip(linear, self.matrix, strict=True))

    def __matmul__(self, first: Affine) -> Affine:
        """The composition that applies `first`, then this map.

        Its box contains `self.apply(first.apply(out))` and equals it if the factors of `first` are
        integers.  Fractional factors round between the two steps; the composition is wider by as
        much as that rounding can add.
        """
        assert not self.matrix or self.out_rank == len(first.matrix), "axes do not match"
        first = first.with_rounding()
        matrix = tuple(_product(row, first.augmented) for row in self.matrix)
        linear = self.linear(first.offset)
        offset = tuple(exact(x + y) for x, y in zip(linear, self.offset, strict=True))
        return Affine(matrix, offset)

    def with_rounding(self) -> Affine:
        """A map whose unrounded bounds contain the rounded bounds of this one; equal for integers.

        If q is the least common denominator of the factors, each bound is a multiple of 1/q plus a
        constant.  Rounding therefore moves a bound by at most 1 - 1/q plus the distance of the
        constant from such a multiple."""
        if all(isinstance(x, int) for row in (*self.matrix, self.offset) for x in row):
            return self
        rows: list[tuple[Number, ...]] = []
        offsets: list[Number] = []
        for row, offset in zip(self.matrix, self.offset, strict=True):
            grain = Fraction(1, math.lcm(*(factor.denominator for factor in row[:-1])))
            below = 1 - grain + offset % grain
            above = 1 - grain + -(offset + row[-1]) % grain
            rows.append((*row[:-1], exact(row[-1] + below + above)))
            offsets.append(exact(offset - below))
        return Affine(tuple(rows), tuple(offsets))


def exact(number: Number | float) -> Number:
    """The same number as an int if it is an integer, else as a Fraction.

    >>> exact(2.25), exact(3.0)
    (Fraction(9, 4), 3)
    """
    if isinstance(number, int):
        return number
    fraction = Fraction(number)
    return fraction.numerator if fraction.denominator == 1 else fraction


def _product(
    row: tuple[Number, ...], augmented: tuple[tuple[Number, ...], ...]
) -> tuple[Number, ...]:
    columns = zip(*augmented, strict=True)
    return tuple(exact(sum(f * x for f, x in zip(row, c, strict=True) if f)) for c in columns)


def _check_augmented(rows: tuple[tuple[Number, ...], ...], offsets: int) -> None:
    widths = sorted({len(row) for row in rows})
    if len(widths) != 1 or widths[0] == 0:
        what = (
            f"the rows of the augmented matrix have {widths or 'no'} columns, must have one number"
        )
    elif rows[-1] != (0,) * (widths[0] - 1) + (1,):
        what = f"the last row is ({', '.join(map(str, rows[-1]))}), must be (0, .., 0, 1)"
    elif offsets != len(rows) - 1:
        what = f"there are {offsets} offsets for {len(rows) - 1} input axes, must be one for each"
    else:
        return
    raise UsageError(
        "affine-001",
        what,
        where="an affine form",
        why="a row for each input axis and the last row, a column for each output axis and one "
        "for constants (TVM RFC 0037)",
        help="write [[1, 0, 2], [0, 2, -1], [0, 0, 1]] with two offsets for two axes",
    )
