"""Selects the simulator of a core: Unicorn, or QEMU for the Cortex-M55."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from penstock.simulators import cortex_m, cortex_m55, qemu
from penstock.simulators.calling import CallOutcome
from penstock.simulators.cortex_m_timing import CORES
from penstock.toolchains.cortex_m import MemoryLayout
from penstock.toolchains.extra import extra


class CoreSimulator(Protocol):
    """One core with one program in its memory; see `cortex_m.Simulator`."""

    def symbol(self, name: str) -> int: ...
    def read(self, address: int, size_bytes: int) -> bytes: ...
    def write(self, address: int, content: bytes) -> None: ...
    def call(self, name: str, *arguments: int, phases: Sequence[str] = ()) -> CallOutcome: ...


def layout(core: str) -> MemoryLayout:
    """The memory layout for which programs for the core are linked."""
    return qemu.LAYOUT if core == cortex_m55.NAME else MemoryLayout()


def simulator(elf: Path, core: str) -> CoreSimulator:
    """A simulator of the core with the program loaded.

    Raises ToolError if the core cannot be simulated."""
    return cortex_m55.Simulator55(elf) if core == cortex_m55.NAME else cortex_m.Simulator(elf, core)


def require_simulator(core: str) -> None:
    """Check that the programs and packages that simulate a core are installed.  Raises
    ToolError."""
    extra("elftools.elf.elffile")
    if core == cortex_m55.NAME:
        qemu.qemu_program()
    else:
        extra("unicorn")
        extra("capstone")


def simulated_cores() -> tuple[str, ...]:
    """Names of the cores that can be simulated."""
    return (*(core.name for core in CORES), cortex_m55.NAME)
