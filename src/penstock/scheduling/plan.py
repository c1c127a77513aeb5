"""Plan: how one cascade runs.  A cascade is parts that run together, stripe by stripe."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import reduce

from penstock.brief import Brief
from penstock.ir.breakdown import Breakdown
from penstock.ir.op import Fetch, Kernel
from penstock.scheduling.cost import NOTHING, Cost
from penstock.scheduling.part import Part


@dataclass(frozen=True, slots=True)
class ConstantCopy:
    """A constant that a cascade reads in another memory than its own, into which it is copied
    before the cascade; `early`: while the cascade before runs (double buffering)."""

    constant: str
    size_bytes: int
    memory: str
    early: bool


@dataclass(frozen=True, slots=True)
class Fetched:
    """Constants that are fetched for a part of a cascade, by its accelerator in the cascade's first
    call; `early`: in that of the cascade before."""

    part: int
    fetch: Fetch
    early: bool


@dataclass(frozen=True, slots=True, repr=False)
class Plan(Brief):
    """A cascade: its parts (indices into Parts, in order), and what each of them costs.

    `stripe`: the most rows that a part computes at a time, None: all at once.  `nearest_first`: of
    the inputs of a part, the one that reads least ahead is produced first, not the one that reads
    furthest.  `copying`: what the copies cost, and waiting for them.  `waiting`: for what is
    `fetched`, as far as that is not among the costs of calls.  `needs`: by part, what its calls
    need of its accelerator, where that is known for the addresses of their tensors.
    `scratch_bytes`: working memory that its parts use one after the other; each runs the kernel
    that it has room for.
    """

    parts: tuple[int, ...]
    stripe: int | None
    nearest_first: bool
    costs: tuple[Cost, ...]
    copies: tuple[ConstantCopy, ...] = ()
    copying: Cost = NOTHING
    scratch_bytes: int = 0
    fetched: tuple[Fetched, ...] = ()
    waiting: Cost = NOTHING
    needs: tuple[Breakdown | None, ...] = field(default=(), compare=False)

    @property
    def bare(self) -> Plan:
        """The plan without costs."""
        if not self.costs:
            return self
        return replace(self, costs=(), copying=NOTHING, waiting=NOTHING, needs=())

    def kernel(self, k: int, part: Part) -> Kernel:
        """The kernel that serves part number k here."""
        fetch = next((f.fetch for f in self.fetched if f.part == k), None)
        if fetch is None:
            return part.kernel_within(self.scratch_bytes)
        return part.kernel_for(fetch)

    def served(self, k: int, part: Part) -> Part:
        """Part number k with that kernel alone."""
        return part.by(self.kernel(k, part))

    @property
    def cost(self) -> Cost:
        return reduce(Cost.__add__, self.costs, self.copying + self.waiting)
