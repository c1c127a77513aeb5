"""Selects the simulator of a core: Unicorn, or QEMU for the Cortex-M55."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from penstock.errors import ToolError
from penstock.hardware.core_access import Trap
from penstock.hardware.target import Target
from penstock.simulators import cortex_m, cortex_m55
from penstock.simulators.calling import CallOutcome
from penstock.toolchains.command import extra
from penstock.toolchains.compiler import Compiler
from penstock.toolchains.cortex_m import MemoryLayout, gcc_cortex_m, zig_cortex_m
from penstock.toolchains.host import host_compiler


class CoreSimulator(Protocol):
    """One core with one program in its memory; see `cortex_m.Simulator`."""

    def symbol(self, name: str) -> int: ...
    def read(self, address: int, size_bytes: int) -> bytes: ...
    def write(self, address: int, content: bytes) -> None: ...
    def call(self, name: str, *arguments: int, phases: Sequence[str] = ()) -> CallOutcome: ...
    def set_trap(self, name: str, trap: Trap) -> None: ...


def layout(core: str) -> MemoryLayout:
    """The memory layout for which programs for the core are linked."""
    return cortex_m55.LAYOUT if core == cortex_m55.NAME else MemoryLayout()


def simulator(elf: Path, core: str) -> CoreSimulator:
    """A simulator of the core with the program loaded.

    Raises ToolError if the core cannot be simulated."""
    return cortex_m55.Simulator55(elf) if core == cortex_m55.NAME else cortex_m.Simulator(elf, core)


def require_simulator(core: str) -> None:
    """Check that the programs and packages that simulate a core are installed.  Raises
    ToolError."""
    extra("elftools.elf.elffile")
    if core == cortex_m55.NAME:
        cortex_m55.qemu_program()
    else:
        extra("unicorn")
        extra("capstone")


# The compiler and the simulator that a target needs, and whether they are installed.


def core_name(target: Target) -> str:
    """The name of the target's simulated core.  Raises ToolError if it has none."""
    if target.core is None:
        raise ToolError(
            "tool-021",
            f"target {target.name} has no simulated core",
            where="core of the target",
            help="take cortex-m4, or run on this machine with --target host",
        )
    return target.core


def core_compiler(target: Target, kind: str) -> Compiler:
    """The compiler "zig" or "gcc" with the flags of the target.

    Raises ToolError if the target has no core, or the compiler is not installed."""
    core_name(target)
    make = {"zig": zig_cortex_m, "gcc": gcc_cortex_m}[kind]
    return make(getattr(target.compiler, kind), target.compiler.optimise)


def require_tools(target: Target, compiler: str, *, host: bool = False) -> None:
    """Check that the tools that build and run a model are installed, before work that they would
    lose.

    The model runs on the target's core, or on this machine if it has none or if `host` is set.
    Raises ToolError."""
    if host or target.core is None:
        host_compiler()
    else:
        core_compiler(target, compiler)
        require_simulator(target.core)
