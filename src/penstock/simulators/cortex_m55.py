"""Simulates a Cortex-M55 with the interface of `cortex_m.py`: QEMU executes, a plugin counts.

Instruction counts are exact: they include conditional and predicated instructions that are skipped,
and the loop-end instruction in each iteration of a low-overhead loop.  QEMU does not model timing:
`cycles` are instructions, and branches are not counted.  Stack use is the extent of stack writes.
"""

from __future__ import annotations

import mmap
import shutil
import socket
import subprocess
import tempfile
import weakref
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from penstock.errors import InternalError, ToolError
from penstock.hardware.core_access import Trap
from penstock.simulators import calling
from penstock.simulators.calling import CallOutcome, ExecutionCounts, Simulated
from penstock.simulators.host_library import host_library
from penstock.toolchains.cortex_m import MemoryLayout
from penstock.toolchains.elf_file import ElfImage, read_image

# Qemu: a Cortex-M55 with memory, in QEMU's model of the MPS3 board AN547 (Corstone-300).
#
#     0x6000 0000  DDR memory used as flash
#     0x6800 0000  DDR memory used as RAM; the stack grows down from its upper end
#
# The start-up code of the program runs first.  Calls return to the end of the start-up code, where
# a breakpoint stops the core.  All accesses use the debugger stub.


# Bytes of memory per packet; as hexadecimal digits below QEMU's limit of 4096 characters.
CHUNK_BYTES = 1024
WORD_BYTES = 4


class GdbRemote:
    """A connection to a debugger stub.  Every method raises OSError if the connection is lost.

    Source: "Debugging with GDB", appendix E: packets, their checksums, requests g/p/P, m/M, Z0, c.
    """

    def __init__(self, connection: socket.socket) -> None:
        self._socket = connection
        self._stream = connection.makefile("rb")
        # QEMU serves single registers only after the target description has been read.
        self._ask("qXfer:features:read:target.xml:0,400")

    def read(self, address: int, size_bytes: int) -> bytes:
        """The contents of memory; zeros at unmapped addresses."""
        pieces = _chunks(address, size_bytes)
        return b"".join(bytes.fromhex(self._ask(f"m{at:x},{n:x}").decode()) for at, n in pieces)

    def write(self, address: int, content: bytes) -> None:
        """Writes memory; ignores unmapped addresses."""
        for at, size in _chunks(address, len(content)):
            piece = content[at - address : at - address + size]
            self._ask(f"M{at:x},{size:x}:{piece.hex()}")

    def register(self, number: int) -> int:
        """The value of a 32-bit register."""
        return int.from_bytes(bytes.fromhex(self._ask(f"p{number:x}").decode()), "little")

    def set_register(self, number: int, value: int) -> None:
        """Sets a 32-bit register."""
        self._ask(f"P{number:x}={value.to_bytes(WORD_BYTES, 'little').hex()}")

    def stop_at(self, address: int) -> None:
        """Sets a breakpoint at a Thumb instruction."""
        self._ask(f"Z0,{address:x},2")

    def run(self) -> bytes:
        """Runs until the core stops; returns the stop reply."""
        return self._ask("c")

    def close(self) -> None:
        """Closes the connection."""
        self._stream.close()
        self._socket.close()

    def _ask(self, request: str) -> bytes:
        body = request.encode()
        self._socket.sendall(b"$%s#%02x" % (body, sum(body) % 256))
        while (byte := self._byte()) != b"$":
            if byte == b"-":
                raise ConnectionError("the debugger's stub did not understand a packet")
        answer = b""
        while (byte := self._byte()) != b"#":
            answer += byte
        self._stream.read(2)  # the checksum: the connection is local
        self._socket.sendall(b"+")
        return answer

    def _byte(self) -> bytes:
        byte = self._stream.read(1)
        if not byte:
            raise ConnectionError("the debugger's stub is gone")
        return byte


def _chunks(address: int, size_bytes: int) -> Iterator[tuple[int, int]]:
    """Splits a range of memory into (address, size) of pieces that fit a packet."""
    for offset in range(0, size_bytes, CHUNK_BYTES):
        yield address + offset, min(CHUNK_BYTES, size_bytes - offset)


PROGRAM = "qemu-system-arm"
MACHINE = "mps3-an547"
LAYOUT = MemoryLayout(flash_base=0x6000_0000, ram_base=0x6800_0000)
STACK_TOP = LAYOUT.ram_base + LAYOUT.ram_bytes
END_OF_START_UP = "Stay"
PROGRAM_STATUS, THUMB_STATE = 25, 1 << 24
NUMBERS = {**{f"R{k}": k for k in range(13)}, "SP": 13, "LR": 14, "PC": 15}
SECONDS_TO_CONNECT, SECONDS_TO_RUN = 20.0, 3600.0


