"""The Cortex-M cores that Unicorn simulates, with their timing."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.errors import ToolError
from penstock.simulators.cortex_m_timing import CORTEX_M0PLUS, CORTEX_M3, CORTEX_M4, Timing


@dataclass(frozen=True, slots=True)
class Core:
    """A simulated core: its CPU model in Unicorn, and the timing of its instructions.

    A Cortex-M0+ runs as M0: both execute Armv6-M and fault on unaligned accesses.  The simulated
    Cortex-M3 also accepts DSP instructions, which a real one lacks.
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
    """The core of that name.  Raises ToolError if Unicorn does not simulate it."""
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
