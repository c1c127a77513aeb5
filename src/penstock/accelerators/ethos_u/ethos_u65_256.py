"""ethos_u65_256: Arm Ethos-U65 with one core, under a name that states its multipliers.

memory_mode   shared_sram: constants lie in DRAM; sram_only; dedicated_sram
"""

from __future__ import annotations

from penstock.accelerators.ethos_u.backend import EthosU


class EthosU65With256(EthosU):
    """Arm Ethos-U65 with 256 multipliers."""

    name = "ethos_u65_256"
    macs = None
