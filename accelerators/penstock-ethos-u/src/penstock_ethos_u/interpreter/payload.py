"""Extraction of the command stream from a payload of Arm's driver.

A payload is "COP1" or "COP2", followed by driver actions. The first word of an action contains its
kind in bits 7:0. The command stream follows an action of kind `STREAM`, which contains the size of
the stream in words. Source: ethosu_driver.c of Arm's ethos-u-core-driver.
"""

from __future__ import annotations

import numpy as np

from penstock.uma import BackendError

MAGIC = (b"COP1", b"COP2")
CONFIGURE, STREAM, NOTHING = 1, 2, 5
"""Kinds of driver actions."""
WORDS_OF = {CONFIGURE: 3, NOTHING: 1}
"""Number of words of an action, including its first word, by kind."""


def driver_payload(payload: bytes) -> bytes:
    """Return the command stream in a payload of Arm's Ethos-U driver. Raises BackendError if the
    payload is invalid or contains no command stream."""
    if payload[:4] not in MAGIC or len(payload) % 4:
        raise _wrong(0, f"it begins with {payload[:4]!r}")
    words = np.frombuffer(payload, "<u4").tolist()
    at = 1
    while at < len(words):
        kind = words[at] & 0xFF
        if kind == STREAM:
            return _stream(payload, words[at], at + 1)
        if kind not in WORDS_OF:
            raise _wrong(at, f"there is no driver action {kind}")
        at += WORDS_OF[kind]
    raise _wrong(at, "it has no command stream")


def _stream(payload: bytes, action: int, at: int) -> bytes:
    """Return the command stream that begins at the 32-bit word with index `at` of a payload.

    action: the word before the stream, which contains the size of the stream in words. Bits 31:16
        of `action` are bits 15:0 of the size; bits 15:8 of `action` are bits 23:16 of the size.

    Raises BackendError if the payload ends before the stream does."""
    size = 4 * ((action >> 16) | (action & 0xFF00) << 8)
    if len(payload) < 4 * at + size:
        raise _wrong(at, f"its stream has {len(payload) - 4 * at} bytes of {size}")
    return payload[4 * at : 4 * at + size]


def _wrong(word: int, what: str) -> BackendError:
    """Return the error for an invalid payload. `what` describes the fault at the word with
    index `word`."""
    return BackendError(
        "ethosu-102",
        what,
        where=f"a payload for Arm's Ethos-U driver, word {word}",
        why="a payload is COP1 or COP2 and driver actions, one of which is a command stream",
        help="pass a command stream that is not in a payload directly to execute()",
    )
