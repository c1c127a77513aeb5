"""vela: the functions of Arm's compiler Vela that generate register commands and encode weights.

The Python package of Vela is an optional dependency, so it is imported on first use.
"""

from __future__ import annotations

import contextlib
import io
from collections.abc import Iterator, Sequence
from functools import cache
from importlib import import_module
from typing import Any

import numpy as np

from penstock.uma import BackendError
from penstock_ethos_u.configurations import CONFIGURATIONS

EXTRA = "penstock[ethos-u]"
# The bit that is set in a command with a second word, which contains the low 32 bits of an operand.
TWO_WORDS = 1 << 14
WAIT_FOR_COPIES = 0x11  # The command NPU_OP_DMA_WAIT that waits for all copies.
WAIT_FOR_OPERATIONS = 0x12  # The command NPU_OP_KERNEL_WAIT that waits for all operations.
CODE = 0x3FF  # Mask of the code of a command with one word.
# The codes of commands that start operations and copies, and of the stop command: NPU_OP_STOP,
# NPU_OP_CONV, NPU_OP_DEPTHWISE, NPU_OP_POOL, NPU_OP_ELEMENTWISE, NPU_OP_DMA_START.
STARTS = frozenset((0x00, 0x02, 0x03, 0x05, 0x06, 0x10))
U85_VERSION = 0x2000_7000  # The register ID of Ethos-U85.
# Masks of the valid bits of a first word: of a command with two words, and of a command with one.
LOW_FIELD, WHOLE_FIELD = 0x00FFFFFF, 0xFFFFFFFF


@cache
def vela() -> Any:
    """Return the module of Vela's API, `ethosu.vela.api`. Raises BackendError if the package is not
    installed."""
    try:
        return import_module("ethosu.vela.api")
    except ImportError as error:
        raise BackendError(
            "ethosu-001",
            "streams for Ethos-U cannot be written without the package ethos-u-vela",
            where="accelerators ethos_u55, ethos_u65 and ethos_u85",
            why=str(error),
            help=f"pip install '{EXTRA}'",
        ) from error


def encoder() -> Any:
    """Return Vela's module that compresses a sequence of weights, `ethosu.mlw_codec`. Raises
    BackendError if the package is not installed."""
    vela()
    return import_module("ethosu.mlw_codec")


def npu(name: str) -> Any:
    """Return Vela's identifier of a hardware configuration.

    name: name of the configuration, such as "ethos-u55-128"."""
    # On first use, Vela prints a warning that no system configuration is given.  It can be ignored:
    # only Vela's own estimates need one.
    return vela().NpuAccelerator[name.replace("ethos-u", "Ethos_U").replace("-", "_")]


def command_words(operations: Sequence[Any], name: str) -> list[int]:
    """Return the 32-bit words of the register commands that execute `operations`, operations of
    Vela's API, in order.

    name: name of the hardware configuration, such as "ethos-u55-128"."""
    with _silent():
        words = vela().npu_generate_register_command_stream(list(operations), npu(name))
    return _truncated_operands(words)


def _truncated_operands(words: Sequence[int]) -> list[int]:
    """The command words with addresses and strides truncated to 40 bits, the size of the
    registers. This is necessary because Vela encodes negative strides with more than 40 bits."""
    found = list(words)
    at = 0
    while at < len(found):
        two = bool(found[at] & TWO_WORDS)
        found[at] &= LOW_FIELD if two else WHOLE_FIELD
        at += 1 + two
    return found


def operation_words(words: Sequence[int]) -> Iterator[list[int]]:
    """Yield the command words of each operation or copy, which end with the command that starts it;
    last, those of the stop command."""
    found: list[int] = []
    at = 0
    while at < len(words):
        size = 2 if words[at] & TWO_WORDS else 1
        found += words[at : at + size]
        at += size
        if size == 1 and found[-1] & CODE in STARTS:
            yield found
            found = []


def driver_payload(words: Sequence[int], name: str) -> bytes:
    """Return command words in the format of a payload for Arm's driver.

    name: name of the configuration, such as "ethos-u55-128"."""
    chip = CONFIGURATIONS[name]
    if chip.memories is not None:
        (to_sram, to_others), decoders = chip.memories.axi_ports, chip.decoders.bit_length() - 1
        configuration = chip.macs.bit_length() - 1 | 1 << 4 | 2 << 28
        configuration |= to_sram << 8 | to_others << 10 | decoders << 12
        size = len(words)
        header = 0x10_0001, configuration, U85_VERSION, *(5,) * 3, 2 | size >> 16 << 8 | size << 16
        return b"COP1" + np.array([*header, *words], np.int64).astype("<u4").tobytes()
    with _silent():
        return vela().npu_create_driver_payload(list(words), npu(name))


def payload_configuration(payload: bytes) -> str:
    """Return the name of the configuration for which a payload was generated, such as
    "ethos-u55-128"."""
    word = int.from_bytes(payload[8:12], "little")
    macs, product = 1 << (word & 15), word >> 28
    family = ("ethos-u55", "ethos-u65", "ethos-u85")[product]
    return next(name for name in CONFIGURATIONS if name == f"{family}-{macs}")


def _silent() -> contextlib.AbstractContextManager[object]:
    return contextlib.redirect_stdout(io.StringIO())
