"""arm_runner: runs an optimised TFLite file in Arm's own software, on a simulated processor.

The software is Arm's inference runner for Corstone-300, an unmodified binary in the package
`mlia-ethos-u`: TensorFlow Lite Micro with CMSIS-NN, and Arm's driver for Ethos-U. QEMU simulates
the processor (machine mps3-an547), which has no NPU. Only the registers of the NPU are ours: the
driver's base address is redirected to a page of memory, and a write to the register CMD stops the
processor. The interpreter then executes the stream with the base addresses and sizes that the
driver has passed, and the interrupt of the NPU becomes pending, so that the driver ends the job.

Sources: the runner's memory map; ethos-u-core-driver (registers, `ethosu_dev_init`); the remote
serial protocol of GDB; Armv8-M Architecture Reference Manual (NVIC_ISPR).
"""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import struct
import subprocess
import tempfile
import time
from collections.abc import Generator
from importlib.util import find_spec
from pathlib import Path
from typing import Any, cast

import numpy as np

from penstock.uma import AcceleratorTarget, FileRunner, ToolError
from penstock_ethos_u.configurations import configuration
from penstock_ethos_u.interpreter import execute

PACKAGE = "mlia-ethos-u"
RUNNERS = "resources/backends/applications/*sse-300*tflm-ethos-{}*/*.axf"
RUNNER_VARIABLE = "PENSTOCK_ARM_RUNNER"  # A path of another binary.
QEMU = "qemu-system-arm"
# Addresses at which the runner expects the file and its inputs, and copies its outputs to.
MODEL, INPUT, OUTPUT = 0x9000_0000, 0x9200_0000, 0x9300_0000
REGISTERS = 0x9F00_0000  # Our registers of the NPU: a page of memory.
ID, STATUS, CMD, QBASE, QREAD, QSIZE, PROT, CONFIG, BASEP = (
    0x0, 0x4, 0x8, 0x10, 0x18, 0x20, 0x24, 0x28, 0x80,
)  # fmt: skip
ARCHITECTURE = 1 << 28 | 1 << 20 | 4 << 12 | 2 << 8  # Of ID: 1.1.0.
PRIVILEGED_SECURE = 1
RUN, CLEAR_INTERRUPT = 1, 2  # Of CMD.
INTERRUPT_RAISED, DONE = 2, 0x22  # Of STATUS; done: at the end of the stream, interrupt raised.
SHARED_KIB = {32: 16, 64: 16, 128: 24, 256: 48}
INTERRUPT = 56  # Of the NPU.
PENDING = 0xE000_E200  # NVIC_ISPR0
DEV_INIT, MAIN, ASSERTION = "ethosu_dev_init", "_Z8MainLoopv", "__assert_func"
CACHE = ("ethosu_flush_dcache", "ethosu_invalidate_dcache")
LINK, PROGRAM_COUNTER = 14, 15
PART_BYTES = 1024  # Of a read or write of memory by the protocol.
SECONDS = 120  # After which the processor is considered stuck.


def require_runner(family: str = "U55") -> Path:
    """Return the path of the runner for a family, "U55" or "U65". Raises ToolError unless it and
    the simulator are installed."""
    path = _runner(family)
    if path is None:
        raise ToolError(
            "ethosu-118",
            "Arm's inference runner is not installed",
            where="--last-rung arm-runner",
            why=f"there is no package {PACKAGE}, and {RUNNER_VARIABLE} names no file",
            help=f"pip install --no-deps {PACKAGE}",
        )
    if shutil.which(QEMU) is None:
        raise ToolError(
            "ethosu-119",
            f"{QEMU} is not installed",
            where="--last-rung arm-runner",
            why="it simulates the processor that runs Arm's software",
            help="install QEMU for Arm systems, such as by apt install qemu-system-arm",
        )
    return path


