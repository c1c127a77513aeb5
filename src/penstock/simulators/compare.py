"""Compares the tensors of two runs and locates the first difference."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from penstock.ir.tensor import Array


@dataclass(frozen=True, slots=True)
class Difference:
    """The first difference of two runs.  Without an index, the values are CRC-32 of tensors."""

    tensor: str
    set_number: int
    index: tuple[int, ...] | None
    expected: float
    found: float
    elements: int

    def __str__(self) -> str:
        if self.index is None:
            found, expected = int(self.found), int(self.expected)
            return (
                f'"{self.tensor}" of set {self.set_number}: CRC-32 is {found:08x}, '
                f"must be {expected:08x}"
            )
        return (
            f'"{self.tensor}" of set {self.set_number}: element {list(self.index)} is {self.found},'
            f" must be {self.expected}; {self.elements} elements of the tensor differ"
        )


@dataclass(frozen=True, slots=True)
class Comparison:
    """Number of tensors and elements compared and of different elements; the first difference."""

    tensors: int = 0
    elements: int = 0
    mismatches: int = 0
    first: Difference | None = None

    def __add__(self, other: Comparison) -> Comparison:
        return Comparison(
            self.tensors + other.tensors,
            self.elements + other.elements,
            self.mismatches + other.mismatches,
            self.first or other.first,
        )


def compare_tensor(
    name: str, set_number: int, found: Array, *accepted: Array, ulps: int = 0
) -> Comparison:
    """Compares `found` with each accepted answer; returns the comparison with fewest mismatches.

    `ulps`: the tolerance, see `is_near`."""
    results = [_compare(name, set_number, found, expected, ulps) for expected in accepted]
    return min(results, key=lambda result: result.mismatches)


def is_near(found: Array, expected: Array, ulps: int = 0) -> Array:
    """Whether each element equals the expected one; NaN equals NaN.

    With `ulps`, real numbers may differ by that many units in the last place of the largest
    expected element along the last axis, and 8-bit integers by one step, as they may be such
    numbers rounded."""
    equal = (found == expected) | ((found != found) & (expected != expected))
    if not ulps or not found.size:
        return equal
    if found.dtype.kind == "f":
        sizes = np.where(np.isfinite(expected), np.abs(expected), np.float32(0))
        largest = sizes.max(axis=-1, keepdims=True) if sizes.ndim else sizes
        with np.errstate(invalid="ignore"):
            off = np.abs(found.astype(np.float64) - expected.astype(np.float64))
        return equal | (off <= ulps * np.spacing(largest).astype(np.float64))
    if found.dtype.itemsize == 1:
        return np.abs(found.astype(np.int64) - expected.astype(np.int64)) <= 1
    return equal


def _compare(
    name: str, set_number: int, found: Array, expected: Array, ulps: int = 0
) -> Comparison:
    """Masked elements of `found` are not compared (`numpy.ma`)."""
    expected = expected.reshape(found.shape)
    masked, found = np.ma.getmaskarray(found), np.ma.getdata(found)
    compared = found.size - int(masked.sum())
    wrong = np.argwhere(~is_near(found, expected, ulps) & ~masked)
    if not len(wrong):
        return Comparison(1, compared)
    index = tuple(int(i) for i in wrong[0])
    values = (expected[index].item(), found[index].item())
    first = Difference(name, set_number, index, *values, len(wrong))
    return Comparison(1, compared, len(wrong), first)


def compare_sets(
    names: Iterable[str],
    found: Iterable[Mapping[str, Array]],
    expected: Iterable[Mapping[str, Array]],
) -> Comparison:
    """Compares the named tensors of every set, in the order of the names."""
    order = tuple(names)
    total = Comparison()
    for number, (mine, theirs) in enumerate(zip(found, expected, strict=True)):
        for name in order:
            total += compare_tensor(name, number, mine[name], theirs[name])
    return total