class Qemu:
    """The core with the program in its memory, which persists between runs.

    `folder` holds QEMU's messages and socket; it is deleted with this object.  `plugin` is the
    value of QEMU's option -plugin."""

    def __init__(self, elf: Path, image: ElfImage, folder: Path, plugin: str) -> None:
        self.image = image
        self._traps: dict[int, Trap] = {}
        self._messages = folder / "messages"
        door = folder / "gdb"
        with socket.socket(socket.AF_UNIX) as waiting:
            waiting.bind(str(door))
            waiting.listen(1)
            waiting.settimeout(SECONDS_TO_CONNECT)
            self._process = self._start(elf, door, plugin)
            self._gdb = GdbRemote(self._accept(waiting))
        self._end = weakref.finalize(self, _end, self._process, self._gdb, folder)
        self._start_up()

    def _start(self, elf: Path, door: Path, plugin: str) -> subprocess.Popen[bytes]:
        words = (
            *(qemu_program(), "-M", MACHINE, "-nodefaults", "-display", "none", "-S"),
            *("-gdb", f"unix:{door}", "-kernel", str(elf), "-plugin", plugin),
        )
        with self._messages.open("wb") as messages:
            return subprocess.Popen(
                words, stdin=subprocess.DEVNULL, stdout=messages, stderr=messages
            )

    def _accept(self, waiting: socket.socket) -> socket.socket:
        """Waits for QEMU to connect.  Raises ToolError if it does not."""
        try:
            connection, _ = waiting.accept()
        except OSError as error:
            self._process.kill()
            self._process.wait()
            raise ToolError(
                "tool-024",
                f"{PROGRAM} does not start",
                where=MACHINE,
                why=self._said() or str(error),
                help="version 7.2 or later with plugins is needed, as Debian packages it",
            ) from error
        connection.settimeout(SECONDS_TO_RUN)
        return connection

    def read(self, address: int, size_bytes: int) -> bytes:
        """The current contents of memory.  Raises InternalError for unmapped addresses."""
        _check_memory(address, size_bytes)
        return self._gdb.read(address, size_bytes)

    def write(self, address: int, content: bytes) -> None:
        """Writes memory, including flash.  Raises InternalError for unmapped addresses."""
        _check_memory(address, len(content))
        self._gdb.write(address, content)

    def register(self, name: str) -> int:
        """The register of that name, such as "R0" or "SP"."""
        return self._gdb.register(NUMBERS[name])

    def set_register(self, name: str, value: int) -> None:
        """Sets a register; negative values are taken modulo 2**32."""
        self._gdb.set_register(NUMBERS[name], value & 0xFFFF_FFFF)

    def run(self, address: int) -> None:
        """Runs the function at that address until it returns.

        Raises InternalError if it does not."""
        end = self.image.symbol(END_OF_START_UP).address
        self.set_register("LR", end | 1)
        self.set_register("PC", address)
        self._gdb.set_register(PROGRAM_STATUS, THUMB_STATE)
        try:
            self._gdb.run()
            while (trap := self._traps.get(self.register("PC"))) is not None:
                trap(self)
                self.set_register("PC", self.register("LR") & ~1)
                self._gdb.run()
        except OSError as error:
            self._process.kill()
            raise InternalError(
                "simulator-011",
                "the simulated program faulted",
                where=self.image.describe(address),
                why=self._said() or str(error),
            ) from error

    def set_trap(self, address: int, trap: Trap) -> None:
        """Executes `trap` when the core reaches that address, then returns from the function."""
        self._traps[address] = trap
        self._gdb.stop_at(address)

    def _start_up(self) -> None:
        self._gdb.stop_at(self.image.symbol(END_OF_START_UP).address)
        self.set_register("SP", STACK_TOP)
        self.run(self.image.symbol("Reset_Handler").address)

    def _said(self) -> str:
        lines = self._messages.read_text(errors="replace").strip().splitlines()
        return next((line for line in lines if line.startswith("qemu: fatal")), "".join(lines[-1:]))


def qemu_program() -> str:
    """The path of QEMU.  Raises ToolError if it is not installed."""
    program = shutil.which(PROGRAM)
    if program is None:
        raise ToolError(
            "tool-025",
            f"{PROGRAM} is not on the search path",
            where="core cortex-m55",
            why="only QEMU executes MVE instructions",
            help="install it: apt install qemu-system-arm",
        )
    return program


def _end(process: subprocess.Popen[bytes], gdb: GdbRemote, folder: Path) -> None:
    gdb.close()
    process.kill()
    process.wait()
    shutil.rmtree(folder, ignore_errors=True)


def _check_memory(address: int, size_bytes: int) -> None:
    """Raises InternalError for unmapped addresses, which QEMU reads as zeros."""
    upper = address + size_bytes
    for base, size in (
        (LAYOUT.flash_base, LAYOUT.flash_bytes),
        (LAYOUT.ram_base, LAYOUT.ram_bytes),
    ):
        if base <= address and upper <= base + size:
            return
    raise InternalError("simulator-012", f"no simulated memory at [{address:#x}, {upper:#x})")


