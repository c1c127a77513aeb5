"""Judgement: the result of a comparison with real arithmetic."""

from __future__ import annotations

from dataclasses import dataclass, field

from penstock.simulators.compare import Comparison


@dataclass(slots=True)
class Judgement:
    """The result of a comparison.

    `near` counts elements that differ by one step; `unjudged` lists operators that the evaluator
    does not implement."""

    comparison: Comparison = field(default_factory=Comparison)
    near: int = 0
    unjudged: set[str] = field(default_factory=set[str])

    def __str__(self) -> str:
        off = f"{self.near} of {self.comparison.elements} elements one step off"
        left = f"; not judged: {', '.join(sorted(self.unjudged))}" if self.unjudged else ""
        return off + left
