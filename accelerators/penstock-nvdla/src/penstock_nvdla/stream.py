"""stream: encodes hardware layers as a binary stream of register writes, and as text.

A write consists of two little-endian 32-bit words: the address of a register and its new value.  A
hardware layer consists of writes to its registers, followed by the writes that start its units, in
the reverse order of the data flow: the unit that reads the input starts last.  The layer completes
before the next one starts, unless that one begins with `MEANWHILE`.

The text has one line for each write, `UNIT.REGISTER 0xWORD field=value ...`, and an empty line
after each layer; `#` begins a comment.  Parsing a printed text and printing the result reproduces
the text.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from penstock.uma import BackendError
from penstock_nvdla.bindings import ENABLE, Register, registers, registers_by_address
from penstock_nvdla.layer import ConvolutionLayer
from penstock_nvdla.pdp import POOLING, PoolingLayer
from penstock_nvdla.registers import UNITS, encode
from penstock_nvdla.sdp import CUBE, LAYER, SdpCube, SdpLayer, SdpOperations, encode_operations

FORMAT = struct.Struct("<II")
# The units that read the input from memory; starting one of them executes the layer. As an
# exception, SDP_RDMA only reads operands if SDP takes its input from the convolution core.
SOURCES = ("CDMA", "SDP_RDMA", "PDP_RDMA")
FLYING = "SDP_RDMA.D_FEATURE_MODE_CFG"  # The register whose lowest bit states that exception.


@dataclass(frozen=True, slots=True)
class Write:
    """A write of the value `word` to the register named `register`."""

    register: str
    word: int

    @property
    def starts(self) -> str | None:
        """The unit that the write starts; None if it starts no unit."""
        unit, _, name = self.register.partition(".")
        return unit if name == ENABLE and self.word else None


# The first write of a layer that may start while the convolution before it runs: it selects the
# group of registers that the other one does not use.
MEANWHILE = Write("CDMA.S_POINTER", 1)


def convolution_writes(layer: ConvolutionLayer) -> tuple[Write, ...]:
    """Return the register writes of a convolution layer: those of its parameters, then those that
    start its units.

    Raises UnsupportedError if a parameter does not fit the register field that holds it."""
    return _layer_writes(encode(layer), UNITS)


def operating_writes(layer: ConvolutionLayer, operations: SdpOperations) -> tuple[Write, ...]:
    """Return the register writes of a convolution layer: those of its parameters, then those that
    start its units.

    operations: what SDP does with the accumulators before it converts them to output elements.

    Raises UnsupportedError if a parameter does not fit the register field that holds it."""
    cube = SdpCube(layer.out_width, layer.out_height, layer.kernels)
    words = {**encode(layer), **encode_operations(operations), **CUBE.encode(cube)}
    return _layer_writes(words, (*UNITS[:-1], "SDP_RDMA", "SDP"))


def sdp_writes(layer: SdpLayer, operations: SdpOperations) -> tuple[Write, ...]:
    """Return the register writes of a layer of SDP alone: those of its parameters, then those that
    start its units.

    Raises UnsupportedError if a parameter does not fit the register field that holds it."""
    words = {**LAYER.encode(layer), **encode_operations(operations)}
    return _layer_writes(words, ("SDP_RDMA", "SDP"))


def pooling_writes(layer: PoolingLayer) -> tuple[Write, ...]:
    """Return the register writes of a pooling layer of PDP: those of its parameters, then those
    that start its units.

    Raises UnsupportedError if a parameter does not fit the register field that holds it."""
    return _layer_writes(POOLING.encode(layer), ("PDP_RDMA", "PDP"))


def to_bytes(writes: Iterable[Write]) -> bytes:
    """Return register writes as a binary stream: for each write, the address of the register and
    the word, as little-endian 32-bit numbers.

    >>> to_bytes([Write("CDMA.D_OP_ENABLE", 1)]).hex()
    '1030000001000000'
    """
    return b"".join(FORMAT.pack(registers()[w.register].address, w.word) for w in writes)


def from_bytes(stream: bytes) -> tuple[Write, ...]:
    """Return the writes of a binary stream.  Raises BackendError if the stream is malformed."""
    if len(stream) % FORMAT.size:
        raise _malformed(
            f"it has {len(stream)} bytes, which is not a multiple of {FORMAT.size}",
            f"byte {len(stream) // FORMAT.size * FORMAT.size}",
        )
    found: list[Write] = []
    for k, (address, word) in enumerate(FORMAT.iter_unpack(stream)):
        register = registers_by_address().get(address)
        if register is None:
            raise _malformed(f"there is no register at {address:#x}", f"byte {k * FORMAT.size}")
        found.append(Write(register.name, word))
    return tuple(found)


def to_text(writes: Iterable[Write]) -> str:
    """Return register writes as text, one line `UNIT.REGISTER 0xWORD field=value ...` for each.

    Raises UnsupportedError if a word sets bits outside its register's fields."""
    return "".join(_lines(writes))