def _runner(family: str) -> Path | None:
    given = os.environ.get(RUNNER_VARIABLE)
    if given:
        return Path(given) if Path(given).is_file() else None
    spec = find_spec("mlia")
    for folder in (spec.submodule_search_locations or ()) if spec is not None else ():
        return next(iter(sorted(Path(folder).glob(RUNNERS.format(family)))), None)
    return None


def run(file: bytes, given: bytes, output_bytes: int, target: AcceleratorTarget) -> bytes:
    """Return the outputs of an optimised file, one after another.

    given: its inputs, one after another.

    Raises ToolError if the runner is missing or does not end, BackendError if a stream is
    invalid."""
    runner = require_runner(_family(target))
    with tempfile.TemporaryDirectory(prefix="penstock-") as name:
        folder = Path(name)
        (folder / "model.tflite").write_bytes(file)
        (folder / "input.bin").write_bytes(given)
        with _processor(runner, folder) as gdb:
            try:
                ended = _Run(gdb, _symbols(runner.read_bytes()), target).until_end()
            except TimeoutError:
                ended = f"an endless loop ({SECONDS} s)"
            if ended == MAIN:
                return gdb.read(OUTPUT, output_bytes)
        text = (folder / "uart.txt").read_text("utf-8", "replace").strip()
    raise ToolError(
        "ethosu-120",
        "Arm's inference runner does not run the network to its end",
        where="--last-rung arm-runner",
        why=f"it stops in {ended}; its last words: {' / '.join(text.splitlines()[-3:])}",
        help="TensorFlow Lite Micro may lack an operator, or its arena may be too small",
    )


ARM_RUNNER = FileRunner(
    format="vela-tflite",
    networks="networks on Ethos-U",
    outputs="outputs of Arm's inference runner",
    require=require_runner,
    run=run,
)


def _family(target: AcceleratorTarget) -> str:
    return "U" + target.name.removeprefix("ethos_u")[:2]


