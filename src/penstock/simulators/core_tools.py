"""The compiler and the simulator that a target needs, and whether they are installed."""

from __future__ import annotations

from penstock.errors import ToolError
from penstock.hardware.target import Target
from penstock.simulators.cores import require_simulator
from penstock.toolchains.compiler import Compiler
from penstock.toolchains.cortex_m import gcc_cortex_m, zig_cortex_m
from penstock.toolchains.host import host_compiler


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
