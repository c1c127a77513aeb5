"""Core family `dsp`: Cortex-M4, M7 and M33."""

from __future__ import annotations

from penstock.backends.cores.dsp.counts import DSP_CYCLES
from penstock.backends.cores.dsp.kernels import dsp_kernel, fallback_kernel, unmet_condition
from penstock.backends.cores.family import CoreFamily

FAMILY = CoreFamily(
    name="dsp",
    instruction_set="Armv7E-M, or Armv8-M with the DSP extension",
    cores=("cortex-m4", "cortex-m7", "cortex-m33", "cortex-m55"),
    kernel=dsp_kernel,
    fallback_kernel=fallback_kernel,
    unmet_condition=unmet_condition,
    cycle_model=DSP_CYCLES,
)
