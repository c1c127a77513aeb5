"""Functions of two int8 values as one weighted sum and a shift.

    y = saturate8((a * left + b * right + offset) >> shift), then clamped

The proof enumerates all pairs: 65,536, or fewer if an input is constant. The pairs of each output
span an interval of weighted sums, and the offset must place every interval inside the step of its
output.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from penstock.fixedpoint import Int64s

INPUTS = np.arange(-128, 128, dtype=np.int64)
Inputs = tuple[Int64s, Int64s]
"""The values that each of the two inputs may have."""
NEIGHBOURS = 4
"""Maximum distance of the weights that are tried from the real ones."""
MOST_SHIFT = 22


@dataclass(frozen=True, slots=True)
class WeightedSum:
    """The constants of the sum."""

    left: int
    right: int
    offset: int
    shift: int

    def outputs(self, inputs: Inputs, least: int, most: int) -> Int64s:
        """Return the outputs of all pairs (a, b)."""
        sums = inputs[0][:, None] * self.left + inputs[1] * self.right + self.offset
        return np.clip(np.clip(sums >> self.shift, -128, 127), least, most)

    @property
    def fits(self) -> bool:
        """Whether no partial sum overflows int32."""
        return 128 * (abs(self.left) + abs(self.right)) + abs(self.offset) < 2**31


def weighted_sum(
    inputs: Inputs, outputs: Int64s, left: float, right: float, least: int, most: int
) -> WeightedSum | None:
    """Return a sum that reproduces the outputs of all pairs, with weights close to the real ones;
    None if none was found.

    inputs: the values of a and of b.
    outputs: outputs[i, j] is the output of the pair (inputs[0][i], inputs[1][j]).
    left, right: the real weights.
    least, most: the bounds of the outputs, both inclusive."""
    nearest_0 = tuple(int(abs(values).argmin()) for values in inputs)
    largest = 128 * (abs(left) + abs(right)) + 256 + abs(float(outputs[nearest_0]))
    shift = min(int(np.floor(31 - np.log2(largest))), MOST_SHIFT)
    if shift < 0:
        return None
    steps = _Steps.of(outputs, least, most)
    for a, b in _weights(left, right, shift):
        offset = steps.offset(inputs[0][:, None] * a + inputs[1] * b, shift)
        if offset is not None:
            found = WeightedSum(a, b, offset, shift)
            if found.fits and (found.outputs(inputs, least, most) == outputs).all():
                return found
    return None


def _weights(left: float, right: float, shift: int) -> Iterator[tuple[int, int]]:
    """Yield pairs of weights, the nearest first."""
    near = sorted(range(-NEIGHBOURS, NEIGHBOURS + 1), key=abs)
    every = sorted(((a, b) for a in near for b in near), key=lambda pair: max(map(abs, pair)))
    a, b = round(left * 2**shift), round(right * 2**shift)
    yield from ((a + i, b + j) for i, j in every)


@dataclass(frozen=True, slots=True, eq=False)
class _Steps:
    """The pairs sorted by output, the index at which each output begins, and the distinct
    outputs."""

    order: Int64s
    starts: Int64s
    found: Int64s
    least: int
    most: int

    @staticmethod
    def of(outputs: Int64s, least: int, most: int) -> _Steps:
        order = np.argsort(outputs, axis=None, kind="stable")
        found, starts = np.unique(outputs.ravel()[order], return_index=True)
        return _Steps(order, starts, found, least, most)

    def offset(self, sums: Int64s, shift: int) -> int | None:
        """Return an offset that places every sum inside the step of its output, or None."""
        sums = sums.ravel()[self.order]
        low = (self.found << shift) - np.minimum.reduceat(sums, self.starts)
        high = (self.found + 1 << shift) - 1 - np.maximum.reduceat(sums, self.starts)
        low, high = low[self.found > self.least], high[self.found < self.most]
        if not len(low) or not len(high):
            return None
        return int(low.max() + high.min()) >> 1 if low.max() <= high.min() else None
