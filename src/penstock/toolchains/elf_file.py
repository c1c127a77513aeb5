"""Reads ELF files: section sizes, undefined symbols, and an image that can be loaded.

Source: System V ABI, chapter 4 (sections, symbols) and 5 (segments); ELF for the Arm architecture.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from penstock.errors import ToolError
from penstock.frozen import frozen
from penstock.toolchains.command import extra

ALLOCATED, WRITABLE, EXECUTABLE = 0x2, 0x1, 0x4  # SHF_ALLOC, SHF_WRITE, SHF_EXECINSTR
SEGMENT_WRITABLE = 0x2  # PF_W
UNWIND_TABLES = (".ARM.exidx", ".ARM.extab")


@frozen
class SectionBytes:
    """Section sizes by kind, in bytes.

    They exclude alignment between the sections of linked files, and unwind tables (8 bytes per
    function), which our linker script discards.
    """

    text: int
    rodata: int
    data: int
    bss: int

    @property
    def flash(self) -> int:
        """Bytes in flash: code, constants, and the initial values of `data`."""
        return self.text + self.rodata + self.data

    @property
    def ram(self) -> int:
        """Bytes in RAM, without the stack."""
        return self.data + self.bss


@frozen
class ElfSegment:
    """A range of memory when `main` starts: `content`, followed by zeros up to `size_bytes`.

    Flash holds `content` at `load_address`, from where the start-up code copies it.
    """

    address: int
    load_address: int
    size_bytes: int
    content: bytes
    writable: bool


@frozen
class Symbol:
    """A function or an object.  `address` does not contain the Thumb bit."""

    name: str
    address: int
    size_bytes: int
    function: bool
    local: bool


@frozen
class ElfImage:
    """A linked program; its code is in the address range [code_lower, code_upper)."""

    name: str
    segments: tuple[ElfSegment, ...]
    symbols: tuple[Symbol, ...]
    code_lower: int
    code_upper: int

    def symbol(self, name: str) -> Symbol:
        """The global symbol of that name or, if there is none, the only local one.

        Raises ToolError if there is none or more than one."""
        found = [symbol for symbol in self.symbols if symbol.name == name]
        chosen = [symbol for symbol in found if not symbol.local] or found
        if len({symbol.address for symbol in chosen}) != 1:
            raise ToolError(
                "tool-007",
                f"the program has {len(chosen)} symbols named '{name}', needs one",
                where=self.name,
                why="the function was not linked, was inlined, or is a local symbol of several "
                "files",
            )
        return chosen[0]

    def describe(self, address: int) -> str:
        """An address with its function and offset, such as `0x80001a4 (conv1+0x24)`."""
        below = [symbol for symbol in self.symbols if symbol.function and symbol.address <= address]
        if not self.code_lower <= address < self.code_upper or not below:
            return f"{address:#x} (outside the code)"
        nearest = max(below, key=lambda symbol: symbol.address)
        return f"{address:#x} ({nearest.name}+{address - nearest.address:#x})"


def object_sections(path: Path) -> SectionBytes:
    """Section sizes of an object file or program."""
    sizes = {"text": 0, "rodata": 0, "data": 0, "bss": 0}
    with _opened(path) as elf:
        for section in elf.iter_sections():
            if section["sh_flags"] & ALLOCATED and not section.name.startswith(UNWIND_TABLES):
                sizes[_kind(section)] += int(section["sh_size"])
    return SectionBytes(**sizes)


def defined_symbols(path: Path) -> tuple[Symbol, ...]:
    """Functions and objects of an object file or program, including local ones."""
    with _opened(path) as elf:
        return tuple(_symbols(elf))


def undefined_symbols(path: Path) -> tuple[str, ...]:
    """Names that an object file uses and does not define, sorted."""
    with _opened(path) as elf:
        table = elf.get_section_by_name(".symtab")
        entries = () if table is None else table.iter_symbols()
        return tuple(sorted({e.name for e in entries if e["st_shndx"] == "SHN_UNDEF" and e.name}))


def read_image(path: Path) -> ElfImage:
    """The linked program in that file."""
    with _opened(path) as elf:
        code = [
            (int(section["sh_addr"]), int(section["sh_addr"] + section["sh_size"]))
            for section in elf.iter_sections()
            if section["sh_flags"] & EXECUTABLE and section["sh_size"]
        ]
        if not code:
            raise ToolError("tool-008", "the program contains no code", where=path.name)
        return ElfImage(
            name=path.name,
            segments=tuple(_segments(elf)),
            symbols=tuple(_symbols(elf)),
            code_lower=min(lower for lower, _ in code),
            code_upper=max(upper for _, upper in code),
        )


@contextmanager
def _opened(path: Path) -> Generator[Any]:
    elffile = extra("elftools.elf.elffile")
    exceptions = extra("elftools.common.exceptions")
    try:
        with path.open("rb") as stream:
            yield elffile.ELFFile(stream)
    except (OSError, exceptions.ELFError) as error:
        raise ToolError(
            "tool-009", "cannot be read as an ELF file", where=path.name, why=str(error)
        ) from error


def _kind(section: Any) -> str:
    if section["sh_flags"] & WRITABLE:
        return "bss" if section["sh_type"] == "SHT_NOBITS" else "data"
    return "text" if section["sh_flags"] & EXECUTABLE else "rodata"


def _segments(elf: Any) -> Iterator[ElfSegment]:
    for segment in elf.iter_segments("PT_LOAD"):
        if segment["p_memsz"]:
            yield ElfSegment(
                address=int(segment["p_vaddr"]),
                load_address=int(segment["p_paddr"]),
                size_bytes=int(segment["p_memsz"]),
                content=bytes(segment.data()),
                writable=bool(segment["p_flags"] & SEGMENT_WRITABLE),
            )


def _symbols(elf: Any) -> Iterator[Symbol]:
    table = elf.get_section_by_name(".symtab")
    for entry in () if table is None else table.iter_symbols():
        kind = entry["st_info"]["type"]
        if entry.name and kind in ("STT_FUNC", "STT_OBJECT", "STT_NOTYPE"):
            if entry["st_shndx"] == "SHN_UNDEF" or entry.name.startswith("$"):
                continue
            function = kind == "STT_FUNC"
            yield Symbol(
                name=str(entry.name),
                address=int(entry["st_value"]) & (~1 if function else ~0),
                size_bytes=int(entry["st_size"]),
                function=function,
                local=entry["st_info"]["bind"] == "STB_LOCAL",
            )