def from_text(text: str) -> tuple[Write, ...]:
    """Return the register writes that `text` lists, in the format of `to_text`.

    Raises BackendError if a line is malformed, and UnsupportedError if a word sets bits outside its
    register's fields."""
    found = (
        _parse_line(line.split("#")[0].split(), f"line {k}")
        for k, line in enumerate(text.splitlines(), 1)
    )
    return tuple(write for write in found if write is not None)


def _layer_writes(words: Mapping[str, int], units: tuple[str, ...]) -> tuple[Write, ...]:
    return (
        *(Write(name, word) for name, word in words.items()),
        *(Write(f"{unit}.{ENABLE}", 1) for unit in units[::-1]),
    )


def _lines(writes: Iterable[Write]) -> Iterator[str]:
    words: dict[str, int] = {}
    for write in writes:
        words[write.register] = write.word
        fields = _fields(registers()[write.register], write.word)
        yield " ".join((write.register, f"{write.word:#010x}", *fields)) + "\n"
        if completes(write, words):
            yield "\n"


def completes(write: Write, words: Mapping[str, int]) -> bool:
    """Return whether a write starts the last unit of a layer, so that the layer is executed.

    words: the words written before, by register name."""
    flies = write.starts == "SDP_RDMA" and words.get(FLYING, 0) & 1 == 1
    return write.starts in SOURCES and not flies


def _fields(register: Register, word: int) -> list[str]:
    """The fields of a register word in the form ["name=value", ...]."""
    return [f"{name}={value}" for name, value in register.values(word).items()]


def _parse_line(words: list[str], where: str) -> Write | None:
    """The write that a line of text encodes, given the words of the line; None for an empty
    line.  `where` is the line's location in error messages."""
    if not words:
        return None
    register = registers().get(words[0])
    if register is None:
        raise _malformed(f"there is no register {words[0]}", where)
    try:
        word = int(words[1], 0)
        right = 0 <= word < 1 << 32
    except (IndexError, ValueError):
        word, right = 0, False
    if not right:
        raise _malformed(f"{words[0]} is not followed by a 32-bit word", where)
    if words[2:] and words[2:] != _fields(register, word):
        raise _malformed(f"{words[0]} {word:#x} has other fields than are written", where)
    return Write(register.name, word)


def _malformed(what: str, where: str) -> BackendError:
    return BackendError(
        "nvdla-011",
        what,
        where=f"a stream of register writes for NVDLA, {where}",
        why="a stream is pairs of a register's address and a word of 32 bits",
        help='the page "NVDLA: registers, streams and memory" lists them',
    )


def invalid_stream(what: str, why: str) -> BackendError:
    """Return the error `what` for a stream that the hardware cannot execute, with the reason
    `why`."""
    return BackendError(
        "nvdla-012",
        what,
        where="a stream of register writes for NVDLA",
        why=why,
        help="correct the stream",
    )
