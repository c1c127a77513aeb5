"""exactness: whether the NPU's arithmetic gives TFLite's results for all elements there are.

The NPU's are as its register interface and Arm's compiler have them: a term of a sum is raised by
19 bits, or scaled by a multiplier that includes them, where TFLite raises by 20 bits and then
scales; an average is a product with a rounded-up reciprocal.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from penstock.accelerators.ethos_u.operation import WITH_SCALAR, Function, Operation
from penstock.uma import Array, multiply

BITS, EQUAL_BITS = 20, 16
LOW_BITS = 12
HALF = (1 << 30, 0)
"""The multiplier of the term with the larger scale."""
ELEMENTS = np.arange(-128, 128, dtype=np.int64)


def sum_is_exact(op: Operation) -> bool | str:
    """Of all pairs of elements."""
    return _sum_differences(op)


@lru_cache(maxsize=1024)
def _sum_differences(op: Operation) -> bool | str:
    left = (ELEMENTS - op.in_zero)[:, None]
    others = np.array([op.scalar]) if op.second == WITH_SCALAR else ELEMENTS
    right = (others - op.second_zero)[None, :]
    scales = (op.multiplier0, op.shift0), (op.multiplier1, op.shift1)
    if HALF not in scales:
        return "neither of its terms has the larger scale"
    sign = -1 if op.function == Function.SUBTRACT else 1
    signs = (sign, 1) if op.second_first else (1, sign)
    wanted = [multiply(x << BITS, *s) for x, s in zip((left, right), scales, strict=True)]
    bits = EQUAL_BITS if is_simple(op) else BITS
    found = [_raised(x, bits, *s) for x, s in zip((left, right), scales, strict=True)]
    limits = op.least - op.out_zero, op.most - op.out_zero
    sums = [
        np.clip(
            multiply(signs[0] * a + signs[1] * b, op.out_multiplier, op.out_shift + BITS - raised),
            *limits,
        )
        for (a, b), raised in ((wanted, BITS), (found, bits))
    ]
    odd = int((sums[0] != sums[1]).sum())
    return not odd or f"of {sums[0].size} sums {odd} differ"


def is_simple(op: Operation) -> bool:
    """Whether Arm's compiler raises both terms alike, by fewer bits: where they have one scale, and
    the low bits of the sum's multiplier are zero."""
    same = (op.multiplier0, op.shift0) == (op.multiplier1, op.shift1)
    return same and op.out_multiplier % (1 << LOW_BITS) == 0


def _raised(x: Array, bits: int, multiplier: int, shift: int) -> Array:
    """A term as the NPU scales it: the multiplier includes the bits by which it is raised."""
    if (multiplier, shift) == HALF:
        return x << (bits - 1)
    return multiply(x, multiplier, shift + bits)


@lru_cache(maxsize=1024)
def average_is_exact(op: Operation) -> bool | str:
    """Of all sums of elements, for each number of elements that a window may have."""
    counts = {r * c for r in _counts(op, 0) for c in _counts(op, 1)}
    odd = sorted(count for count in counts if not _divides(count))
    return not odd or f"averages of {odd[0]} elements differ"


def _counts(op: Operation, axis: int) -> set[int]:
    """How many rows, or columns, windows see that are no padding."""
    size, out, kernel, stride, before = (
        (op.in_h, op.out_h, op.kernel_h, op.stride_h, op.pad_top),
        (op.in_w, op.out_w, op.kernel_w, op.stride_w, op.pad_left),
    )[axis]
    starts = [k * stride - before for k in range(out)]
    return {min(start + kernel, size) - max(start, 0) for start in starts}


@lru_cache(maxsize=4096)
def _divides(count: int) -> bool:
    """Whether a product with the reciprocal is the rounded quotient of all sums of so many
    elements.  Both grow with the sum, so they are compared where the quotient changes."""
    if count < 1:
        return False
    halves = np.arange(-128, 128, dtype=np.int64) * count + count // 2
    near = np.unique((halves[:, None] + np.arange(-2, 3)).ravel())
    sums = near[abs(near) <= 128 * count]
    bits = (count - 1).bit_length()
    scale = ((1 << (31 + bits)) + (1 << bits)) // count
    quotient = np.sign(sums) * ((2 * abs(sums) + count) // (2 * count))
    return bool((_scaled(sums, scale, 31 + bits) == quotient).all())


def _scaled(x: Array, scale: int, shift: int) -> Array:
    """x * scale / 2**shift, rounded twice where more than 31 bits are shifted."""
    twice = np.where(x >= 0, 1, -1) * (1 << 30) * (shift > 31)
    product = x.astype(object) * scale
    return np.array((product + ((1 << shift) >> 1) + twice) >> shift, dtype=np.int64)
