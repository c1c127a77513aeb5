"""Figures: cycles of each part of a kernel, which `figures.toml` holds, and what a kernel takes.

A kernel takes the sum, over its parts, of how often they run (`counts.py`, `dsp_counts.py`) times
their cycles.  `python -m benchmarks.kernel_figures` fits the cycles to random layers on the
simulated core; parts in assembly, counted as `cycles`, are not fitted.  The generated C keeps
compilers from specialising a kernel for its callers (`PENSTOCK_KERNEL` in `view.h`), so that the
figures hold in every network.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from importlib import resources

from penstock.backends.cortex_m.counts import Counts, portable_counts
from penstock.backends.cortex_m.dsp_counts import dsp_counts, odd_cycles
from penstock.ir.op import Kernel, Op, Site

Figures = Mapping[str, float]
"""Cycles by name of a part."""
COUNTED = "cycles"
"""The part that is counted in cycles."""
ODD = "conv2d_s8_dsp"
"""The kernel whose calls take longer where they compute an odd number of pixels."""


def counts_of(op: Op, site: Site, kernel: Kernel) -> Counts | None:
    """How often the parts of a kernel run for the whole output; None where a kernel of
    the core knows itself what it takes."""
    return dsp_counts(op, site, kernel) or portable_counts(op, site, kernel)


def priced(op: Op, site: Site, kernel: Kernel, family: str) -> Kernel:
    """The kernel with what it takes on engines with kernels of this family; as it is where there
    are no figures of it."""
    figures = _figures().get(family, {}).get(kernel.name)
    counts = counts_of(op, site, kernel)
    if figures is None or counts is None:
        return kernel
    work = sum(
        count if part == COUNTED else count * figures.get(part, 0.0)
        for part, count in counts.items()
    )
    odd = site.output.shape[2] % 2 * odd_cycles(kernel) if kernel.name == ODD else 0
    return replace(kernel, work_cycles=round(work), odd_cycles=odd)


def cycles(op: Op, site: Site, kernel: Kernel, family: str) -> float:
    """Cycles of the whole output in one call; infinite where there are no figures."""
    found = priced(op, site, kernel, family)
    if found.work_cycles is None:
        return float("inf")
    return found.work_cycles + found.odd_cycles


@cache
def _figures() -> Mapping[str, Mapping[str, Figures]]:
    """By family and name of a kernel."""
    text = resources.files("penstock.backends.cortex_m").joinpath("figures.toml").read_text("utf-8")
    return tomllib.loads(text)
