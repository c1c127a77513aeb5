"""GdbRemote: a client of the GDB remote protocol, as far as a simulated core needs it.

Source: "Debugging with GDB", appendix E: packets, their checksums, requests g/p/P, m/M, Z0, c.
"""

from __future__ import annotations

import socket
from collections.abc import Iterator

CHUNK_BYTES = 1024
"""Bytes of memory per packet; as hexadecimal digits below QEMU's limit of 4096 characters."""
WORD_BYTES = 4


class GdbRemote:
    """A connection to a debugger stub.  Every method raises OSError if the connection is lost."""

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
        """Sends a packet and returns the reply."""
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
