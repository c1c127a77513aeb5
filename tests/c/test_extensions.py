"""Kernels for an extension of Arm cores: an error on Arm cores without it, C on other machines."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from c_header import RUNTIME
from penstock.errors import ToolError
from penstock.toolchains.compiler import Compiler
from penstock.toolchains.cortex_m import GCC
from penstock.toolchains.host import host_compiler

KERNELS = tuple(sorted(path.stem for path in Path(str(RUNTIME)).glob("*.h")))
FAMILIES = {
    "_dsp": ("DSP extension", ("-mcpu=cortex-m4",), ("-mcpu=cortex-m3", "-mcpu=cortex-m0plus", "")),
    "_mve": ("MVE", ("-mcpu=cortex-m55+nofp", "-mfloat-abi=hard"), ("-mcpu=cortex-m33", "")),
}
"""By the end of a kernel's name: what it needs, flags of a core with it, and of cores without."""
ASSEMBLY_OF_THUMB = (
    *("conv2d_s8_thumb", "depthwise_conv2d_s8_thumb", "fully_connected_s8_thumb"),
    "fully_connected_forms_s8_thumb",
)


def compile_header(kernel: str, folder: Path, compiler: Compiler, *flags: str) -> None:
    """Compiles a file that has nothing but the kernel's header in it."""
    source = folder / f"{kernel}.c"
    source.write_text(f'#define PENSTOCK_WINDOW_ROWS 3\n#include "{kernel}.h"\ntypedef int unit;\n')
    include = (Path(str(RUNTIME)),)
    compiler.compile(source, folder / f"{kernel}.o", include=include, flags=flags).run()


def arm_compiler() -> Compiler:
    program = shutil.which(GCC)
    if program is None:
        pytest.skip(f"there is no {GCC} here")
    return Compiler("gcc", (program,), ("-std=c11", "-mthumb"))


@pytest.mark.parametrize("family", FAMILIES)
def test_kernels_of_an_extension_stop_on_cores_without_it(family: str, tmp_path: Path) -> None:
    compiler = arm_compiler()
    needs, with_it, without = FAMILIES[family]
    kernels = [name for name in KERNELS if re.search(rf"_[sx]\d+{family}$", name)]
    assert len(kernels) >= 5
    for kernel in kernels:
        compile_header(kernel, tmp_path, compiler, *with_it)
        compile_header(kernel, tmp_path, host_compiler())
        for core in without:
            with pytest.raises(ToolError) as caught:
                compile_header(kernel, tmp_path, compiler, *filter(None, (core,)))
            assert re.search(rf"#error .*{re.escape(needs)}.*penstock compile", str(caught.value))


@pytest.mark.parametrize("kernel", ASSEMBLY_OF_THUMB)
def test_kernels_of_armv6_m_stop_on_other_arm_cores(kernel: str, tmp_path: Path) -> None:
    compiler = arm_compiler()
    for core in ("cortex-m0plus", "cortex-m23", "cortex-m4"):
        compile_header(kernel, tmp_path, compiler, f"-mcpu={core}")
    compile_header(kernel, tmp_path, host_compiler())
    for flags in ((), ("-mcpu=cortex-a5",), ("-marm", "-mcpu=arm926ej-s")):
        with pytest.raises(ToolError, match=r"#error .*Cortex-M core.*penstock compile"):
            compile_header(kernel, tmp_path, compiler, *flags)


def test_portable_kernels_need_no_extension(tmp_path: Path) -> None:
    compiler = arm_compiler()
    portable = [name for name in KERNELS if re.search(r"_s\d+$", name)]
    assert len(portable) >= 20
    for kernel in portable:
        compile_header(kernel, tmp_path, compiler)