SOURCE = Path(__file__).with_name("instruction_counter.c")
MOST_PHASES = 1023
BUDGET, SPENT, PHASE, FIRST_COUNT = 0, 1, 2, 3  # Positions in the file, in words of 64 bits.
CODE_LOWER = FIRST_COUNT + MOST_PHASES + 1
CODE_UPPER, WORDS = CODE_LOWER + 1, CODE_LOWER + 2


class InstructionCounter:
    """Counters in `file` for a program whose code has the addresses [code_lower, code_upper).

    `instruction_counter.c`, a QEMU plugin, is compiled once per user, like `block_hook.c`, and maps
    the same file."""

    def __init__(self, file: Path, code_lower: int, code_upper: int) -> None:
        self.library = host_library(SOURCE)
        self.file = file
        halfwords = (code_upper - code_lower + 1) // 2
        file.write_bytes(bytes(8 * WORDS + 2 * halfwords))
        with file.open("r+b") as stream:
            mapped = mmap.mmap(stream.fileno(), 0)
        self._words = np.frombuffer(mapped, np.uint64, WORDS)
        self._phase_at = np.frombuffer(mapped, np.uint16, halfwords, 8 * WORDS)
        self._words[CODE_LOWER], self._words[CODE_UPPER] = code_lower, code_upper

    def begin(self, markers: tuple[int, ...], budget: int) -> None:
        """Resets all counts.  From now on, phase `i + 1` begins at address `markers[i]`."""
        if len(markers) > MOST_PHASES:
            raise InternalError("simulator-009", f"more than {MOST_PHASES} phases of one call")
        self._words[:CODE_LOWER] = 0
        self._words[BUDGET] = budget
        self._phase_at[:] = 0
        for phase, address in enumerate(markers, start=1):
            self._phase_at[(address - int(self._words[CODE_LOWER])) // 2] = phase

    def counts(self, phases: int) -> list[int]:
        """Executed instructions of phases [0, phases)."""
        return [int(word) for word in self._words[FIRST_COUNT : FIRST_COUNT + phases]]

    @property
    def spent(self) -> bool:
        """Whether the budget is exhausted."""
        return bool(self._words[SPENT])


DEFAULT_STACK_LIMIT_BYTES = 16 << 10
DEFAULT_BUDGET_INSTRUCTIONS = 20_000_000_000
NAME = "cortex-m55"


class Simulator55(Simulated[Qemu]):
    """One core with one program in its memory, which persists between calls."""

    def __init__(self, elf: Path, *, stack_limit_bytes: int = DEFAULT_STACK_LIMIT_BYTES) -> None:
        self.image = read_image(elf)
        folder = Path(tempfile.mkdtemp(prefix="penstock-qemu-"))
        file = folder / "counts"
        lower, upper = self.image.code_lower, self.image.code_upper
        self._counter = InstructionCounter(file, lower, upper)
        self._counter.begin((), DEFAULT_BUDGET_INSTRUCTIONS)
        self._cpu = Qemu(elf, self.image, folder, f"{self._counter.library},counts={file}")
        self._stack_lower = STACK_TOP - stack_limit_bytes

    def call(
        self,
        name: str,
        *arguments: int,
        phases: Sequence[str] = (),
        budget_instructions: int = DEFAULT_BUDGET_INSTRUCTIONS,
    ) -> CallOutcome:
        """Calls a function with integers or pointers, and runs until it returns.

        Raises: InternalError at a fault, when the budget is spent, when r4 to r11 or sp came back
        changed, when the stack is above its limit."""
        sp = calling.prepare(self._cpu, arguments, STACK_TOP)
        paint = calling.paint_stack(self._cpu, self._stack_lower, sp)
        self._counter.begin(tuple(self.symbol(phase) for phase in phases), budget_instructions)
        self._run(name)
        calling.check_preserved(self._cpu, name, sp)
        lowest = calling.lowest_changed(self._cpu, self._stack_lower, paint)
        if lowest == self._stack_lower:
            raise InternalError(
                "simulator-013", f"'{name}' needs more than {sp - lowest} bytes of stack"
            )
        before, *counts = (ExecutionCounts(n, n) for n in self._counter.counts(len(phases) + 1))
        return CallOutcome(
            return_value=calling.result_register(self._cpu),
            counts=sum(counts, before),
            stack_bytes=sp - lowest,
            before=before,
            phases=tuple(counts),
        )

    def _run(self, name: str) -> None:
        try:
            self._cpu.run(self.symbol(name))
        except InternalError as error:
            if self._counter.spent:
                raise InternalError(
                    "simulator-007",
                    f"'{name}' did not return",
                    why="its budget is spent; does it loop for ever?",
                ) from error
            raise
