"""ethos_u55: the backend of Arm Ethos-U55.

Attributes of the target:

    macs          multiply-accumulates per cycle: 32, 64, 128 or 256
    memory_mode   shared_sram: constants are in flash, tensors in SRAM;
                  sram_only: constants and tensors are in SRAM
    cache_line    bytes of a line of the processor's data cache
    submission    cycles that the processor takes to submit a stream
"""

from __future__ import annotations

from penstock_ethos_u.backend import EthosU


class EthosU55(EthosU):
    """Backend of Arm Ethos-U55."""

    name = "ethos_u55"
    macs = 128
