"""vela: the parts of Arm's compiler that generate register commands and encode weights.

The package is optional, so it is imported when it is first needed.
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
"""The bit of a command that is followed by a second word, the low 32 bits of its operand."""
WAIT_FOR_COPIES = 0x11
"""The command NPU_OP_DMA_WAIT that waits for all copies."""
LOW_FIELD, WHOLE_FIELD = 0x00FFFFFF, 0xFFFFFFFF
"""The valid bits of a command that holds the high bits of an operand, and of other commands."""


@cache
def vela() -> Any:
    """The module `ethosu.vela.api`.  Raises BackendError if the package is not installed."""
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
    """Vela's identifier of a configuration.

    Its first use prints a warning that no system configuration is given; only Vela's estimates need
    one."""
    return vela().NpuAccelerator[name.replace("ethos-u", "Ethos_U").replace("-", "_")]


def command_words(operations: Sequence[Any], name: str) -> list[int]:
    """The command words that execute operations on a configuration, in order."""
    with _silent():
        words = vela().npu_generate_register_command_stream(list(operations), npu(name))
    return _within_fields(words)


def _within_fields(words: Sequence[int]) -> list[int]:
    """The words with operands cut to the 40 bits of addresses and strides; Vela leaves higher bits
    set in negative strides."""
    found = list(words)
    at = 0
    while at < len(found):
        two = bool(found[at] & TWO_WORDS)
        found[at] &= LOW_FIELD if two else WHOLE_FIELD
        at += 1 + two
    return found


def copies_done(words: Sequence[int]) -> list[int]:
    """The words, with a wait for all copies before the end."""
    *before, stop = words
    return [*before, WAIT_FOR_COPIES, stop]


def driver_payload(words: Sequence[int], name: str) -> bytes:
    """The words in the format that Arm's driver expects."""
    with _silent():
        return vela().npu_create_driver_payload(list(words), npu(name))


def payload_configuration(payload: bytes) -> str:
    """The name of the configuration for which a payload was made."""
    word = int.from_bytes(payload[8:12], "little")
    macs, product = 1 << (word & 15), word >> 28
    family = ("ethos-u55", "ethos-u65")[product]
    return next(name for name in CONFIGURATIONS if name == f"{family}-{macs}")


def _silent() -> contextlib.AbstractContextManager[object]:
    """Suppresses output to stdout."""
    return contextlib.redirect_stdout(io.StringIO())
