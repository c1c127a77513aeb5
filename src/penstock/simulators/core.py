"""Core: a Cortex-M that can be simulated."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.errors import ToolError
from penstock.simulators.cortex_m_timing import CORTEX_M0PLUS, CORTEX_M3, CORTEX_M4, Timing


@dataclass(frozen=True, slots=True)
class Core:
    """`model` is what unicorn calls the core; `timing` is how long its instructions take.

    A Cortex-M0+ runs as M0: both execute Armv6-M, and both fault on unaligned accesses. A simulated
    Cortex-M3 accepts DSP instructions, which a real one does not have.
    """

    name: str
    model: str
    timing: Timing


CORES = (
    Core("cortex-m0plus", "UC_CPU_ARM_CORTEX_M0", CORTEX_M0PLUS),
    Core("cortex-m3", "UC_CPU_ARM_CORTEX_M3", CORTEX_M3),
    Core("cortex-m4", "UC_CPU_ARM_CORTEX_M4", CORTEX_M4),
    Core("cortex-m7", "UC_CPU_ARM_CORTEX_M7", CORTEX_M4),
    Core("cortex-m33", "UC_CPU_ARM_CORTEX_M33", CORTEX_M4),
)


def core_named(name: str) -> Core:
    """The core of that name. Raises: ToolError for one that cannot be simulated."""
    for core in CORES:
        if core.name == name:
            return core
    raise ToolError(
        "tool-010",
        f"core '{name}' cannot be simulated",
        where="core of the target",
        why="the CPU simulator executes Armv6-M, Armv7-M and Armv8-M without MVE",
        help=f"one of {', '.join(core.name for core in CORES)}, and in QEMU cortex-m55",
    )
