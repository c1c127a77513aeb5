"""Cpu: one Cortex-M core with its memory, registers and faults, simulated by Unicorn.

    0x0800 0000  flash   read and execute, up to the end of the program's segments
    0x1FFF 0000          return address of a called function; not mapped
    0x2000 0000  RAM     read and write, up to the end of the program's segments
    0x4000 0000  stack   grows down from here; addresses below its limit are not mapped

The linked program determines the addresses of flash and RAM.  Memory is initialised as at the start
of `main`; the start-up code does not run.  Accesses to other addresses and writes to flash fault,
at the granularity of 4 KiB pages.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from typing import Any

from penstock.errors import InternalError
from penstock.simulators.cortex_m_timing import Core
from penstock.toolchains.elf_file import ElfImage
from penstock.toolchains.extra import extra

PAGE_BYTES = 4096
RETURN_ADDRESS = 0x1FFF_0000
STACK_TOP = 0x4000_0000


class Cpu:
    """The core with the program in its memory, which persists between runs."""

    def __init__(self, image: ElfImage, core: Core, stack_limit_bytes: int) -> None:
        self.image = image
        self.stack_lower = STACK_TOP - stack_limit_bytes // PAGE_BYTES * PAGE_BYTES
        self._unicorn = extra("unicorn")
        self._names = extra("unicorn.arm_const")
        self._engine: Any = self._unicorn.Uc(self._unicorn.UC_ARCH_ARM, self._unicorn.UC_MODE_THUMB)
        # With UC_MODE_MCLASS every core would silently be a Cortex-M33.
        self._engine.ctl_set_cpu_model(getattr(self._names, core.model))
        self._map_memory()
        self._fault_address: int | None = None
        self._engine.hook_add(self._unicorn.UC_HOOK_MEM_INVALID, self._note_fault)

    def read(self, address: int, size_bytes: int) -> bytes:
        """The current contents of memory.  Raises InternalError for unmapped addresses."""
        try:
            return bytes(self._engine.mem_read(address, size_bytes))
        except self._unicorn.UcError as error:
            raise self._no_memory(address, size_bytes) from error

    def write(self, address: int, content: bytes) -> None:
        """Writes memory, including flash.  Raises InternalError for unmapped addresses."""
        try:
            self._engine.mem_write(address, content)
        except self._unicorn.UcError as error:
            raise self._no_memory(address, len(content)) from error

    def register(self, name: str) -> int:
        """The register of that name, such as "R0" or "SP"."""
        return int(self._engine.reg_read(self.register_number(name)))

    def set_register(self, name: str, value: int) -> None:
        """Sets a register; negative values are taken modulo 2**32."""
        self._engine.reg_write(self.register_number(name), value & 0xFFFF_FFFF)

    def register_number(self, name: str) -> int:
        """Unicorn's number of a register."""
        return int(getattr(self._names, f"UC_ARM_REG_{name}"))

    def add_block_hook(self, function: int, state: int) -> None:
        """Calls the C function at that address before each block, with `state` as last argument.

        Bypasses Unicorn's Python interface, which accepts only Python functions.
        """
        library = extra("unicorn.unicorn_py3.unicorn").uclib
        handle, every = ctypes.c_size_t(), (ctypes.c_uint64(1), ctypes.c_uint64(0))
        kind, pointers = (
            self._unicorn.UC_HOOK_BLOCK,
            (ctypes.c_void_p(function), ctypes.c_void_p(state)),
        )
        engine = getattr(self._engine, "_uch")  # noqa: B009
        failed = library.uc_hook_add(engine, ctypes.byref(handle), kind, *pointers, *every)
        if failed:
            raise InternalError("simulator-003", "the CPU simulator takes no block hook")

    def library_function(self, name: str) -> int:
        """Address of one of Unicorn's C functions, for the block hook to call."""
        library = extra("unicorn.unicorn_py3.unicorn").uclib
        return ctypes.cast(getattr(library, name), ctypes.c_void_p).value or 0

    def run(self, address: int) -> None:
        """Runs the function at that address until it returns.  Raises InternalError on a fault."""
        self._fault_address = None
        self.set_register("LR", RETURN_ADDRESS | 1)
        try:
            self._engine.emu_start(address | 1, RETURN_ADDRESS)
        except self._unicorn.UcError as error:
            raise self._fault(str(error)) from error

    def place(self) -> str:
        """The current function and its caller, for messages."""
        pc, lr = self.register("PC"), self.register("LR") & ~1
        return f"pc {self.image.describe(pc)}, lr {self.image.describe(lr)}"

    def _map_memory(self) -> None:
        flash = self._unicorn.UC_PROT_READ | self._unicorn.UC_PROT_EXEC
        ram = self._unicorn.UC_PROT_READ | self._unicorn.UC_PROT_WRITE
        for lower, upper in _pages(_flash_ranges(self.image)):
            self._engine.mem_map(lower, upper - lower, flash)
        for lower, upper in _pages(_ram_ranges(self.image)):
            self._engine.mem_map(lower, upper - lower, ram)
        self._engine.mem_map(self.stack_lower, STACK_TOP - self.stack_lower, ram)
        for segment in self.image.segments:
            self._engine.mem_write(segment.load_address, segment.content)
            self._engine.mem_write(segment.address, segment.content)

    def _note_fault(
        self, engine: Any, access: int, address: int, size: int, value: int, data: Any
    ) -> bool:
        self._fault_address = address
        return False

    def _fault(self, reason: str) -> InternalError:
        at = self._fault_address
        why = reason if at is None else f"{reason} at address {at:#x}"
        if at is not None and self.stack_lower - PAGE_BYTES <= at < self.stack_lower:
            why += f": the stack is larger than {STACK_TOP - self.stack_lower} bytes"
        return InternalError(
            "simulator-004", "the simulated program faulted", where=self.place(), why=why
        )

    def _no_memory(self, address: int, size_bytes: int) -> InternalError:
        bounds = f"[{address:#x}, {address + size_bytes:#x})"
        return InternalError("simulator-005", f"no simulated memory at {bounds}")


def _flash_ranges(image: ElfImage) -> list[tuple[int, int]]:
    """Half-open ranges of flash, including the initial values of data."""
    return [(s.load_address, s.load_address + len(s.content)) for s in image.segments if s.content]


def _ram_ranges(image: ElfImage) -> list[tuple[int, int]]:
    """Half-open ranges of writable memory, without the stack."""
    return [(s.address, s.address + s.size_bytes) for s in image.segments if s.writable]


def _pages(ranges: list[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Disjoint ranges of whole pages, ascending, that cover `ranges`."""
    lower = upper = 0
    for first, last in sorted(ranges):
        first_page = first // PAGE_BYTES * PAGE_BYTES
        if first_page > upper:
            if upper:
                yield lower, upper
            lower = first_page
        upper = max(upper, -(-last // PAGE_BYTES) * PAGE_BYTES)
    if upper:
        yield lower, upper
