"""The C sources of accelerators compile without warnings, like generated code."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from offloading import compiled
from penstock.execution import unpacked
from penstock.toolchains.compiler import WARNINGS_AS_ERRORS, Compiler, compile_objects, zig_command
from penstock.zoo.registry import open_zoo


def compiler_named(kind: str) -> Compiler:
    """gcc, or zig's clang."""
    flags = ("-std=c11", "-O2")
    if kind == "gcc":
        program = shutil.which("gcc") or pytest.skip("there is no gcc here")
        return Compiler("gcc", (program,), flags)
    pytest.importorskip("ziglang", reason="the extra 'simulate' is not installed")
    return Compiler("zig", zig_command(), flags)


@pytest.mark.parametrize("kind", ["gcc", "zig"])
@pytest.mark.parametrize("accelerator", ["vanilla", "ultra_trail", "dot4", "nvdla"])
def test_every_file_compiles_without_a_warning(accelerator: str, kind: str, tmp_path: Path) -> None:
    done = compiled(open_zoo("zoo:tc_resnet8:frames=9"), accelerator)
    with unpacked(done.bundle) as folder:
        sources = sorted(folder.glob("*.c"))
        assert f"{accelerator}.c" in [source.name for source in sources]
        compile_objects(
            compiler_named(kind), sources, tmp_path, include=(folder,), flags=WARNINGS_AS_ERRORS
        )
