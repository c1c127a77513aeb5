"""Symbols and sections of a bundle's objects, for a Cortex-M4."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from available import COMMITTED, compiled, every_model
from penstock import execution
from penstock.program.steps import table_bytes
from penstock.toolchains.compiler import Optimise
from penstock.toolchains.elf_file import object_sections, undefined_symbols

Objects = Callable[[str, Optimise], tuple[Path, ...]]
LIBRARY = {"memcpy", "memmove", "memset"}
CODE_LIMIT_BYTES = 16 * 1024


@every_model
def test_objects_need_only_the_compiler_s_runtime_library(
    model: str, core_objects: Objects
) -> None:
    prefix = compiled(model).compilation.prefix
    needed = {name for path in core_objects(model, "speed") for name in undefined_symbols(path)}
    own = {name for name in needed if name.startswith(f"{prefix}_")}
    strange = {n for n in needed - own - LIBRARY if not n.startswith("__aeabi_")}
    assert strange == set()
    assert own  # the code finds its weights elsewhere


@every_model
def test_sections_in_ram_are_the_report_to_the_byte(model: str, core_objects: Objects) -> None:
    pytest.importorskip("unicorn", reason="the extra 'simulate' is not installed")
    ram = compiled(model).report.ram_bytes
    library = core_objects(model, "speed")
    with execution.firmware(compiled(model).compilation, library=library) as chip:
        assert chip.sections.data + chip.sections.bss == ram.total - ram.stack


@every_model
def test_constants_are_the_report_to_the_byte_but_for_alignment(
    model: str, core_objects: Objects
) -> None:
    _, weights, _ = map(object_sections, core_objects(model, "speed"))
    padding = 4 * compiled(model).compilation.bundle[
        f"{compiled(model).compilation.prefix}_weights.c"
    ].count(b"_Alignas(4)")
    # Tables of rows and of bounds lie in the file of the run function.
    tables = table_bytes(compiled(model).compilation.program)
    stated = compiled(model).report.flash_bytes.weights - tables
    assert stated <= weights.rodata <= stated + padding
    assert (weights.text, weights.data, weights.bss) == (0, 0, 0)


@pytest.mark.parametrize("model", COMMITTED)
def test_code_has_no_variables_so_that_it_can_be_entered_twice(
    model: str, core_objects: Objects
) -> None:
    code = object_sections(core_objects(model, "speed")[0])
    assert (code.data, code.bss) == (0, 0)
    assert code.text > 0


def test_code_of_a_small_mobilenet_takes_at_most_16_kib_without_weights(
    core_objects: Objects,
) -> None:
    code = object_sections(core_objects("vww_96_int8", "size")[0])
    assert 0 < code.text + code.rodata <= CODE_LIMIT_BYTES
