"""Plan: how one cascade, a sequence of parts that run interleaved stripe by stripe, is run."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import reduce

from penstock.brief import Brief
from penstock.ir.breakdown import Breakdown
from penstock.ir.op import Kernel
from penstock.scheduling.model.cost import NOTHING, Cost
from penstock.scheduling.model.part import Part
from penstock.scheduling.model.prefetch import AcceleratorCopy, Prefetch


@dataclass(frozen=True, slots=True, repr=False)
class Plan(Brief):
    """A cascade and its cost.

    parts: indices into `Parts.parts`, in execution order.
    stripe: maximum number of output rows that a part computes per call; None: all rows.
    nearest_first: order in which the missing inputs of a part are produced.  True: first
        the input that requires the rows of the network's inputs least in advance; False: first the
        one that requires them most in advance (sum of `RowRead.advance` over the reads between).
    costs: cost of each part, in the order of `parts`; empty before costing.
    prefetches: copies of constants for this cascade, those of the copy engine first.
    copying: cost of the copy engine's prefetches, including stalls.
    waiting: stall cycles of the accelerators' prefetches, unless the parts' costs include them.
    scratch_bytes: scratch memory that the parts share, one after the other.  Each part runs the
        kernel that fits (`Part.kernel_within`).
    breakdowns: breakdown of the cycles of each part, computed from tensor addresses; None for a
        part whose breakdown is unknown.  Empty before placement.
    """

    parts: tuple[int, ...]
    stripe: int | None
    nearest_first: bool
    costs: tuple[Cost, ...]
    prefetches: tuple[Prefetch, ...] = ()
    copying: Cost = NOTHING
    scratch_bytes: int = 0
    waiting: Cost = NOTHING
    breakdowns: tuple[Breakdown | None, ...] = field(default=(), compare=False)

    @property
    def bare(self) -> Plan:
        """The plan without costs."""
        if not self.costs:
            return self
        return replace(self, costs=(), copying=NOTHING, waiting=NOTHING, breakdowns=())

    @property
    def copies(self) -> tuple[Prefetch, ...]:
        """Prefetches by the copy engine."""
        return tuple(p for p in self.prefetches if p.accelerator is None)

    @property
    def accelerator_prefetches(self) -> tuple[tuple[Prefetch, AcceleratorCopy], ...]:
        """Prefetches by accelerators, each paired with its field `accelerator`."""
        pairs = ((p, p.accelerator) for p in self.prefetches)
        return tuple((prefetch, copy) for prefetch, copy in pairs if copy is not None)

    def with_copies(self, copies: Iterable[Prefetch]) -> Plan:
        """Return the plan with `copies` in place of its present prefetches by the copy engine."""
        others = (p for p in self.prefetches if p.accelerator is not None)
        return replace(self, prefetches=(*copies, *others))

    def kernel(self, k: int, part: Part) -> Kernel:
        """Return the kernel with which this plan runs `part`; `k` is its index in `Parts.parts`."""
        for prefetch in self.prefetches:
            copy = prefetch.accelerator
            if copy is not None and copy.part == k:
                return part.kernel_for(copy.prefetch)
        return part.kernel_within(self.scratch_bytes)

    def with_selected_kernel(self, k: int, part: Part) -> Part:
        """Return `part` with the kernel that this plan selects as its only kernel.

        k: index of the part in `Parts.parts`.
        """
        return part.with_kernel(self.kernel(k, part))

    @property
    def cost(self) -> Cost:
        """Total cost of the cascade."""
        return reduce(Cost.__add__, self.costs, self.copying + self.waiting)
