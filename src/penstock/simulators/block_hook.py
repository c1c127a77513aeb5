"""BlockHook: counts executed basic blocks in C, forty times faster than a Python callback.

`block_hook.c` is compiled once per user and cached under a hash of its text.  A run fills records
`(address, size, phase) -> executions, exits taken, lowest stack pointer`.
"""

from __future__ import annotations

import ctypes
from enum import IntEnum
from pathlib import Path

import numpy as np
import numpy.typing as npt

from penstock.errors import InternalError
from penstock.simulators.host_library import host_library

SOURCE = Path(__file__).with_name("block_hook.c")
CAPACITY = 1 << 20  # records; unused ones occupy no physical memory
LARGEST_CODE_BYTES = 64 << 20

RECORD = np.dtype(
    [
        ("address", np.uint32),
        ("size", np.uint32),
        ("phase", np.uint32),
        ("next", np.uint32),
        ("sp_lowest", np.uint32),
        ("reserved", np.uint32),
        ("executions", np.uint64),
        ("exits_taken", np.uint64),
    ]
)


class Status(IntEnum):
    """Why the hook ended a run; RUNNING if it did not."""

    RUNNING = 0
    OUTSIDE_CODE = 1
    TOO_MANY_RECORDS = 2
    BUDGET_SPENT = 3


class _Counters(ctypes.Structure):
    _fields_ = (
        ("read_register", ctypes.c_void_p),
        ("stop", ctypes.c_void_p),
        ("first", ctypes.c_void_p),
        ("phase_at", ctypes.c_void_p),
        ("records", ctypes.c_void_p),
        ("budget_halfwords", ctypes.c_uint64),
        ("code_lower", ctypes.c_uint32),
        ("code_upper", ctypes.c_uint32),
        ("capacity", ctypes.c_uint32),
        ("used", ctypes.c_uint32),
        ("phase", ctypes.c_uint32),
        ("previous", ctypes.c_uint32),
        ("status", ctypes.c_uint32),
        ("sp_name", ctypes.c_int32),
    )


class BlockHook:
    """Counters for a program whose code has the addresses [code_lower, code_upper).

    `read_register` and `stop` are addresses of C functions of the CPU simulator, and `sp_name` is
    its number of the stack pointer.  Register the attribute `function` as block hook, with `state`
    as its argument.
    """

    def __init__(
        self, code_lower: int, code_upper: int, *, read_register: int, stop: int, sp_name: int
    ) -> None:
        if code_upper - code_lower > LARGEST_CODE_BYTES:
            raise InternalError("simulator-001", "code is spread over more than 64 MiB")
        halfwords = (code_upper - code_lower + 1) // 2
        self._library = ctypes.CDLL(str(host_library(SOURCE)))
        self._first = np.zeros(halfwords, np.uint32)
        self._phase_at = np.zeros(halfwords, np.uint32)
        self._records = np.zeros(CAPACITY, RECORD)
        self._counters = _Counters(
            read_register=read_register,
            stop=stop,
            first=self._first.ctypes.data,
            phase_at=self._phase_at.ctypes.data,
            records=self._records.ctypes.data,
            code_lower=code_lower,
            code_upper=code_upper,
            capacity=CAPACITY,
            sp_name=sp_name,
        )
        function = self._library.on_block
        self.function: int = ctypes.cast(function, ctypes.c_void_p).value or 0
        self.state: int = ctypes.addressof(self._counters)

    def begin(self, markers: tuple[int, ...], budget_halfwords: int) -> None:
        """Resets all counts.  From now on, phase `i + 1` begins at address `markers[i]`."""
        self._library.forget(ctypes.byref(self._counters))
        self._phase_at[:] = 0
        for phase, address in enumerate(markers, start=1):
            self._phase_at[(address - self._counters.code_lower) >> 1] = phase
        self._counters.budget_halfwords = budget_halfwords

    def end(self) -> npt.NDArray[np.void]:
        """The records of the run, of type RECORD, with the final return as a taken branch."""
        if self._counters.previous:
            self._records["exits_taken"][self._counters.previous - 1] += np.uint64(1)
        return self._records[: self._counters.used].copy()

    @property
    def last_block(self) -> int | None:
        """Start address of the block entered last; None if no block was entered."""
        previous = self._counters.previous
        return int(self._records["address"][previous - 1]) if previous else None

    @property
    def status(self) -> Status:
        """Why the hook ended the run, if it did."""
        return Status(self._counters.status)
