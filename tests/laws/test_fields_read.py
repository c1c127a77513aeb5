"""Law: a kernel reads every member of its parameter structure, whichever compiler builds it.

The kernels are compiled with empty structures: the compiler then reports each member that they
read.  Arguments are read, too, because unused ones are errors (`tests/c/test_warnings.py`).
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from c_header import RUNTIME, header
from penstock.hardware.load import load_target
from penstock.toolchains.cortex_m import zig_cortex_m

STRUCTURE = re.compile(r"^struct (\w+) \{\n.*?\n\};", re.MULTILINE | re.DOTALL)
GCC = re.compile(r"struct (?P<kernel>\w+)\W+ has no member named \W(?P<member>\w+)")
CLANG = re.compile(r"no member named '(?P<member>\w+)' in 'struct (?P<kernel>\w+)'")
CORES = ("cortex-m0plus", "cortex-m4", "cortex-m55")
"""A core of each family that has kernels in assembly."""
KERNELS = tuple(
    sorted(
        name
        for file in RUNTIME.iterdir()
        if (name := file.name.removesuffix(".h")) != file.name
        if f"struct {name} {{" in file.read_text()
    )
)


@pytest.fixture(scope="module")
def emptied(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file that includes all kernels, whose parameter structures have no members."""
    folder = tmp_path_factory.mktemp("emptied")
    for file in RUNTIME.iterdir():
        if file.name.endswith(".h"):
            (folder / file.name).write_text(without_members(file.read_text()))
    source = folder / "kernels.c"
    source.write_text("".join(f'#include "{name}.h"\n' for name in KERNELS))
    return source


def without_members(text: str) -> str:
    """The text of a header in which the parameter structure of a kernel has no members."""

    def empty(found: re.Match[str]) -> str:
        return f"struct {found[1]} {{ char none; }};" if found[1] in KERNELS else found[0]

    return STRUCTURE.sub(empty, text)


def unread(command: Sequence[str], source: Path) -> list[str]:
    """The members that kernels declare and do not read, as "kernel.member"."""
    command = (*command, "-std=c11", "-fsyntax-only", str(source))
    stderr = subprocess.run(command, capture_output=True, text=True, check=False).stderr
    read = {
        (found["kernel"], found["member"])
        for form in (GCC, CLANG)
        for found in form.finditer(stderr)
    }
    declared = {(name, member) for name in KERNELS for _, member in header(name).members}
    assert len(read) > len(declared) / 2, stderr
    assert read <= declared, "a kernel reads members of another structure"
    return sorted(f"{kernel}.{member}" for kernel, member in declared - read)


def test_kernels_read_every_parameter_on_this_machine(
    host_compilers: tuple[str, ...], emptied: Path
) -> None:
    assert unread((host_compilers[0],), emptied) == []


@pytest.mark.parametrize("core", CORES)
def test_kernels_read_every_parameter_on_a_core(core: str, emptied: Path) -> None:
    pytest.importorskip("ziglang", reason="the extra 'simulate' is not installed")
    compiler = zig_cortex_m(load_target(core).compiler.zig)
    flags = [flag for flag in compiler.flags if flag != "-Werror"]
    assert unread((*compiler.command, *flags, "-ferror-limit=0"), emptied) == []


def test_a_member_that_is_not_read_is_found(
    host_compilers: tuple[str, ...], emptied: Path, tmp_path: Path
) -> None:
    """The law fails for kernels that ignore the dilation."""
    for file in emptied.parent.glob("*.h"):
        text = file.read_text()
        if file.name == "pool.h":
            text = text.replace("p->dilation_h", "1")
        (tmp_path / file.name).write_text(text)
    source = tmp_path / emptied.name
    source.write_text(emptied.read_text())
    pools = [f"{kind}_pool2d_{type}" for kind in ("average", "max") for type in ("f32", "s8")]
    pools.insert(2, "average_pool2d_u8")
    assert unread((host_compilers[0],), source) == [f"{pool}.dilation_h" for pool in pools]
