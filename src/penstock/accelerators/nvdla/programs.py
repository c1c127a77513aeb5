"""programs: commands of a call as a stream that can be moved, and its loader.

Where tensors lie is known late, so a write of an address says how far behind one of the bases of
the submission it is.  A stream begins with what its loader must know:

    words  configuration | number of places | for each place: its write, its base | the writes

To the word of a place, the address of its base is added; then the writes are done, one after the
other (`stream.py`).
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

import numpy as np

from penstock.accelerators.nvdla.configurations import CONFIGURATIONS, Configuration
from penstock.accelerators.nvdla.layer import Memory
from penstock.accelerators.nvdla.model import execute
from penstock.accelerators.nvdla.stream import FORMAT
from penstock.uma import Array, Driver, Place, StreamCommand

NUMBERS = tuple(CONFIGURATIONS)
"""Configurations by their numbers in a stream."""
WORD = struct.Struct("<I")
PLACE = struct.Struct("<II")
BASE_BYTES = 256
"""To a multiple of which the functional model puts every base."""


def encode(commands: Sequence[StreamCommand]) -> bytes:
    """The stream of a call's commands: one `BEGIN`, then writes."""
    begin, *writes = commands
    assert begin.name == BEGIN.name
    (number,) = begin.arguments
    places: list[bytes] = []
    body: list[bytes] = []
    for k, write in enumerate(writes):
        address, word = write.arguments
        if isinstance(word, Place):
            places.append(PLACE.pack(k, word.base))
            word = word.offset_bytes
        body.append(FORMAT.pack(address, word))
    return b"".join((WORD.pack(number), WORD.pack(len(places)), *places, *body))


def decode(stream: bytes) -> tuple[Configuration, tuple[tuple[int, int], ...], bytes]:
    """The configuration, (write, base) of each place, and the writes as they were encoded."""
    number, count = PLACE.unpack_from(stream)
    end = PLACE.size * (1 + count)
    places = tuple(PLACE.iter_unpack(stream[PLACE.size : end]))
    return CONFIGURATIONS[NUMBERS[number]], places, stream[end:]


def moved(writes: bytes, places: Sequence[tuple[int, int]], bases: Sequence[int]) -> bytes:
    """The writes, with the addresses of bases in their places."""
    words = np.frombuffer(writes, "<u4").reshape(-1, 2).copy()
    for write, base in places:
        words[write, 1] += bases[base]
    return words.tobytes()


def submit(device: object, stream: Array, size: int, *bases: Array) -> None:
    """Runs a stream: every base is put into the memory of a functional model, and what has changed
    is taken back."""
    del device
    configuration, places, writes = decode(stream[:size].tobytes())
    sizes = [-(-len(base) // BASE_BYTES) * BASE_BYTES for base in bases]
    starts = np.concatenate([[0], np.cumsum(sizes)]).astype(int).tolist()
    memory = np.zeros(starts[-1], np.uint8)
    for start, base in zip(starts, bases, strict=False):
        memory[start : start + len(base)] = base
    before = memory.copy()
    extended = configuration.extended(0, 0)
    execute(moved(writes, places, starts), {Memory.MAIN: memory}, extended)
    for start, base in zip(starts, bases, strict=False):
        mine = slice(start, start + len(base))
        changed = memory[mine] != before[mine]
        if changed.any():  # constants cannot be written
            base[changed] = memory[mine][changed]


def _in_streams_only(device: object, *arguments: object) -> None:
    raise AssertionError("commands of a call are encoded, not done one by one")


SUBMIT = Driver("nvdla_submit", "nvdla", submit, object)
BEGIN = Driver("nvdla_begin", "nvdla", _in_streams_only, object)
"""Which configuration, by its number."""
WRITE = Driver("nvdla_write", "nvdla", _in_streams_only, object)
"""A register's address, and its word."""
