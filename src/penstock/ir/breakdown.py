"""Breakdown: what calls on an accelerator cost, resource by resource."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Breakdown:
    """Cycles of calls in all; by name of a resource, those for which the calls need it, however
    much of that others hide; and the multiply-accumulates that the multipliers do in a cycle at
    most, None where others than they compute.

    >>> once = Breakdown(12, {"multipliers": 10, "memory": 7}, 64)
    >>> (once + once).cycles, once.limit, once.utilisation(320, 10)
    (24, 'multipliers', 0.5)
    """

    cycles: float
    by_resource: Mapping[str, float] = field(default_factory=dict[str, float])
    macs_per_cycle: float | None = None

    def __add__(self, other: Breakdown) -> Breakdown:
        """Both, one after the other, on the same multipliers."""
        names = dict.fromkeys((*self.by_resource, *other.by_resource))
        mine, others = self.by_resource, other.by_resource
        return Breakdown(
            self.cycles + other.cycles,
            {name: mine.get(name, 0) + others.get(name, 0) for name in names},
            self.macs_per_cycle,
        )

    @property
    def limit(self) -> str | None:
        """The resource that is needed longest, the first of equals; None where none is named."""
        return max(self.by_resource, key=self.by_resource.__getitem__, default=None)

    def utilisation(self, macs: int, cycles: float) -> float | None:
        """The part of what the multipliers could do in so many cycles that so many
        multiply-accumulates are, in [0, 1]; None where they do nothing."""
        if self.macs_per_cycle is None or not cycles:
            return None
        return macs / (cycles * self.macs_per_cycle)
