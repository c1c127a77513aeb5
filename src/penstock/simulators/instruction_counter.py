"""InstructionCounter: counts executed instructions by phase with a QEMU plugin.

`instruction_counter.c` is compiled once per user, like `block_hook.c`.  The plugin and this class
map the same file.
"""

from __future__ import annotations

import mmap
from pathlib import Path

import numpy as np

from penstock.errors import InternalError
from penstock.simulators.host_library import host_library

SOURCE = Path(__file__).with_name("instruction_counter.c")
MOST_PHASES = 1023
BUDGET, SPENT, PHASE, FIRST_COUNT = 0, 1, 2, 3
"""Positions in the file, in words of 64 bits."""
CODE_LOWER = FIRST_COUNT + MOST_PHASES + 1
CODE_UPPER, WORDS = CODE_LOWER + 1, CODE_LOWER + 2


class InstructionCounter:
    """Counters in `file` for a program whose code has the addresses [code_lower, code_upper)."""

    def __init__(self, file: Path, code_lower: int, code_upper: int) -> None:
        self.library = host_library(SOURCE)
        self.file = file
        halfwords = (code_upper - code_lower + 1) // 2
        file.write_bytes(bytes(8 * WORDS + 2 * halfwords))
        with file.open("r+b") as stream:
            mapped = mmap.mmap(stream.fileno(), 0)
        self._words = np.frombuffer(mapped, np.uint64, WORDS)
        self._phase_at = np.frombuffer(mapped, np.uint16, halfwords, 8 * WORDS)
        self._words[CODE_LOWER], self._words[CODE_UPPER] = code_lower, code_upper

    def begin(self, markers: tuple[int, ...], budget: int) -> None:
        """Resets all counts.  From now on, phase `i + 1` begins at address `markers[i]`."""
        if len(markers) > MOST_PHASES:
            raise InternalError("simulator-009", f"more than {MOST_PHASES} phases of one call")
        self._words[:CODE_LOWER] = 0
        self._words[BUDGET] = budget
        self._phase_at[:] = 0
        for phase, address in enumerate(markers, start=1):
            self._phase_at[(address - int(self._words[CODE_LOWER])) // 2] = phase

    def counts(self, phases: int) -> list[int]:
        """Executed instructions of phases [0, phases)."""
        return [int(word) for word in self._words[FIRST_COUNT : FIRST_COUNT + phases]]

    @property
    def spent(self) -> bool:
        """Whether the budget is exhausted."""
        return bool(self._words[SPENT])
