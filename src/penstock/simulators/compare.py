"""Compares the tensors of two runs and locates the first difference."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from penstock.frozen import frozen
from penstock.ir.tensor import Array


@frozen
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


@frozen
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


# Judgement: the result of a comparison with a reference, node by node.


@frozen
class JudgedTensor:
    """A tensor, compared with what the reference computes from penstock's own tensors.

    node: the node of the model that computes it, as errors name it.
    group: all nodes that are compared as one, because no tensor between them can be compared.
    differing: elements that differ, of `elements`; `steps` is the largest difference, in
        quantisation steps (elements of tensors without quantisation count as one step).
    mismatches: elements that differ by more than allowed; `first` is the first of them.
    exception: the documented exception that was applied, or an empty text."""

    node: str
    group: tuple[str, ...]
    tensor: str
    elements: int
    differing: int
    steps: int
    mismatches: int = 0
    first: Difference | None = None
    exception: str = ""

    def __add__(self, other: JudgedTensor) -> JudgedTensor:
        """The result for the same tensor in further sets of inputs."""
        return JudgedTensor(
            self.node,
            self.group,
            self.tensor,
            self.elements + other.elements,
            self.differing + other.differing,
            max(self.steps, other.steps),
            self.mismatches + other.mismatches,
            self.first or other.first,
            self.exception or other.exception,
        )


@frozen
class EndToEnd:
    """The difference of all outputs from those of the reference, which ran the whole model by
    itself: as for `JudgedTensor`, of all sets together.

    unexplained: the first recorded output that the reference itself does not compute, if the
        reference's outputs are taken from an archive."""

    outputs: int
    elements: int
    differing: int
    steps: int
    unexplained: Difference | None = None

    def __str__(self) -> str:
        return f"{self.differing} of {self.elements} elements differ, by at most {self.steps} steps"


NOT_RUN = EndToEnd(0, 0, 0, 0)  # Of a reference that runs single nodes only.


@frozen
class Judgement:
    """All tensors in the order of the model's nodes, then the outputs; and the difference end to
    end."""

    reference: str
    tensors: tuple[JudgedTensor, ...]
    end_to_end: EndToEnd

    @property
    def comparison(self) -> Comparison:
        """The elements compared, and those that differ by more than allowed."""
        firsts = [t.first for t in self.tensors if t.first is not None]
        return Comparison(
            len(self.tensors),
            sum(t.elements for t in self.tensors),
            sum(t.mismatches for t in self.tensors),
            firsts[0] if firsts else None,
        )

    @property
    def failure(self) -> JudgedTensor | None:
        """The first tensor with a mismatch."""
        return next((t for t in self.tensors if t.mismatches), None)

    @property
    def differing(self) -> int:
        """Elements that differ at all."""
        return sum(t.differing for t in self.tensors)

    @property
    def steps(self) -> int:
        """The largest difference of an element, in steps."""
        return max((t.steps for t in self.tensors), default=0)

    @property
    def exceptions(self) -> tuple[str, ...]:
        """The documented exceptions that were applied."""
        return tuple(dict.fromkeys(t.exception for t in self.tensors if t.exception))

    def __str__(self) -> str:
        elements = self.comparison.elements
        found = f"{self.reference}: {self.differing} of {elements} elements differ"
        return found + f", by at most {self.steps} steps" * bool(self.differing)


def total(judgements: Sequence[Sequence[JudgedTensor]]) -> tuple[JudgedTensor, ...]:
    """The results of all sets, added up by tensor."""
    first, *others = judgements
    found = list(first)
    for other in others:
        found = [a + b for a, b in zip(found, other, strict=True)]
    return tuple(found)
