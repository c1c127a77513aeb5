"""Compiling and linking for Cortex-M: what lands in the files, and what is said when it fails."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

from penstock.errors import InternalError, ToolError
from penstock.toolchains import cortex_m
from penstock.toolchains.compiler import (
    WARNINGS_AS_ERRORS,
    Compiler,
    compile_objects,
    zig_command,
)
from penstock.toolchains.cortex_m import (
    MemoryLayout,
    gcc_cortex_m,
    link_firmware,
    linker_script,
    zig_cortex_m,
)
from penstock.toolchains.elf_file import object_sections, read_image, undefined_symbols

pytest.importorskip("ziglang")
pytest.importorskip("elftools")

M4 = ("-target", "thumb-freestanding-eabihf", "-mcpu=cortex_m4+vfp4d16sp")
TEXT = """
#include <stdint.h>
#include <string.h>
#include "shape.h"
extern const int8_t weights[100];
const int8_t weights[100] = {3, 1, 4, 1, 5, 9, 2, 6, [70] = 5, [99] = 8};
int32_t table[3] = {4, 5, 6};
int8_t arena[256];
int32_t used(const int8_t *from);
int32_t unused(int32_t x);
int32_t used(const int8_t *from) {
    int32_t word;
    memcpy(&word, from, sizeof word);
    return word + weights[(word & 63) + SHAPE] + table[1] + arena[7];
}
int32_t unused(int32_t x) { return 7 * x; }
"""


def compiled(folder: Path, compiler: Compiler, *flags: str) -> Path:
    """The object file of TEXT."""
    (folder / "include").mkdir(exist_ok=True)
    (folder / "include" / "shape.h").write_text("#define SHAPE 3\n")
    source = folder / "model.c"
    source.write_text(TEXT)
    (path,) = compile_objects(
        compiler, [source], folder / "objects", include=[folder / "include"], flags=flags
    )
    return path


@pytest.mark.parametrize("optimise", ["speed", "size"])
def test_sections_are_counted_by_kind(tmp_path: Path, optimise: cortex_m.Optimise) -> None:
    sizes = object_sections(compiled(tmp_path, zig_cortex_m(M4, optimise), *WARNINGS_AS_ERRORS))
    assert (sizes.rodata, sizes.data, sizes.bss) == (100, 12, 256)
    assert 0 < sizes.text < 100
    assert sizes.flash == sizes.text + 112
    assert sizes.ram == 268


def test_a_copy_of_four_bytes_is_not_a_call(tmp_path: Path) -> None:
    """A freestanding clang would call memcpy; with our string.h only large copies are calls."""
    compiler = zig_cortex_m(M4)
    assert "memcpy" not in undefined_symbols(compiled(tmp_path, compiler))
    source = tmp_path / "large.c"
    source.write_text("#include <string.h>\nvoid f(char *a, char *b) { memcpy(a, b, 5000); }")
    (large,) = compile_objects(compiler, [source], tmp_path)
    assert undefined_symbols(large) in (("memcpy",), ("__aeabi_memcpy",))


def test_a_program_holds_what_is_kept_and_no_more(tmp_path: Path) -> None:
    compiler = zig_cortex_m(M4)
    objects = [compiled(tmp_path, compiler)]
    elf = link_firmware(compiler, objects, tmp_path / "net.elf", keep=["used"])
    names = {symbol.name for symbol in read_image(elf).symbols if symbol.function}
    assert {"used", "Reset_Handler"} <= names
    assert "unused" not in names
    sizes = object_sections(elf)
    assert (sizes.rodata, sizes.data, sizes.bss) == (100 + 8, 12, 256)


def test_memory_lies_where_the_layout_says(tmp_path: Path) -> None:
    layout = MemoryLayout(0x0010_0000, 1 << 20, 0x2010_0000, 1 << 16)
    compiler = zig_cortex_m(M4)
    objects = [compiled(tmp_path, compiler)]
    elf = link_firmware(compiler, objects, tmp_path / "net.elf", keep=["used"], layout=layout)
    image = read_image(elf)
    code, arena = image.symbol("used").address, image.symbol("arena").address
    assert 0x0010_0000 <= code < 0x0020_0000
    assert 0x2010_0000 <= arena < 0x2011_0000
    vectors = next(s for s in image.segments if s.address == 0x0010_0000).content[:8]
    stack_top, reset = (int.from_bytes(vectors[i : i + 4], "little") for i in (0, 4))
    assert (stack_top, reset) == (0x2011_0000, image.symbol("Reset_Handler").address | 1)


def test_a_program_larger_than_its_memory_is_refused(tmp_path: Path) -> None:
    compiler = zig_cortex_m(M4)
    with pytest.raises(ToolError, match="failed with exit code") as caught:
        link_firmware(
            compiler,
            [compiled(tmp_path, compiler)],
            tmp_path / "net.elf",
            keep=["used"],
            layout=MemoryLayout(ram_bytes=128),
        )
    assert "RAM" in caught.value.why


def test_the_linker_script_names_what_is_kept() -> None:
    script = linker_script(MemoryLayout(), ["net_run", "net_input"])
    assert 'EXTERN(Reset_Handler "net_run" "net_input")' in script
    assert "ORIGIN = 0x8000000 , LENGTH = 0x4000000" in script


def test_an_error_in_c_is_told_in_the_compilers_words(tmp_path: Path) -> None:
    good, bad, worse = (tmp_path / f"{name}.c" for name in ("good", "bad", "worse"))
    good.write_text("int x;")
    bad.write_text("int f(void) { return missing; }")
    worse.write_text("int 3;")
    with pytest.raises(ToolError, match="exit code 1") as caught:
        compile_objects(zig_cortex_m(M4), [good, bad, worse], tmp_path)
    assert caught.value.where == "bad.c"
    assert "missing" in caught.value.why


def test_warnings_are_errors_where_that_is_asked_for(tmp_path: Path) -> None:
    source = tmp_path / "narrow.c"
    source.write_text("signed char f(int x);\nsigned char f(int x) { return x; }\n")
    assert compile_objects(zig_cortex_m(M4), [source], tmp_path) == (tmp_path / "narrow.o",)
    with pytest.raises(ToolError, match="exit code 1") as caught:
        compile_objects(zig_cortex_m(M4), [source], tmp_path, flags=WARNINGS_AS_ERRORS)
    assert "-Wimplicit-int-conversion" in caught.value.why


def test_two_files_of_one_name_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InternalError, match="same name"):
        compile_objects(zig_cortex_m(M4), [tmp_path / "a.c", tmp_path / "b" / "a.c"], tmp_path)


def test_objects_do_not_depend_on_the_number_of_workers(tmp_path: Path) -> None:
    sources = [tmp_path / f"{name}.c" for name in "abcd"]
    for source in sources:
        source.write_text(f"int {source.stem}(int n) {{ return n * {ord(source.stem)}; }}")
    compiler = zig_cortex_m(M4)
    contents = [
        [path.read_bytes() for path in compile_objects(compiler, sources, folder, workers=workers)]
        for folder, workers in ((tmp_path / "one", 1), (tmp_path / "many", 3))
    ]
    assert contents[0] == contents[1]


def test_a_missing_zig_is_named_with_its_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ziglang", None)
    with pytest.raises(ToolError, match="'ziglang'") as caught:
        zig_cortex_m(M4)
    assert caught.value.help == "pip install 'penstock[simulate]'"


def test_a_missing_gcc_is_named_with_its_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda _name: None)
    with pytest.raises(ToolError, match="arm-none-eabi-gcc is not on the search path") as caught:
        gcc_cortex_m(("-mthumb", "-mcpu=cortex-m4"))
    assert "zig" in caught.value.help


@pytest.mark.skipif(shutil.which(cortex_m.GCC) is None, reason="no arm-none-eabi-gcc here")
def test_gcc_builds_the_same_program(tmp_path: Path) -> None:
    flags = ("-mthumb", "-mcpu=cortex-m4", "-mfloat-abi=hard", "-mfpu=fpv4-sp-d16")
    compiler = gcc_cortex_m(flags)
    objects = [compiled(tmp_path, compiler)]
    elf = link_firmware(compiler, objects, tmp_path / "net.elf", keep=["used"])
    sizes = object_sections(elf)
    assert (sizes.rodata, sizes.data, sizes.bss) == (100 + 8, 12, 256)


def test_a_compiler_that_cannot_be_started_is_named() -> None:
    with pytest.raises(ToolError, match="cannot start no-such-compiler"):
        Compiler("cc", ("/nowhere/no-such-compiler",), ()).version()


def test_compilers_tell_their_version() -> None:
    assert "clang version" in Compiler("zig", zig_command(), ()).version()


def test_a_file_that_is_no_elf_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "text.o"
    path.write_text("not an object file")
    for reader in (object_sections, undefined_symbols, read_image):
        with pytest.raises(ToolError, match="ELF") as caught:
            reader(path)
        assert caught.value.where == "text.o"


def test_an_object_without_code_is_no_program(tmp_path: Path) -> None:
    source = tmp_path / "data.c"
    source.write_text("int x = 3;")
    (path,) = compile_objects(zig_cortex_m(M4), [source], tmp_path)
    with pytest.raises(ToolError, match="no code"):
        read_image(path)
