"""NVDLA traces: NVDLA's own tests of convolution, SDP and PDP on the functional model.

    python -m benchmarks.nvdla_traces FOLDER

FOLDER is verif/tests/trace_tests of nvdla/hw, branch nv_small. A test loads features and weights,
writes registers and states the CRC of the output. Prints for each test whether the CRCs agree;
exits with 1 unless all do.
"""

from __future__ import annotations

import argparse
import re
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from benchmarks.entry import entry
from penstock.errors import ModelError
from penstock_nvdla.bindings import registers
from penstock_nvdla.configurations import NvdlaConfiguration, configuration
from penstock_nvdla.layer import NvdlaMemory
from penstock_nvdla.model import execute
from penstock_nvdla.pdp import POOLING
from penstock_nvdla.registers import CONVOLUTION, decode
from penstock_nvdla.sdp import (
    LAYER,
    OPERAND_REGISTERS,
    SdpOperations,
    SdpUnitY,
    decode_operations,
    decode_sdp,
)
from penstock_nvdla.stream import Write, convolution_writes, pooling_writes, sdp_writes, to_bytes

KINDS = ("dc", "sdp", "pdp")
"""The kinds of tests: direct convolution, post-processing and pooling."""
NUMBER = r"(0x[0-9a-fA-F]+)"
REGISTER = re.compile(rf"reg_write\(NVDLA_(\w+)\.(\w+)_0, {NUMBER}\)")
LOAD = re.compile(rf'mem_load\(pri_mem, {NUMBER}, "([^"]+)"\)')
CHECK = re.compile(rf"check_crc\([^,]+, \w+, {NUMBER}, {NUMBER}, {NUMBER}\)")
PIECE = re.compile(r"offset:(\w+), *size:\w+, *payload:([^}]*)\}")
IGNORED = re.compile(
    r"SDP\.D_DP_|CDMA\.D_CVT|CACC\.D_DATAOUT_ADDR|BATCH|OP_ENABLE|PDP.*(PARTIAL|NAN)|PDP\.D_SRC"
    r"|PDP_RDMA\.D_POOLING_PADDING"
)
"""Registers of disabled functions, which tests set to arbitrary values."""
UNIT_Y = re.compile(r"SDP\.D_DP_EW|SDP_RDMA\.D_(ERDMA|EW)")
"""Registers of SDP's unit Y."""
MODE_Y, SUM_Y = "SDP.D_DP_EW_CFG", 0x48
"""The register whose lowest bit bypasses this unit, and its mode that multiplies and adds."""
ADDENDS, ADDENDS_BYTES = 1 << 40, 1 << 16
"""The address of a tensor with the addend of unit Y, which a test has in a register.  The model
reads addends from memory."""
SPLIT = "PDP.D_OPERATION_MODE_CFG"
"""The register that divides the columns of a pooling layer, in bits 8 to 15."""
WINDOW_BYTES = 1 << 26
"""Bytes of memory at each address that a test uses."""


@dataclass(frozen=True, slots=True)
class Trace:
    """Memory contents by address, the writes of a layer, and the CRC of bytes at an address.

    addresses: those that the layer uses, in the order of the windows to which they are moved.
    """

    name: str
    hardware: NvdlaConfiguration
    pieces: tuple[tuple[int, bytes], ...]
    addresses: tuple[int, ...]
    writes: tuple[Write, ...]
    output: tuple[int, int, int]

    def crc(self) -> int:
        """CRC of the output of the model, at relocated addresses."""
        memory = np.zeros(len(self.addresses) * WINDOW_BYTES, np.uint8)
        for address, content in self.pieces:
            for k, base in enumerate(self.addresses):
                at = address - base
                if 0 <= at < WINDOW_BYTES - len(content):
                    at += k * WINDOW_BYTES
                    memory[at : at + len(content)] = np.frombuffer(content, np.uint8)
        execute(to_bytes(self.writes), {NvdlaMemory.MAIN: memory}, self.hardware)
        base = min(
            (b for b in self.addresses if b <= self.output[0]), key=lambda b: self.output[0] - b
        )
        at = self.output[0] - base + self.addresses.index(base) * WINDOW_BYTES
        return zlib.crc32(memory[at : at + self.output[1]].tobytes())


