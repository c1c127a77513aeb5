"""vela: the part of Arm's compiler that writes register commands and encodes weights.

It is an optional package, so it is imported when it is first needed.
"""

from __future__ import annotations

import contextlib
import io
from collections.abc import Sequence
from functools import cache
from importlib import import_module
from typing import Any

from penstock.accelerators.ethos_u.configurations import CONFIGURATIONS
from penstock.uma import BackendError

EXTRA = "penstock[ethos-u]"
TWO_WORDS = 1 << 14
"""In a command: another word follows, the low 32 bits of a number."""
WAIT_FOR_COPIES = 0x11
"""The command NPU_OP_DMA_WAIT, until none is under way."""
LOW_FIELD, WHOLE_FIELD = 0x00FFFFFF, 0xFFFFFFFF
"""Of a command with its number's high bits, and of any other."""


@cache
def vela() -> Any:
    """The module `ethosu.vela.api`.  Raises BackendError where the package is not there."""
    try:
        return import_module("ethosu.vela.api")
    except ImportError as error:
        raise BackendError(
            "ethosu-001",
            "streams for Ethos-U cannot be written without the package ethos-u-vela",
            where="accelerators ethos_u55 and ethos_u65",
            why=str(error),
            help=f"pip install '{EXTRA}'",
        ) from error


def npu(name: str) -> Any:
    """What the package calls a configuration.

    Its first use prints that no system configuration is given, which only its estimates need."""
    return vela().NpuAccelerator[name.replace("ethos-u", "Ethos_U").replace("-", "_")]


def command_words(operations: Sequence[Any], name: str) -> list[int]:
    """The words that run operations on a configuration, one after the other."""
    with _silent():
        words = vela().npu_generate_register_command_stream(list(operations), npu(name))
    return _within_fields(words)


def _within_fields(words: Sequence[int]) -> list[int]:
    """The words without bits above the 40 of addresses and strides, which the package leaves in
    where a stride is negative."""
    found = list(words)
    at = 0
    while at < len(found):
        two = bool(found[at] & TWO_WORDS)
        found[at] &= LOW_FIELD if two else WHOLE_FIELD
        at += 1 + two
    return found


def copies_done(words: Sequence[int]) -> list[int]:
    """The words with a wait for all copies before the end."""
    *before, stop = words
    return [*before, WAIT_FOR_COPIES, stop]


def driver_payload(words: Sequence[int], name: str) -> bytes:
    """The words as Arm's driver takes them."""
    with _silent():
        return vela().npu_create_driver_payload(list(words), npu(name))


def payload_configuration(payload: bytes) -> str:
    """For which configuration a payload was made."""
    word = int.from_bytes(payload[8:12], "little")
    macs, product = 1 << (word & 15), word >> 28
    family = ("ethos-u55", "ethos-u65")[product]
    return next(name for name in CONFIGURATIONS if name == f"{family}-{macs}")


def _silent() -> contextlib.AbstractContextManager[object]:
    return contextlib.redirect_stdout(io.StringIO())
