"""Cycle model of Cortex-M4, M7 and M33."""

from __future__ import annotations

from penstock.backends.cores.common.counts import Counts
from penstock.backends.cores.common.cycle_model import CycleModel
from penstock.backends.cores.common.portable_counts import portable_counts
from penstock.backends.cores.dsp.counts import dsp_counts, odd_cycles
from penstock.ir.op import Kernel, Op, Site


def counts(op: Op, site: Site, kernel: Kernel) -> Counts | None:
    """Return how often each section of a DSP or portable kernel runs; None for other kernels."""
    return dsp_counts(op, site, kernel) or portable_counts(op, site, kernel)


DSP_CYCLES = CycleModel("penstock.backends.cores.dsp", counts, odd_cycles)
