"""Core family `thumb`: Cortex-M0 and M0+; its kernels also run on later cores."""

from __future__ import annotations

from penstock.backends.cores.family import CoreFamily, CycleModel
from penstock.backends.cores.thumb.kernels import thumb_kernel

FAMILY = CoreFamily(
    name="thumb",
    instruction_set="Armv6-M or later",
    cores=("cortex-m0plus", "cortex-m3", "cortex-m4", "cortex-m7", "cortex-m33", "cortex-m55"),
    kernel=thumb_kernel,
    cycle_model=CycleModel("penstock.backends.cores.thumb"),
)
