"""Core family `portable`: any processor with a C11 compiler."""

from __future__ import annotations

from penstock.backends.cores.family import CoreFamily

FAMILY = CoreFamily(
    name="portable",
    instruction_set="C11",
    cores=("cortex-m0plus", "cortex-m3", "cortex-m4", "cortex-m7", "cortex-m33", "cortex-m55"),
    certifies_portable=False,
)
