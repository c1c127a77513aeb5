"""OrderedParts: the parts of a graph in an execution order."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.scheduling.model.part import Part
from penstock.scheduling.model.parts import Parts


@dataclass(frozen=True, slots=True)
class OrderedParts:
    """The parts of a graph in an execution order.

    order: indices of the parts.
    """

    parts: Parts
    order: tuple[int, ...]

    @property
    def in_order(self) -> list[Part]:
        """The parts in execution order."""
        return [self.parts.parts[k] for k in self.order]
