"""Cycle model of a core family: the cycles of a kernel are a weighted sum of how often each of its
sections (a loop body or a copy, for example) is executed.

A kernel is a loop nest in C and assembly.  A count function returns how often each section of the
kernel is executed while it computes a whole output (`counts.py`, and `counts.py` of a
family).  The weight of a section is the number of cycles of one execution.  The weights are in the
family's `figures.toml`; `python -m benchmarks.kernel_figures` fits them to the cycles of random
layers on the simulated core.  They are valid in every network, because compilers cannot specialise
a kernel for its calls in one network (`PENSTOCK_KERNEL` in `view.h`).

Loops in assembly have no weights: the count function computes their cycles and returns the sum
under the key "cycles".  The weight of this key is 1, unless the timing of the simulated core
differs from the timing that the count function assumes.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from importlib import resources

from penstock.backends.cores.common.counts import Counts, portable_counts
from penstock.ir.op import Kernel, Op, Site

# Key of the count that is a number of cycles, those of loops in assembly.
ASSEMBLY_CYCLES = "cycles"
# The fitted cycles per run of each section of a kernel, by the section's name.
Figures = Mapping[str, float]


def no_odd_cycles(kernel: Kernel) -> int:
    """Return 0: the default of `CycleModel.odd_cycles`."""
    # Kernels that do not compute pixels in pairs take no additional cycles for an odd number.
    return 0


@dataclass(frozen=True, slots=True)
class CycleModel:
    """Cycles of kernels on the cores of a family.

    package: the name of the family's package, which contains `figures.toml`.
    counts: returns how often each section of a kernel runs for the whole output.  It returns None
        for a kernel that it does not know; the cycles of this kernel remain as they are.
    odd_cycles: returns the additional cycles of a call that computes an odd number of pixels;
        nonzero only for kernels that compute pixels in pairs."""

    package: str
    counts: Callable[[Op, Site, Kernel], Counts | None] = portable_counts
    odd_cycles: Callable[[Kernel], int] = no_odd_cycles

    @property
    def figures(self) -> Mapping[str, Figures]:
        """The fitted cycles of one execution of a section, by kernel name, then by section name."""
        return _figures(self.package)

    def priced(self, op: Op, site: Site, kernel: Kernel) -> Kernel:
        """Return the kernel with its cycles set, or unchanged if the cycles are unknown."""
        figures = self.figures.get(kernel.name)
        counts = self.counts(op, site, kernel)
        if figures is None or counts is None:
            return kernel
        figures = {ASSEMBLY_CYCLES: 1.0, **figures}
        work = sum(count * figures.get(part, 0.0) for part, count in counts.items())
        odd = self.odd_cycles(kernel)
        odd = odd and round(odd * (site.output.shape[2] % 2) * figures[ASSEMBLY_CYCLES])
        return replace(kernel, work_cycles=round(work), odd_cycles=odd)

    def cycles(self, op: Op, site: Site, kernel: Kernel) -> float:
        """Return the cycles of one call that computes the whole output."""
        # They are infinity if neither the model nor `kernel.work_cycles` states them.
        found = self.priced(op, site, kernel)
        if found.work_cycles is None:
            return float("inf")
        return found.work_cycles + found.odd_cycles


@cache
def _figures(package: str) -> Mapping[str, Figures]:
    return tomllib.loads(resources.files(package).joinpath("figures.toml").read_text("utf-8"))
