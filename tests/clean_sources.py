"""Compiles the C sources of accelerators without warnings, like generated code."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from offloading import compiled
from penstock.execution import unpacked
from penstock.toolchains.compiler import WARNINGS_AS_ERRORS, Compiler, compile_objects, zig_command
from penstock.zoo.registry import open_zoo

COMPILERS = ("gcc", "zig")


def compiler_named(kind: str) -> Compiler:
    """gcc, or zig's clang; skips if it is not there."""
    flags = ("-std=c11", "-O2")
    if kind == "gcc":
        program = shutil.which("gcc") or pytest.skip("there is no gcc here")
        return Compiler("gcc", (program,), flags)
    pytest.importorskip("ziglang", reason="the extra 'simulate' is not installed")
    return Compiler("zig", zig_command(), flags)


def assert_sources_are_clean(accelerator: str, kind: str, folder: Path) -> None:
    """Asserts that one of `COMPILERS` compiles the driver of an accelerator, and the code of a
    network that calls it, without a warning.  `folder`: for the object files."""
    done = compiled(open_zoo("zoo:tc_resnet8:frames=9"), accelerator)
    with unpacked(done.bundle) as sources_folder:
        sources = sorted(sources_folder.glob("*.c"))
        assert f"{accelerator}.c" in [source.name for source in sources]
        compile_objects(
            compiler_named(kind), sources, folder, include=(sources_folder,),
            flags=WARNINGS_AS_ERRORS,
        )  # fmt: skip
