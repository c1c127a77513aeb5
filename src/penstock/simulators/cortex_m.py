"""Simulates a Cortex-M, calls functions of a program, and counts instructions and cycles.

    simulator = Simulator(Path("net.elf"), "cortex-m4")
    simulator.write(simulator.symbol("input"), image)
    outcome = simulator.call("net_run", phases=("net_step0", "net_step1"))
    outcome.counts.instructions, outcome.stack_bytes, outcome.phases[1].cycles

**Phases.** Phase `net_step0` begins when that function is entered and ends when another named
function is entered.  It includes all functions that it calls and the code of `net_run` after it.
Repeated entries add up.  The named functions must not be inlined (a missing symbol is an error) and
must not call each other.  The C code needs no instrumentation.

Instruction counts are exact and include conditional instructions that are skipped.  Counts of taken
branches are exact and include the final return.  Cycles are those of the timing table of the core
(`cortex_m_timing.py`).  Each call is counted separately.

Unaligned LDM, LDRD, STM and STRD fault on a real Armv7-M core but not in this simulator.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Sequence
from enum import IntEnum
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from penstock.errors import InternalError
from penstock.hardware.core_access import Trap
from penstock.simulators import calling
from penstock.simulators.calling import CallOutcome, Simulated, counts_by_phase
from penstock.simulators.cortex_m_timing import BasicBlock, Core, core_named, decode
from penstock.simulators.host_library import host_library
from penstock.toolchains.command import extra
from penstock.toolchains.elf_file import ElfImage, read_image

# BlockHook: counts executed basic blocks in C, forty times faster than a Python callback.
#
# `block_hook.c` is compiled once per user and cached under a hash of its text.  A run fills records
# `(address, size, phase) -> executions, exits taken, lowest stack pointer`.


SOURCE = Path(__file__).with_name("block_hook.c")
CAPACITY = 1 << 20  # records; unused ones occupy no physical memory
LARGEST_CODE_BYTES = 64 << 20

RECORD = np.dtype(
    [
        ("address", np.uint32),
        ("size", np.uint32),
        ("phase", np.uint32),
        ("next", np.uint32),
        ("sp_lowest", np.uint32),
        ("reserved", np.uint32),
        ("executions", np.uint64),
        ("exits_taken", np.uint64),
    ]
)


class Status(IntEnum):
    """Why the hook ended a run; RUNNING if it did not."""

    RUNNING = 0
    OUTSIDE_CODE = 1
    TOO_MANY_RECORDS = 2
    BUDGET_SPENT = 3


class _Counters(ctypes.Structure):
    _fields_ = (
        ("read_register", ctypes.c_void_p),
        ("stop", ctypes.c_void_p),
        ("first", ctypes.c_void_p),
        ("phase_at", ctypes.c_void_p),
        ("records", ctypes.c_void_p),
        ("budget_halfwords", ctypes.c_uint64),
        ("code_lower", ctypes.c_uint32),
        ("code_upper", ctypes.c_uint32),
        ("capacity", ctypes.c_uint32),
        ("used", ctypes.c_uint32),
        ("phase", ctypes.c_uint32),
        ("previous", ctypes.c_uint32),
        ("status", ctypes.c_uint32),
        ("sp_name", ctypes.c_int32),
    )


class BlockHook:
    """Counters for a program whose code has the addresses [code_lower, code_upper).

    `read_register` and `stop` are addresses of C functions of the CPU simulator, and `sp_name` is
    its number of the stack pointer.  Register the attribute `function` as block hook, with `state`
    as its argument.
    """

    def __init__(
        self, code_lower: int, code_upper: int, *, read_register: int, stop: int, sp_name: int
    ) -> None:
        if code_upper - code_lower > LARGEST_CODE_BYTES:
            raise InternalError("simulator-001", "code is spread over more than 64 MiB")
        halfwords = (code_upper - code_lower + 1) // 2
        self._library = ctypes.CDLL(str(host_library(SOURCE)))
        self._first = np.zeros(halfwords, np.uint32)
        self._phase_at = np.zeros(halfwords, np.uint32)
        self._records = np.zeros(CAPACITY, RECORD)
        self._counters = _Counters(
            read_register=read_register,
            stop=stop,
            first=self._first.ctypes.data,
            phase_at=self._phase_at.ctypes.data,
            records=self._records.ctypes.data,
            code_lower=code_lower,
            code_upper=code_upper,
            capacity=CAPACITY,
            sp_name=sp_name,
        )
        function = self._library.on_block
        self.function: int = ctypes.cast(function, ctypes.c_void_p).value or 0
        self.state: int = ctypes.addressof(self._counters)

    def begin(self, markers: tuple[int, ...], budget_halfwords: int) -> None:
        """Resets all counts.  From now on, phase `i + 1` begins at address `markers[i]`."""
        self._library.forget(ctypes.byref(self._counters))
        self._phase_at[:] = 0
        for phase, address in enumerate(markers, start=1):
            self._phase_at[(address - self._counters.code_lower) >> 1] = phase
        self._counters.budget_halfwords = budget_halfwords

    def end(self) -> npt.NDArray[np.void]:
        """The records of the run, of type RECORD, with the final return as a taken branch."""
        if self._counters.previous:
            self._records["exits_taken"][self._counters.previous - 1] += np.uint64(1)
        return self._records[: self._counters.used].copy()

    @property
    def last_block(self) -> int | None:
        """Start address of the block entered last; None if no block was entered."""
        previous = self._counters.previous
        return int(self._records["address"][previous - 1]) if previous else None

    @property
    def status(self) -> Status:
        """Why the hook ended the run, if it did."""
        return Status(self._counters.status)


# Cpu: one Cortex-M core with its memory, registers and faults, simulated by Unicorn.
#
#     0x0800 0000  flash   read and execute, up to the end of the program's segments
#     0x1FFF 0000          return address of a called function; not mapped
#     0x2000 0000  RAM     read and write, up to the end of the program's segments
#     0x4000 0000  stack   grows down from here; addresses below its limit are not mapped
#
# The linked program determines the addresses of flash and RAM.  Memory is initialised as at the
# start of `main`; the start-up code does not run.  Accesses to other addresses and writes to flash
# fault, at the granularity of 4 KiB pages.


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

    def set_trap(self, address: int, trap: Trap) -> None:
        """Executes `trap` when the core reaches that address, then returns from the function."""

        def reached(*_: object) -> None:
            trap(self)
            self.set_register("PC", self.register("LR"))

        self._engine.hook_add(self._unicorn.UC_HOOK_CODE, reached, begin=address, end=address)

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


DEFAULT_STACK_LIMIT_BYTES = 64 << 10
DEFAULT_BUDGET_HALFWORDS = 20_000_000_000


class Simulator(Simulated[Cpu]):
    """One core with one program in its memory, which persists between calls."""

    def __init__(
        self, elf: Path, core: str, *, stack_limit_bytes: int = DEFAULT_STACK_LIMIT_BYTES
    ) -> None:
        self.core = core_named(core)
        self.image = read_image(elf)
        self._cpu = Cpu(self.image, self.core, stack_limit_bytes)
        self._hook = BlockHook(
            self.image.code_lower,
            self.image.code_upper,
            read_register=self._cpu.library_function("uc_reg_read"),
            stop=self._cpu.library_function("uc_emu_stop"),
            sp_name=self._cpu.register_number("SP"),
        )
        self._cpu.add_block_hook(self._hook.function, self._hook.state)
        self._blocks: dict[tuple[int, int], BasicBlock] = {}

    def call(
        self,
        name: str,
        *arguments: int,
        phases: Sequence[str] = (),
        budget_halfwords: int = DEFAULT_BUDGET_HALFWORDS,
    ) -> CallOutcome:
        """Calls a function with integers or pointers, and runs until it returns.

        `budget_halfwords` limits the executed code; an instruction has one or two halfwords.
        Raises InternalError on a fault, when the budget is exhausted, and if the function does not
        restore r4 to r11 and sp.
        """
        sp = calling.prepare(self._cpu, arguments, STACK_TOP)
        lower = self._cpu.stack_lower
        paint = calling.paint_stack(self._cpu, lower, sp)
        self._hook.begin(self._markers(phases), budget_halfwords)
        try:
            self._cpu.run(self.symbol(name))
            self._check_return(name, sp)
        except InternalError as error:
            raise error.at(self._last_block(name)) from error
        records = self._hook.end()
        blocks = [self._block(int(r["address"]), int(r["size"])) for r in records]
        before, *counts = counts_by_phase(records, blocks, self.core.timing, len(phases) + 1)
        changed = calling.lowest_changed(self._cpu, lower, paint)
        return CallOutcome(
            return_value=calling.result_register(self._cpu),
            counts=sum(counts, before),
            stack_bytes=sp - min(_lowest_pointer(records, blocks), changed),
            before=before,
            phases=tuple(counts),
        )

    def _markers(self, phases: Sequence[str]) -> tuple[int, ...]:
        addresses = tuple(self.symbol(name) for name in phases)
        if len(set(addresses)) != len(addresses):
            raise InternalError("simulator-006", "two phases begin at the same function")
        return addresses

    def _check_return(self, name: str, sp: int) -> None:
        """Raises InternalError unless the function returned as the calling convention requires."""
        why = {
            Status.OUTSIDE_CODE: "the program counter is outside the code",
            Status.TOO_MANY_RECORDS: "more blocks and phases than the counters hold",
            Status.BUDGET_SPENT: "its budget is spent; does it loop for ever?",
        }.get(self._hook.status, "")
        if not why and self._cpu.register("PC") != RETURN_ADDRESS:
            why = "the core stopped"
        if why:
            raise InternalError(
                "simulator-007", f"'{name}' did not return", where=self._cpu.place(), why=why
            )
        calling.check_preserved(self._cpu, name, sp)

    def _last_block(self, name: str) -> str:
        last = self._hook.last_block
        return f"call of {name}" if last is None else f"block {self.image.describe(last)}"

    def _block(self, address: int, size_bytes: int) -> BasicBlock:
        key = (address, size_bytes)
        if key not in self._blocks:
            self._blocks[key] = decode(self.read(address, size_bytes), address)
        return self._blocks[key]


def _lowest_pointer(records: npt.NDArray[np.void], blocks: Sequence[BasicBlock]) -> int:
    """The lowest stack pointer: for each block, its value on entry minus the bytes pushed."""
    growth = np.array([block.stack_bytes for block in blocks], np.int64)
    return int((records["sp_lowest"].astype(np.int64) - growth).min())
