"""exactness: whether the NPU's arithmetic equals TFLite's for every possible element.

The NPU's arithmetic is derived from its register interface and from Arm's compiler Vela.

Element-wise sums: TFLite shifts both terms left by 20 bits and then multiplies each by its scale.
The larger scale is 1/2, so the NPU shifts that term left by 19 bits only, with the same result. The
NPU multiplies the other term by its scale * 2 ** 20 in a single step, which may round differently
from TFLite's two steps. In a special case, the NPU shifts both terms left by 15 bits instead
(`terms_are_shifted_equally`).

Averages: the NPU multiplies by a reciprocal that is rounded up, where TFLite divides.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from penstock.uma import Array, multiply
from penstock_ethos_u.configurations import MapShape
from penstock_ethos_u.operation import NpuFunction, Operation, SecondInput

BITS, EQUAL_BITS = 20, 16
"""Left shift of the terms of a sum in bits, including the scale of 1/2: in general, and if
`terms_are_shifted_equally`."""
LOW_BITS = 12
"""Number of low bits of the multiplier of a sum that are zero if `terms_are_shifted_equally`."""
HALF = (1 << 30, 0)
"""TFLite's multiplier and shift of the term with the larger scale: a factor of 1/2."""
ELEMENTS = np.arange(-128, 128, dtype=np.int64)


def sum_is_exact(op: Operation, others: Array) -> bool | str:
    """Return True if the NPU's sum or difference equals TFLite's for all pairs of elements, or else
    the reason why it does not.

    others: the values that the elements of the second input may have."""
    return _sum_differences(op, tuple(others.tolist()))


@lru_cache(maxsize=1024)
def _sum_differences(op: Operation, others: tuple[int, ...]) -> bool | str:
    """Compare the NPU's sum or difference with TFLite's for all pairs of elements. Return True if
    all results are equal, or else a reason such as "of 65536 sums 12 differ".

    others: the values that the elements of the second input may have."""
    second = op.second or SecondInput(MapShape(1, 1, 1))
    left = (ELEMENTS - op.in_zero)[:, None]
    right = (np.array(others, np.int64) - second.zero)[None, :]
    scales = (op.multiplier0, op.shift0), (op.multiplier1, op.shift1)
    if HALF not in scales:
        return "neither of its terms has the larger scale"
    sign = -1 if op.function is NpuFunction.SUBTRACT else 1
    signs = (sign, 1) if second.is_left else (1, sign)
    wanted = [multiply(x << BITS, *s) for x, s in zip((left, right), scales, strict=True)]
    bits = EQUAL_BITS if terms_are_shifted_equally(op) else BITS
    found = [_scaled_term(x, bits, *s) for x, s in zip((left, right), scales, strict=True)]
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


def terms_are_shifted_equally(op: Operation) -> bool:
    """Return whether the NPU shifts both terms of a sum left by 15 bits. Otherwise, it shifts only
    the term with the larger scale, by 19 bits.

    Vela makes the NPU shift both if they have the same scale and the low 12 bits of the output's
    multiplier are zero."""
    same = (op.multiplier0, op.shift0) == (op.multiplier1, op.shift1)
    return same and op.out_multiplier % (1 << LOW_BITS) == 0


def _scaled_term(x: Array, bits: int, multiplier: int, shift: int) -> Array:
    """Return the term `x` of a sum, shifted left by `bits` bits and multiplied by its scale, which
    is `multiplier` * 2 ** (`shift` - 31). The NPU does both in a single step, unlike TFLite."""
    if (multiplier, shift) == HALF:
        return x << (bits - 1)
    return multiply(x, multiplier, shift + bits)


@lru_cache(maxsize=1024)
def average_is_exact(op: Operation) -> bool | str:
    """Return True if the NPU's average equals TFLite's for all elements in all windows of the
    operation, or else the reason why it does not."""
    counts = {r * c for r in _window_extents(op, 0) for c in _window_extents(op, 1)}
    odd = sorted(count for count in counts if not _reciprocal_is_exact(count))
    return not odd or f"averages of {odd[0]} elements differ"


def _window_extents(op: Operation, axis: int) -> set[int]:
    """Return the distinct numbers of input rows (`axis` 0) or columns (`axis` 1) that windows of an
    operation cover. Padding is not counted, so a window at a border may cover fewer than others."""
    size, out, kernel, stride, before = (
        (op.in_h, op.out_h, op.kernel_h, op.stride_h, op.pad_top),
        (op.in_w, op.out_w, op.kernel_w, op.stride_w, op.pad_left),
    )[axis]
    starts = [k * stride - before for k in range(out)]
    return {min(start + kernel, size) - max(start, 0) for start in starts}


@lru_cache(maxsize=4096)
def _reciprocal_is_exact(count: int) -> bool:
    """Return whether the NPU computes every average of `count` int8 elements as TFLite does; False
    if `count` is not positive.

    The NPU multiplies the sum of the elements by the reciprocal of `count` and rounds. TFLite
    divides the sum by `count` and rounds."""
    if count < 1:
        return False
    # Neither result decreases when the sum increases.  So it suffices to check the sums at which
    # TFLite's result changes, and their neighbours.
    halves = np.arange(-128, 128, dtype=np.int64) * count + count // 2
    near = np.unique((halves[:, None] + np.arange(-2, 3)).ravel())
    sums = near[abs(near) <= 128 * count]
    bits = (count - 1).bit_length()
    scale = ((1 << (31 + bits)) + (1 << bits)) // count
    quotient = np.sign(sums) * ((2 * abs(sums) + count) // (2 * count))
    return bool((_scaled(sums, scale, 31 + bits) == quotient).all())


def _scaled(x: Array, scale: int, shift: int) -> Array:
    """Return `x * scale / 2**shift` with the NPU's rounding, which rounds twice if `shift` exceeds
    31."""
    twice = np.where(x >= 0, 1, -1) * (1 << 30) * (shift > 31)
    product = x.astype(object) * scale
    return np.array((product + ((1 << shift) >> 1) + twice) >> shift, dtype=np.int64)
