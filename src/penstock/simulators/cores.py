"""cores: the one place that knows which simulator runs a core."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from penstock.simulators import cortex_m, cortex_m55, qemu
from penstock.simulators.calling import Outcome
from penstock.toolchains.cortex_m import MemoryLayout


class Simulator(Protocol):
    """One core with one program in its memory, as `cortex_m.py` says."""

    def symbol(self, name: str) -> int: ...
    def read(self, address: int, size_bytes: int) -> bytes: ...
    def write(self, address: int, content: bytes) -> None: ...
    def call(self, name: str, *arguments: int, phases: Sequence[str] = ()) -> Outcome: ...


def layout(core: str) -> MemoryLayout:
    """Where a program for the core is linked to."""
    return qemu.LAYOUT if core == cortex_m55.NAME else MemoryLayout()


def simulator(elf: Path, core: str) -> Simulator:
    """A simulator with that program. Raises: ToolError for a core that cannot be simulated."""
    return cortex_m55.Simulator55(elf) if core == cortex_m55.NAME else cortex_m.Simulator(elf, core)
