"""ethos_u65_256: the backend of Arm Ethos-U65 with one core and 256 multipliers.

The number of multipliers is part of the name, so the target has no attribute `macs`, unlike
`ethos_u65`.

Attributes of the target:

    memory_mode   shared_sram: constants are in DRAM, tensors in SRAM;
                  sram_only: constants and tensors are in SRAM;
                  dedicated_sram: constants are in DRAM, tensors in an SRAM of the NPU alone
    cache_line    bytes of a line of the processor's data cache
    submission    cycles that the processor takes to submit a stream
"""

from __future__ import annotations

from penstock_ethos_u.backend import EthosU


class EthosU65With256(EthosU):
    """Backend of Arm Ethos-U65 with one core and 256 multipliers."""

    name = "ethos_u65_256"
    macs = None
