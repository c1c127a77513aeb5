"""GdbRemote: the few requests of gdb's remote protocol with which a simulated core is driven.

Source: "Debugging with GDB", appendix E: packets, their checksums, requests g/p/P, m/M, Z0, c.
"""

from __future__ import annotations

import socket
from collections.abc import Iterator

CHUNK_BYTES = 1024
"""Of memory in a packet, written as hexadecimal digits: below QEMU's limit of 4096 characters."""
WORD_BYTES = 4


class GdbRemote:
    """A connection to a debugger's stub. Every method raises OSError where it is lost."""

    def __init__(self, connection: socket.socket) -> None:
        self._socket = connection
        self._stream = connection.makefile("rb")
        # QEMU gives single registers only to those who have read its description of them.
        self._ask("qXfer:features:read:target.xml:0,400")

    def read(self, address: int, size_bytes: int) -> bytes:
        """Memory; zeros where there is none."""
        pieces = _chunks(address, size_bytes)
        return b"".join(bytes.fromhex(self._ask(f"m{at:x},{n:x}").decode()) for at, n in pieces)

    def write(self, address: int, content: bytes) -> None:
        """Writes memory, if there is any."""
        for at, size in _chunks(address, len(content)):
            piece = content[at - address : at - address + size]
            self._ask(f"M{at:x},{size:x}:{piece.hex()}")

    def register(self, number: int) -> int:
        """A register of 32 bits."""
        return int.from_bytes(bytes.fromhex(self._ask(f"p{number:x}").decode()), "little")

    def set_register(self, number: int, value: int) -> None:
        """Sets a register of 32 bits."""
        self._ask(f"P{number:x}={value.to_bytes(WORD_BYTES, 'little').hex()}")

    def stop_at(self, address: int) -> None:
        """From now on the core stops before it executes that Thumb instruction."""
        self._ask(f"Z0,{address:x},2")

    def run(self) -> bytes:
        """Runs until the core stops; how it did."""
        return self._ask("c")

    def close(self) -> None:
        """Ends the connection."""
        self._stream.close()
        self._socket.close()

    def _ask(self, request: str) -> bytes:
        """Sends a packet, and receives the answer."""
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
    """(address, size) of pieces that fit a packet."""
    for offset in range(0, size_bytes, CHUNK_BYTES):
        yield address + offset, min(CHUNK_BYTES, size_bytes - offset)
