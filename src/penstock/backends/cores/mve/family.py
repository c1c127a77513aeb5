"""Core family `mve`: Cortex-M55, which runs DSP kernels where there is no MVE kernel."""

from __future__ import annotations

from penstock.backends.cores.dsp.counts import counts, odd_cycles
from penstock.backends.cores.dsp.kernels import fallback_kernel, unmet_condition
from penstock.backends.cores.family import CoreFamily, CycleModel
from penstock.backends.cores.mve.kernels import mve_kernel

FAMILY = CoreFamily(
    name="mve",
    instruction_set="Armv8.1-M with the integer vector extension (MVE)",
    cores=("cortex-m55",),
    kernel=mve_kernel,
    fallback_kernel=fallback_kernel,
    unmet_condition=unmet_condition,
    cycle_model=CycleModel("penstock.backends.cores.mve", counts, odd_cycles),
)
