"""ethos_u85: the backend of Arm Ethos-U85.

Attributes of the target:

    macs          multiply-accumulates per cycle: 128, 256, 512, 1024 or 2048
    memory_mode   shared_sram: constants are in DRAM, tensors in SRAM;
                  sram_only: constants and tensors are in SRAM;
                  dedicated_sram: constants are in DRAM, tensors in an SRAM of the NPU alone
    cache_line    bytes of a line of the processor's data cache
    submission    cycles that the processor takes to submit a stream
"""

from __future__ import annotations

from penstock_ethos_u.backend import EthosU


class EthosU85(EthosU):
    """Backend of Arm Ethos-U85."""

    name = "ethos_u85"
