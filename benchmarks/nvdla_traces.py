"""NVDLA traces: NVDLA's own tests of direct convolution on the functional model.

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
from penstock.accelerators.nvdla.configurations import NvdlaConfiguration, configuration
from penstock.accelerators.nvdla.layer import ConvolutionLayer, NvdlaMemory
from penstock.accelerators.nvdla.model import execute
from penstock.accelerators.nvdla.registers import CONVOLUTION, decode
from penstock.accelerators.nvdla.stream import convolution_writes, to_bytes
from penstock.errors import ModelError

NUMBER = r"(0x[0-9a-fA-F]+)"
REGISTER = re.compile(rf"reg_write\(NVDLA_(\w+)\.(\w+)_0, {NUMBER}\)")
LOAD = re.compile(rf'mem_load\(pri_mem, {NUMBER}, "([^"]+)"\)')
CHECK = re.compile(rf"check_crc\([^,]+, \w+, {NUMBER}, {NUMBER}, {NUMBER}\)")
PIECE = re.compile(r"offset:(\w+), *size:\w+, *payload:([^}]*)\}")
IGNORED = re.compile(r"SDP\.D_DP_|CDMA\.D_CVT|CACC\.D_DATAOUT_ADDR|BATCH|OP_ENABLE")
"""Registers of disabled functions, which tests set to arbitrary values."""
WINDOW_BYTES = 1 << 22
"""Bytes of memory at each address that a test uses."""


@dataclass(frozen=True, slots=True)
class Trace:
    """Memory contents by address, a layer, and the CRC of bytes at an address."""

    name: str
    hardware: NvdlaConfiguration
    pieces: tuple[tuple[int, bytes], ...]
    layer: ConvolutionLayer
    output: tuple[int, int, int]

    def crc(self) -> int:
        """CRC of the output of the model, at relocated addresses."""
        layer = self.layer
        bases = (layer.source.address, layer.weight_address, layer.output.address)
        memory = np.zeros(len(bases) * WINDOW_BYTES, np.uint8)
        for address, content in self.pieces:
            for k, base in enumerate(bases):
                at = address - base
                if 0 <= at < WINDOW_BYTES - len(content):
                    at += k * WINDOW_BYTES
                    memory[at : at + len(content)] = np.frombuffer(content, np.uint8)
        moved = replace(
            layer,
            source=replace(layer.source, address=0),
            weight_address=WINDOW_BYTES,
            output=replace(layer.output, address=2 * WINDOW_BYTES),
        )
        execute(to_bytes(convolution_writes(moved)), {NvdlaMemory.MAIN: memory}, self.hardware)
        at = self.output[0] - bases[2] + 2 * WINDOW_BYTES
        return zlib.crc32(memory[at : at + self.output[1]].tobytes())


def main(arguments: Sequence[str]) -> int:
    """Prints the agreements; returns 1 unless all agree."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.nvdla_traces", description=__doc__)
    parser.add_argument("folder", type=Path, metavar="FOLDER", help="verif/tests/trace_tests")
    folder: Path = parser.parse_args(arguments).folder
    paths = sorted(folder.glob("nv_*/dc_*/*.cfg"))
    if not paths:
        raise ModelError(
            "bench-026",
            "there are no tests of direct convolution",
            where=str(folder),
            why="they are files nv_*/dc_*/*.cfg",
            help="name the folder verif/tests/trace_tests of nvdla/hw, branch nv_small",
        )
    agreed = 0
    for path in paths:
        test = read(path)
        same = test.crc() == test.output[2]
        agreed += same
        print(f"{test.name}: {'agrees' if same else 'DIFFERS'}")
    print(f"{agreed} of {len(paths)} agree")
    return 0 if agreed == len(paths) else 1


def read(path: Path) -> Trace:
    """The test in a file, with the memory files beside it.  Raises ModelError."""
    text = path.read_text("utf-8")
    check = CHECK.search(text)
    pieces = tuple(
        (int(address, 0) + offset, content)
        for address, name in LOAD.findall(text)
        for offset, content in _pieces(path.with_name(name))
    )
    words = {f"{unit}.{name}": int(word, 0) for unit, name, word in REGISTER.findall(text)}
    hardware = configuration(path.parent.parent.name)
    if check is None:
        raise ModelError("bench-027", "the test gives no CRC", where=str(path),
                         help="name tests of nvdla/hw, branch nv_small")  # fmt: skip
    address, size_bytes, crc = (int(number, 0) for number in check.groups())
    layer = decode(_relevant(words), hardware)
    name = f"{hardware.name} {path.parent.name}"
    return Trace(name, hardware, pieces, layer, (address, size_bytes, crc))


def _relevant(words: dict[str, int]) -> dict[str, int]:
    """The words without ignored ones; the complete register state of the core."""
    known = CONVOLUTION.names()
    return {n: w for n, w in words.items() if n in known and not IGNORED.search(n)}


def _pieces(path: Path) -> Iterator[tuple[int, bytes]]:
    """Offset and content of every piece of a memory file."""
    for offset, payload in PIECE.findall(path.read_text("utf-8")):
        yield int(offset, 0), bytes(int(byte, 0) for byte in payload.split())


if __name__ == "__main__":
    entry(main)
