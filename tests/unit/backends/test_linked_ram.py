"""RAM that a linker places, beside every accelerator: what the report says, to the byte."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from penstock import api
from penstock.codegen.c_program import c_sources
from penstock.execution import unpacked
from penstock.toolchains.compiler import compile_objects
from penstock.toolchains.cortex_m import zig_cortex_m

ACCELERATORS = (
    "smv",
    "dot4",
    "ultra_trail",
    "vanilla",
    "pe_array",
    "ethos_u55",
    "ethos_u65_256",
    "nvdla:config=small",
    "nvdla:config=large",
    "nvdla:config=large,cvsram=24k",
)
DRIVER = b"""#include <stdint.h>
struct ethosu_driver;
struct ethosu_driver *ethosu_reserve_driver(void);
void ethosu_release_driver(struct ethosu_driver *drv);
int ethosu_invoke_v3(struct ethosu_driver *drv, const void *custom_data_ptr,
                     const int custom_data_size, uint64_t *const base_addr,
                     const size_t *base_addr_size, const int num_base_addr, void *user_arg);
"""
"""What the model's C calls of Arm's driver."""
SECTION = ".bss.{}_arena"
"""Of the array in a memory of the accelerator's own."""


@pytest.mark.parametrize("accelerator", ACCELERATORS)
def test_the_report_counts_every_byte_that_a_linker_places(accelerator: str) -> None:
    """A memory that the accelerator brings is a section of its own, which a linker script places;
    everything else in RAM is the report's total.  Stand-ins for drivers model silicon: they are
    not part of the model."""
    pytest.importorskip("ziglang", reason="the extra 'simulate' is not installed")
    found = api.compile("zoo:resnet8:resolution=16", "cortex-m4", accelerators=(accelerator,))
    done, report = found.compilation, found.report
    tools = zig_cortex_m(done.request.target.compiler.zig, "size")
    with unpacked(done.bundle.with_files(("ethosu_driver.h", DRIVER))) as folder:
        sources = [folder / name for name in c_sources(done.prefix)]
        objects = compile_objects(tools, sources, folder / "objects", include=(folder,))
        sections = sum((_in_ram(built) for built in objects), Counter[str]())
    brought = {name: sections.pop(SECTION.format(name), 0) for name in report.free_bytes}
    assert brought == dict(report.free_bytes)
    assert sections.total() == report.ram_bytes.total - report.ram_bytes.stack


def _in_ram(path: Path) -> Counter[str]:
    """Bytes by name of a section that is written to."""
    elf_file = pytest.importorskip("elftools.elf.elffile")
    with path.open("rb") as file:
        sections = elf_file.ELFFile(file).iter_sections()
        return Counter({s.name: s["sh_size"] for s in sections if s["sh_flags"] & 1})
