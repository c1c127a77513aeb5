"""ethos_u55: Arm Ethos-U55.

macs          32, 64, 128 or 256
memory_mode   shared_sram: constants lie in flash; sram_only: constants and tensors lie in SRAM
"""

from __future__ import annotations

from penstock.accelerators.ethos_u.backend import EthosU


class EthosU55(EthosU):
    """Arm Ethos-U55."""

    name = "ethos_u55"
    macs = 128
