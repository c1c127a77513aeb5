"""Compiles and links freestanding programs for Cortex-M, with one start-up and linker script.

Source: observed behaviour of ziglang 0.17.0 (clang 22) and GNU Arm 12.2; see the comments.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from string import Template

from penstock.errors import ToolError
from penstock.frozen import frozen
from penstock.toolchains.compiler import Compiler, Optimise, compile_objects, zig_command

FREESTANDING = Path(__file__).parent / "freestanding"
MIB = 1 << 20

# Code generation flags other than core and optimisation level; the CMake projects of bundles use
# them, too.
CODE_FLAGS = (
    "-ffunction-sections",
    "-fdata-sections",
    "-fomit-frame-pointer",
    "-fno-unwind-tables",
    "-fno-asynchronous-unwind-tables",
)
CORTEX_M_FLAGS = ("-std=c11", *CODE_FLAGS)
OPTIMISE_FLAGS: dict[Optimise, tuple[str, ...]] = {"speed": ("-O3",), "size": ("-Os",)}
ZIG_FLAGS = (
    "-fno-sanitize=undefined",  # zig's own default adds traps
    "-g1",  # without debug information zig strips every symbol at -Os
    f"-isystem{FREESTANDING}",  # zig has no string.h for freestanding targets
)
GCC = "arm-none-eabi-gcc"


@frozen
class MemoryLayout:
    """Address ranges of flash and RAM.  The defaults hold any model and do not map address 0."""

    flash_base: int = 0x0800_0000
    flash_bytes: int = 64 * MIB
    ram_base: int = 0x2000_0000
    ram_bytes: int = 64 * MIB


def zig_cortex_m(cpu_flags: Sequence[str], optimise: Optimise = "speed") -> Compiler:
    """zig with the flags of a core: ("-target", "thumb-freestanding-eabihf", "-mcpu=cortex_m4")."""
    flags = (*cpu_flags, *OPTIMISE_FLAGS[optimise], *CORTEX_M_FLAGS, *ZIG_FLAGS)
    return Compiler("zig", zig_command(), flags)


def gcc_cortex_m(cpu_flags: Sequence[str], optimise: Optimise = "speed") -> Compiler:
    """arm-none-eabi-gcc with the flags of a core, such as ("-mthumb", "-mcpu=cortex-m4").

    Raises ToolError if it is not installed."""
    program = shutil.which(GCC)
    if program is None:
        raise ToolError(
            "tool-006",
            f"{GCC} is not on the search path",
            where="--compiler gcc",
            help="install the GNU Arm embedded toolchain, or use zig: "
            "pip install 'penstock[simulate]'",
        )
    flags = (*cpu_flags, *OPTIMISE_FLAGS[optimise], *CORTEX_M_FLAGS)
    return Compiler("gcc", (program,), flags)


def link_firmware(
    compiler: Compiler,
    objects: Sequence[Path],
    elf: Path,
    *,
    keep: Sequence[str],
    layout: MemoryLayout | None = None,
) -> Path:
    """Links objects with the start-up code to an ELF file, without sections that `keep` does not
    need.

    Writes the start-up object and the linker script to the folder of `elf`.
    """
    script = elf.with_suffix(".ld")
    script.write_text(linker_script(layout or MemoryLayout(), keep))
    startup = compile_objects(compiler, [FREESTANDING / "startup.c"], elf.parent)
    link_flags = ("-Wl,--gc-sections", "-Wl,-e,Reset_Handler", "-T", str(script))
    extra_flags = ("-nostartfiles",) if compiler.kind == "gcc" else ()
    compiler.link((*startup, *objects), elf, (*link_flags, *extra_flags)).run()
    return elf


def linker_script(layout: MemoryLayout, keep: Sequence[str]) -> str:
    """The linker script: code and constants in flash, data and zero-initialised data in RAM."""
    template = Template((FREESTANDING / "cortex_m.ld").read_text())
    return template.substitute(
        # Quoted: GNU ld takes a bare `add` for a number with a suffix.
        keep=" ".join(f'"{name}"' for name in keep),
        flash_base=hex(layout.flash_base),
        flash_bytes=hex(layout.flash_bytes),
        ram_base=hex(layout.ram_base),
        ram_bytes=hex(layout.ram_bytes),
    )
