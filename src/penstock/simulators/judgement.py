"""Judgement: the result of a comparison with a reference, node by node."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from penstock.simulators.compare import Comparison, Difference


@dataclass(frozen=True, slots=True)
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


@dataclass(frozen=True, slots=True)
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


NOT_RUN = EndToEnd(0, 0, 0, 0)
"""Of a reference that runs single nodes only."""


@dataclass(frozen=True, slots=True)
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
