"""ethos_u65: Arm Ethos-U65 with one core.

macs          256
memory_mode   shared_sram: constants lie in DRAM; sram_only; dedicated_sram
"""

from __future__ import annotations

from penstock.accelerators.ethos_u.backend import EthosU


class EthosU65(EthosU):
    """Arm Ethos-U65."""

    name = "ethos_u65"
