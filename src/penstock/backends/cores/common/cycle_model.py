"""Cycle model of a core family: how often each part of a kernel runs, times its cycles.

A kernel is nested loops in C and assembly.  A count function states how often each of its parts
runs for a whole output (`portable_counts.py`, and `counts.py` of a family).  The cycles of each
part are in the family's `figures.toml`, which `python -m benchmarks.kernel_figures` fits to random
layers on the simulated core; loops in assembly are counted in cycles directly and not fitted.  The
generated C keeps compilers from specialising a kernel for its callers (`PENSTOCK_KERNEL` in
`view.h`), so the figures hold in every network.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from importlib import resources

from penstock.backends.cores.common.portable_counts import Counts, portable_counts
from penstock.ir.op import Kernel, Op, Site

ASSEMBLY_CYCLES = "cycles"
"""The part that is counted in cycles: loops in assembly."""
Figures = Mapping[str, float]
"""Cycles per run of each part of a kernel."""


def no_odd_cycles(kernel: Kernel) -> int:
    """The default: no kernel takes longer for an odd number of pixels."""
    return 0


@dataclass(frozen=True, slots=True)
class CycleModel:
    """Cycles of kernels on the cores of a family.

    `package` is the family's package, which holds `figures.toml`.  `counts` states how often the
    parts of a kernel run; it returns None for kernels that state their cycles themselves.
    `odd_cycles` returns the cycles that a call adds if it computes an odd number of pixels."""

    package: str
    counts: Callable[[Op, Site, Kernel], Counts | None] = portable_counts
    odd_cycles: Callable[[Kernel], int] = no_odd_cycles

    @property
    def figures(self) -> Mapping[str, Figures]:
        """The figures of each kernel, by its name."""
        return _figures(self.package)

    def priced(self, op: Op, site: Site, kernel: Kernel) -> Kernel:
        """The kernel with its cycles; unchanged if there are no figures or no counts for it."""
        figures = self.figures.get(kernel.name)
        counts = self.counts(op, site, kernel)
        if figures is None or counts is None:
            return kernel
        work = sum(
            count if part == ASSEMBLY_CYCLES else count * figures.get(part, 0.0)
            for part, count in counts.items()
        )
        odd = self.odd_cycles(kernel)
        odd = odd and odd * (site.output.shape[2] % 2)
        return replace(kernel, work_cycles=round(work), odd_cycles=odd)

    def cycles(self, op: Op, site: Site, kernel: Kernel) -> float:
        """Cycles of the whole output in one call; infinite if unknown."""
        found = self.priced(op, site, kernel)
        if found.work_cycles is None:
            return float("inf")
        return found.work_cycles + found.odd_cycles


@cache
def _figures(package: str) -> Mapping[str, Figures]:
    return tomllib.loads(resources.files(package).joinpath("figures.toml").read_text("utf-8"))