@contextlib.contextmanager
def _processor(runner: Path, folder: Path) -> Generator[_Gdb]:
    """The simulated processor, before its first instruction."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [QEMU, "-M", "mps3-an547", "-m", "2G", "-display", "none", "-monitor", "none"]
    command += ["-serial", f"file:{folder / 'uart.txt'}", "-kernel", str(runner)]
    for name, address in (("model.tflite", MODEL), ("input.bin", INPUT)):
        command += ["-device", f"loader,file={folder / name},addr={address:#x},force-raw=on"]
    command += ["-gdb", f"tcp:127.0.0.1:{port}", "-S"]
    qemu = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        gdb = _Gdb(port)
        try:
            yield gdb
        finally:
            gdb.close()
    finally:
        qemu.terminate()
        qemu.wait()


class _Gdb:
    """A client of the remote serial protocol of GDB."""

    def __init__(self, port: int) -> None:
        for _ in range(100):
            try:
                self._socket = socket.create_connection(("127.0.0.1", port), timeout=SECONDS)
                break
            except OSError:
                time.sleep(0.1)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._replies = self._socket.makefile("rb")
        self.ask("qSupported:xmlRegisters=arm")
        self.ask("qXfer:features:read:target.xml:0,ffb")  # Otherwise QEMU rejects p and P.
        self.ask("?")

    def close(self) -> None:
        self._replies.close()
        self._socket.close()

    def ask(self, text: str) -> str:
        """Send a packet and return the reply."""
        self._socket.sendall(f"${text}#{sum(text.encode()) % 256:02x}".encode())
        while (one := self._replies.read(1)) != b"$":
            if not one:
                raise EOFError("the simulator closed the connection")
        data = b"".join(iter(lambda: self._replies.read(1), b"#"))
        self._replies.read(2)
        self._socket.sendall(b"+")
        return data.decode("latin1")

    def read(self, address: int, size_bytes: int) -> bytes:
        places = range(address, address + size_bytes, PART_BYTES)
        sizes = (min(PART_BYTES, address + size_bytes - at) for at in places)
        parts = (self.ask(f"m{at:x},{size:x}") for at, size in zip(places, sizes, strict=True))
        return b"".join(map(bytes.fromhex, parts))

    def write(self, address: int, data: bytes) -> None:
        for at in range(0, len(data), PART_BYTES):
            part = data[at : at + PART_BYTES]
            self.ask(f"M{address + at:x},{len(part):x}:{part.hex()}")

    def word(self, address: int) -> int:
        return int(struct.unpack("<I", self.read(address, 4))[0])

    def set_word(self, address: int, value: int) -> None:
        self.write(address, struct.pack("<I", value))

    def register(self, number: int) -> int:
        return int(struct.unpack("<I", bytes.fromhex(self.ask(f"p{number:x}")[:8]))[0])

    def set_register(self, number: int, value: int) -> None:
        self.ask(f"P{number:x}={struct.pack('<I', value).hex()}")

    def stop_at(self, address: int) -> None:
        self.ask(f"Z0,{address:x},2")

    def pass_by(self, address: int) -> None:
        """Execute the instruction at an address at which the processor stops."""
        self.ask(f"z0,{address:x},2")
        self.ask("s")
        self.stop_at(address)


class _Run:
    """A run of the runner: the NPU behind its registers.

    sizes: the sizes of the memory regions of the next stream, by number."""

    def __init__(self, gdb: _Gdb, symbols: dict[str, int], target: AcceleratorTarget) -> None:
        self._gdb = gdb
        self._symbols = symbols
        family = f"ethos-{_family(target).lower()}"
        macs = int(cast(int, target.attrs.get("macs", 256)))
        mode = str(target.attrs["memory_mode"])
        self._chip = configuration(family, macs, mode)
        self._sizes: tuple[int, ...] = ()

    def until_end(self) -> str:
        """Run; return the name of the function in which the processor stops, `MAIN` at the end."""
        gdb = self._gdb
        names = (DEV_INIT, *CACHE, MAIN, ASSERTION)
        stops = {self._symbols[name]: name for name in names}
        for address in stops:
            gdb.stop_at(address)
        while True:
            reply, where = gdb.ask("c"), gdb.register(PROGRAM_COUNTER)
            name = stops.get(where)
            if "watch:" in reply:  # The processor stops before it writes CMD.
                self._watch(on=False)
                gdb.ask("s")
                self._command()
                self._watch(on=True)
                continue
            if name == DEV_INIT:
                self._reset()
                gdb.set_register(1, REGISTERS)
                self._watch(on=True)
            elif name == MAIN:
                end = gdb.register(LINK) & ~1
                stops[end] = "end"
                gdb.stop_at(end)
            elif name in CACHE:
                sizes, count = gdb.register(1), gdb.register(2)
                self._sizes = struct.unpack(f"<{count}I", gdb.read(sizes, 4 * count))
            else:
                return MAIN if name == "end" else name or f"{where:#x} ({reply})"
            gdb.pass_by(where)

    def _watch(self, *, on: bool) -> None:
        self._gdb.ask(f"{'Z' if on else 'z'}2,{REGISTERS + CMD:x},4")

    def _reset(self) -> None:
        macs = self._chip.macs
        product = int("u65" in self._chip.name)
        self._gdb.write(REGISTERS, bytes(0x1000))
        self._gdb.set_word(REGISTERS + ID, ARCHITECTURE)
        config = macs.bit_length() - 1 | SHARED_KIB[macs] << 8 | product << 28
        self._gdb.set_word(REGISTERS + CONFIG, config)
        self._gdb.set_word(REGISTERS + PROT, PRIVILEGED_SECURE)

    def _command(self) -> None:
        """Do what the driver has written to CMD."""
        gdb = self._gdb
        value = gdb.word(REGISTERS + CMD)
        if value & CLEAR_INTERRUPT:
            status = gdb.word(REGISTERS + STATUS)
            gdb.set_word(REGISTERS + STATUS, status & ~INTERRUPT_RAISED)
        if value & RUN:
            self._execute()
            gdb.set_word(REGISTERS + STATUS, DONE)
            gdb.set_word(REGISTERS + QREAD, gdb.word(REGISTERS + QSIZE))
            self._raise_interrupt()

    def _execute(self) -> None:
        gdb = self._gdb
        stream = gdb.read(gdb.word(REGISTERS + QBASE), gdb.word(REGISTERS + QSIZE))
        bases = struct.unpack("<8Q", gdb.read(REGISTERS + BASEP, 64))[: len(self._sizes)]
        # Regions may overlap: those that do are parts of one array.
        spans: list[list[int]] = []
        pairs = zip(bases, self._sizes, strict=True)
        for lower, upper in sorted((base, base + size) for base, size in pairs):
            if not spans or lower >= spans[-1][1]:
                spans.append([lower, upper])
            spans[-1][1] = max(spans[-1][1], upper)
        arrays = {
            lower: np.frombuffer(bytearray(gdb.read(lower, upper - lower)), np.uint8)
            for lower, upper in spans
        }
        before = {lower: array.copy() for lower, array in arrays.items()}
        regions: dict[int, Any] = {}
        for number, (base, size) in enumerate(zip(bases, self._sizes, strict=True)):
            start = max(lower for lower in arrays if lower <= base)
            regions[number] = arrays[start][base - start : base - start + size]
            if MODEL <= base < INPUT:
                regions[number].flags.writeable = False
        execute(stream, regions, self._chip.name)
        for lower, array in arrays.items():
            changed = np.flatnonzero(array != before[lower])
            if changed.size:
                first, end = int(changed[0]), int(changed[-1]) + 1
                gdb.write(lower + first, array[first:end].tobytes())

    def _raise_interrupt(self) -> None:
        """Make the interrupt pending: repeat the store that wrote CMD, at the NVIC. Writes of the
        protocol do not reach devices in QEMU."""
        gdb, at = self._gdb, self._gdb.register(PROGRAM_COUNTER) - 2
        (code,) = struct.unpack("<H", gdb.read(at, 2))
        assert code >> 11 == 0b01100, "str rt, [rn, #imm]"
        value, base, offset = code & 7, code >> 3 & 7, (code >> 6 & 31) * 4
        saved = gdb.register(value), gdb.register(base)
        gdb.set_register(value, 1 << INTERRUPT % 32)
        gdb.set_register(base, PENDING + 4 * (INTERRUPT // 32) - offset)
        gdb.set_register(PROGRAM_COUNTER, at)
        gdb.ask("s")
        gdb.set_register(value, saved[0])
        gdb.set_register(base, saved[1])


SECTION_HEADER, SYMBOL = struct.Struct("<10I"), struct.Struct("<IIIBBH")
SYMBOL_TABLE, FUNCTION = 2, 2  # SHT_SYMTAB, STT_FUNC


def _symbols(elf: bytes) -> dict[str, int]:
    """The addresses of the functions of a 32-bit ELF file, by name.

    Source: Tool Interface Standard, Executable and Linking Format."""
    (start,) = struct.unpack_from("<I", elf, 32)
    size, count = struct.unpack_from("<HH", elf, 46)
    headers = [SECTION_HEADER.unpack_from(elf, start + k * size) for k in range(count)]
    found: dict[str, int] = {}
    for header in (h for h in headers if h[1] == SYMBOL_TABLE):
        offset, extent, texts = header[4], header[5], headers[header[6]]
        for at in range(offset, offset + extent, SYMBOL.size):
            name, value, _, info, _, _ = SYMBOL.unpack_from(elf, at)
            if info & 15 == FUNCTION:
                begin = texts[4] + name
                text = elf[begin : elf.index(b"\0", begin)].decode("latin1")
                found[text] = value & ~1
    return found
