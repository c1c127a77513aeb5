"""stream: the operations of the array, and the command streams that state them.

A stream is a sequence of register writes, each of two little-endian 32-bit words:

    word 0    the number of the register in bits 0 to 7; in bits 8 to 15, 1 + the index of the base
              address that is added to the value, or 0 if the value is a number; bit 16 is 1 if
              that address is in the global buffer
    word 1    the value, signed

All registers are 0 at the beginning of a stream, and keep their values until they are written
again.  A write to register 0, `operation`, starts the operation of that number with the values that
its registers then have.  The registers of an operation are the fields of its class below; registers
of one name in several classes are one register.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Final, Generic, TypeVar, cast

from penstock.uma import AnyStreamCommand, Driver, DriverRecord, Place, StreamCommand
from penstock_pe_array.hardware import GLOBAL_BUFFER, Hardware

Number = TypeVar("Number")
Memory = TypeVar("Memory")
WRITE: Final = struct.Struct("<Ii")
"""A write of a register."""


@dataclass(frozen=True, slots=True)
class Configure:
    """The array for which the stream is made; the first operation of each call.  Hardware of other
    properties must refuse the stream.

    The fields have the meaning of those of `Hardware`; `dataflow` is a number of `Dataflow`."""

    rows: int
    columns: int
    dataflow: int
    banks: int
    input_bytes: int
    input_rate: int
    input_latency: int
    weights_bytes: int
    weights_rate: int
    weights_latency: int
    output_bytes: int
    output_rate: int
    output_latency: int
    memory_rate: int
    memory_latency: int
    memory_run: int
    global_rate: int
    global_latency: int

    @staticmethod
    def of(hardware: Hardware) -> Configure:
        """Return the operation for an array."""
        x, w, y = hardware.input, hardware.weights, hardware.output
        return Configure(
            hardware.rows,
            hardware.columns,
            int(hardware.dataflow),
            hardware.banks,
            *(x.size_bytes, x.bytes_per_cycle, x.latency_cycles),
            *(w.size_bytes, w.bytes_per_cycle, w.latency_cycles),
            *(y.size_bytes, y.bytes_per_cycle, y.latency_cycles),
            hardware.memory_bytes_per_cycle,
            hardware.memory_latency_cycles,
            hardware.memory_run_cycles,
            hardware.global_buffer.bytes_per_cycle,
            hardware.global_buffer.latency_cycles,
        )


@dataclass(frozen=True, slots=True)
class Load(Generic[Number, Memory]):
    """Copies runs of contiguous bytes from memory to a buffer.

    buffer: the number of the buffer (`BufferNumber`).
    local: offset in bytes of the first run in the buffer.
    address: the first run in memory.
    runs, run_bytes: number of runs, and bytes per run.
    pitch, local_pitch: bytes between the starts of runs, in memory and in the buffer."""

    buffer: int
    local: Number
    address: Memory
    runs: Number
    run_bytes: Number
    pitch: Number
    local_pitch: Number


@dataclass(frozen=True, slots=True)
class Store(Load[Number, Memory]):
    """Copies the low bytes of sums from the output buffer to memory.

    The fields are those of `Load`, with offsets and pitches in the buffer counted in sums."""


@dataclass(frozen=True, slots=True)
class Tile(Generic[Number, Memory]):
    """The registers of all computations of a tile of output elements.

    x: offset in bytes of the input tile in its buffer.
    x_row, x_column: bytes between its rows, and between its columns.
    y: offset of the output tile in its buffer, in sums; its rows and columns are y_row and y_column
        sums apart.
    out_h, out_w, out_c: the shape of the output tile.
    least, most: the inclusive bounds of the results."""

    x: Number
    x_row: Number
    x_column: Number
    y: Number
    out_h: Number
    out_w: Number
    out_c: Number
    y_row: Number
    y_column: Number
    least: Number
    most: Number


@dataclass(frozen=True, slots=True)
class WindowTile(Tile[Number, Memory]):
    """The registers of computations with windows.

    in_h, in_w: rows and columns of the input tile, without padding.
    pad_top, pad_left: rows and columns of padding before it; all elements after it are padding.
    kernel_h, kernel_w, stride_h, stride_w, dilation_h, dilation_w: the window."""

    in_h: Number
    in_w: Number
    pad_top: Number
    pad_left: Number
    kernel_h: Number
    kernel_w: Number
    stride_h: Number
    stride_w: Number
    dilation_h: Number
    dilation_w: Number


@dataclass(frozen=True, slots=True)
class Convolve(WindowTile[Number, Memory]):
    """Computes a tile of a convolution, or of a fully connected layer.

    depth: number of input channels that are summed.
    w: offset in bytes of the weights in their buffer; those of consecutive outputs and taps are
        w_output and w_tap bytes apart.
    in_zero, out_zero: the zero points.
    accumulate: 1 to add to the sums in the output buffer, 0 to begin at 0.
    finish: 1 to add the biases and requantise the sums; they are then results, in [least, most].
    parameters: in memory, bias, multiplier and shift of each output channel, as int32; read if
        `finish` is 1."""

    depth: Number
    w: Number
    w_output: Number
    w_tap: Number
    in_zero: Number
    out_zero: Number
    accumulate: Number
    finish: Number
    parameters: Memory


@dataclass(frozen=True, slots=True)
class ConvolveChannels(WindowTile[Number, Memory]):
    """Computes a tile of a depthwise convolution.

    Output channel o of the tile reads channel (skipped + o) // per_channel of the input tile.  The
    weights of consecutive channels are adjacent.  The other fields are those of `Convolve`."""

    w: Number
    w_tap: Number
    in_zero: Number
    out_zero: Number
    per_channel: Number
    skipped: Number
    parameters: Memory


@dataclass(frozen=True, slots=True)
class Pool(WindowTile[Number, Memory]):
    """Computes the maximum or the mean of each window of a tile, without its padding.

    is_mean: 1 for the mean, rounded to the nearest integer, ties away from zero."""

    is_mean: Number


@dataclass(frozen=True, slots=True)
class AddTiles(Tile[Number, Memory]):
    """Adds two tiles, with TFLite's arithmetic.

    w: offset in bytes of the second tile in the buffer of weights; its rows and columns are w_row
        and w_tap bytes apart.
    zero0, zero1, multiplier0, shift0, multiplier1, shift1: zero points and scales of the tiles.
    out_multiplier, out_shift, out_zero: scale and zero point of the result."""

    w: Number
    w_row: Number
    w_tap: Number
    zero0: Number
    zero1: Number
    multiplier0: Number
    shift0: Number
    multiplier1: Number
    shift1: Number
    out_multiplier: Number
    out_shift: Number
    out_zero: Number


Operation = (
    Configure
    | Load[int, Place]
    | Store[int, Place]
    | Convolve[int, Place]
    | ConvolveChannels[int, Place]
    | Pool[int, Place]
    | AddTiles[int, Place]
)
"""An operation of a stream."""
OPERATIONS: Final[Mapping[type[DriverRecord], str]] = {
    Configure: "configure",
    Load: "load",
    Store: "store",
    Convolve: "convolve",
    ConvolveChannels: "convolve_channels",
    Pool: "pool",
    AddTiles: "add",
}
"""The names of operations by their classes; the number of an operation counts from 1."""
REGISTERS: Final = (
    "operation",
    *dict.fromkeys(field.name for kind in OPERATIONS for field in fields(kind)),
)
"""The names of the registers, by number."""


def _unused(*arguments: object) -> None:
    del arguments
    raise AssertionError("operations run in streams")


DRIVERS: Final[Mapping[type[DriverRecord], Driver]] = {
    kind: Driver(f"pe_array_{name}", "pe_array", _unused, object)
    for kind, name in OPERATIONS.items()
}
"""What a kernel invokes to issue an operation, by the class of the operation."""


def encode(commands: Sequence[AnyStreamCommand]) -> bytes:
    """Return the stream of a call.  This function is the entry point of the encoder."""
    held: dict[str, int | Place] = dict.fromkeys(REGISTERS, 0)
    found: list[bytes] = []
    for command in commands:
        assert isinstance(command, StreamCommand)
        operation = cast(DriverRecord, command.record)
        for field in fields(operation):
            value: int | Place = getattr(operation, field.name)
            if held[field.name] != value:
                held[field.name] = value
                found.append(_write(field.name, value))
        found.append(_write("operation", 1 + [*OPERATIONS].index(type(operation))))
    return b"".join(found)


def _write(register: str, value: int | Place) -> bytes:
    number = REGISTERS.index(register)
    if isinstance(value, Place):
        inside = (value.memory == GLOBAL_BUFFER) << 16
        return WRITE.pack(inside | (value.base + 1) << 8 | number, value.offset_bytes)
    return WRITE.pack(number, value)


def decode(stream: bytes) -> Iterator[Operation]:
    """Yield the operations of a stream, with a `Place` for each address."""
    held: dict[str, int | Place] = dict.fromkeys(REGISTERS, 0)
    for word, value in WRITE.iter_unpack(stream):
        register, base = REGISTERS[word & 0xFF], word >> 8 & 0xFF
        memory = GLOBAL_BUFFER if word >> 16 else ""
        held[register] = Place(base - 1, value, memory) if base else value
        if register == "operation":
            kind = [*OPERATIONS][value - 1]
            create = cast(Callable[..., Operation], kind)
            yield create(*(held[field.name] for field in fields(kind)))


def registers_header() -> str:
    """Return the C header with the numbers of registers and operations."""
    registers = ",\n    ".join(f"PE_{name.upper()}" for name in REGISTERS)
    operations = ",\n    ".join(
        f"PE_DO_{name.upper()} = {number}" for number, name in enumerate(OPERATIONS.values(), 1)
    )
    return f"""/* pe_array_registers.h: the numbers of registers and operations in streams. */
#ifndef PE_ARRAY_REGISTERS_H
#define PE_ARRAY_REGISTERS_H

enum {{
    {registers},
    PE_REGISTERS
}};
enum {{
    {operations}
}};

#endif
"""


def hardware_header(hardware: Hardware) -> str:
    """Return the C header with the properties of an array, as the operation `Configure` states
    them."""
    configure = Configure.of(hardware)
    lines = (
        f"#define PE_ARRAY_{field.name.upper()} {getattr(configure, field.name)}"
        for field in fields(configure)
    )
    text = "\n".join(lines)
    return f"""/* pe_array_hardware.h: the properties of the array. */
#ifndef PE_ARRAY_HARDWARE_H
#define PE_ARRAY_HARDWARE_H

{text}

#endif
"""