def main(arguments: Sequence[str]) -> int:
    """Prints the agreements; returns 1 unless all agree."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.nvdla_traces", description=__doc__)
    parser.add_argument("folder", type=Path, metavar="FOLDER", help="verif/tests/trace_tests")
    folder: Path = parser.parse_args(arguments).folder
    paths = sorted(p for kind in KINDS for p in folder.glob(f"nv_*/{kind}_*/*.cfg"))
    if not paths:
        raise ModelError(
            "bench-026",
            "there are no tests of direct convolution",
            where=str(folder),
            why="they are files nv_*/dc_*/*.cfg",
            help="name the folder verif/tests/trace_tests of nvdla/hw, branch nv_small",
        )
    agreed = left_out = 0
    for path in paths:
        test = read(path)
        if test is None:
            left_out += 1
            continue
        same = test.crc() == test.output[2]
        agreed += same
        print(f"{test.name}: {'agrees' if same else 'DIFFERS'}")
    print(f"{agreed} of {len(paths) - left_out} agree")
    if left_out:
        print(f"{left_out} are left out: divided columns, the table of unit Y, SDP before PDP")
    return 0 if agreed + left_out == len(paths) else 1


def read(path: Path) -> Trace | None:
    """The test in a file, with the memory files beside it.

    None if the layer is of a kind that the model does not execute.  Raises ModelError."""
    text = path.read_text("utf-8")
    check = CHECK.search(text)
    pieces = tuple(
        (int(address, 0) + offset, content)
        for address, name in LOAD.findall(text)
        for offset, content in _pieces(path.with_name(name))
    )
    words = {f"{unit}.{name}": int(word, 0) for unit, name, word in REGISTER.findall(text)}
    hardware = configuration(path.parent.parent.name)
    y = _unit_y(words)
    if y is not None:  # the specification of `small` is without the unit, its tests are not
        hardware = replace(hardware, rates=replace(hardware.rates, elementwise=1))
        addend = words["SDP.D_DP_EW_ALU_SRC_VALUE"]
        pieces += ((ADDENDS, bytes([addend]) * ADDENDS_BYTES),)
    if check is None:
        raise ModelError("bench-027", "the test gives no CRC", where=str(path),
                         help="name tests of nvdla/hw, branch nv_small")  # fmt: skip
    address, size_bytes, crc = (int(number, 0) for number in check.groups())
    moved = _moved(path.parent.name, words, hardware)
    if moved is None:
        return None
    name = f"{hardware.name} {path.parent.name}"
    return Trace(name, hardware, pieces, *moved, (address, size_bytes, crc))


def _moved(
    name: str, words: dict[str, int], hardware: NvdlaConfiguration
) -> tuple[tuple[int, ...], tuple[Write, ...]] | None:
    """The addresses that a layer uses, and its writes with addresses in windows of memory.

    None if the layer is of a kind that the model does not execute.
    """
    if name.startswith("dc_"):
        layer = decode(_relevant(words, CONVOLUTION.names), hardware)
        addresses = (layer.source.address, layer.weight_address, layer.output.address)
        moved = replace(
            layer,
            source=replace(layer.source, address=0),
            weight_address=WINDOW_BYTES,
            output=replace(layer.output, address=2 * WINDOW_BYTES),
        )
        return addresses, convolution_writes(moved)
    y = _unit_y(words)
    uses_y = not words.get(MODE_Y, 1) & 1
    if name.startswith("sdp_pdp") or words.get(SPLIT, 0) >> 8 or (uses_y and y is None):
        return None
    if name.startswith("pdp_"):
        pooling = POOLING.decode(_relevant(words, POOLING.names))
        addresses = (pooling.source.address, pooling.output.address)
        return addresses, pooling_writes(
            replace(
                pooling,
                source=replace(pooling.source, address=0),
                output=replace(pooling.output, address=WINDOW_BYTES),
            )
        )
    single = decode_sdp(_relevant(words, LAYER.names))
    operations = decode_operations(
        {
            name: registers()[name].word(_fields(name, word))
            for name, word in words.items()
            if name in OPERAND_REGISTERS and not UNIT_Y.match(name)
        }
    )
    addresses = (single.source.address, single.output.address,
                 operations.x1.address, operations.x2.address, ADDENDS)  # fmt: skip
    moved_layer = replace(
        single,
        source=replace(single.source, address=0),
        output=replace(single.output, address=WINDOW_BYTES),
    )
    if y is not None:
        strides = (single.source.line_stride, single.source.surface_stride)
        y = SdpUnitY(y.factor, y.scale, 4 * WINDOW_BYTES, *strides, right_shift=y.right_shift)
    units = SdpOperations(
        replace(operations.x1, address=2 * WINDOW_BYTES),
        replace(operations.x2, address=3 * WINDOW_BYTES),
        y,
    )
    return addresses, sdp_writes(moved_layer, units)


def _unit_y(words: dict[str, int]) -> SdpUnitY | None:
    """Unit Y of a test, except the place of the addends.

    None unless it multiplies by a register and adds a register, the modes that the model has."""
    sources = words.get("SDP.D_DP_EW_ALU_CFG", 1) | words.get("SDP.D_DP_EW_MUL_CFG", 1)
    if words.get(MODE_Y, 1) != SUM_Y or sources & 1:
        return None
    factor, right = words["SDP.D_DP_EW_MUL_SRC_VALUE"], words["SDP.D_DP_EW_TRUNCATE_VALUE"]
    return SdpUnitY(factor, scale=1, right_shift=right)


def _fields(name: str, word: int) -> dict[str, int]:
    """The fields of a register; tests set other bits, too."""
    return {field.name: field.value(word) for field in registers()[name].fields}


def _relevant(words: dict[str, int], known: Sequence[str]) -> dict[str, int]:
    """The words of known registers without ignored ones."""
    return {n: w for n, w in words.items() if n in known and not IGNORED.search(n)}


def _pieces(path: Path) -> Iterator[tuple[int, bytes]]:
    """Offset and content of every piece of a memory file."""
    for offset, payload in PIECE.findall(path.read_text("utf-8")):
        yield int(offset, 0), bytes(int(byte, 0) for byte in payload.split())


if __name__ == "__main__":
    entry(main)
