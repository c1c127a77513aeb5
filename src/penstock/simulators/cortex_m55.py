"""Simulates a Cortex-M55 with the interface of `cortex_m.py`: QEMU executes, a plugin counts.

Instruction counts are exact: they include conditional and predicated instructions that are skipped,
and the loop-end instruction in each iteration of a low-overhead loop.  QEMU does not model timing:
`cycles` are instructions, and branches are not counted.  Stack use is the extent of stack writes.
"""

from __future__ import annotations

import mmap
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from penstock.errors import InternalError
from penstock.simulators import calling
from penstock.simulators.calling import CallOutcome
from penstock.simulators.counts import ExecutionCounts
from penstock.simulators.host_library import host_library
from penstock.simulators.qemu import STACK_TOP, Qemu
from penstock.toolchains.elf_file import read_image

SOURCE = Path(__file__).with_name("instruction_counter.c")
MOST_PHASES = 1023
BUDGET, SPENT, PHASE, FIRST_COUNT = 0, 1, 2, 3
"""Positions in the file, in words of 64 bits."""
CODE_LOWER = FIRST_COUNT + MOST_PHASES + 1
CODE_UPPER, WORDS = CODE_LOWER + 1, CODE_LOWER + 2


class InstructionCounter:
    """Counters in `file` for a program whose code has the addresses [code_lower, code_upper).

    `instruction_counter.c`, a QEMU plugin, is compiled once per user, like `block_hook.c`, and maps
    the same file."""

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


DEFAULT_STACK_LIMIT_BYTES = 16 << 10
DEFAULT_BUDGET_INSTRUCTIONS = 20_000_000_000
NAME = "cortex-m55"


class Simulator55:
    """One core with one program in its memory, which persists between calls."""

    def __init__(self, elf: Path, *, stack_limit_bytes: int = DEFAULT_STACK_LIMIT_BYTES) -> None:
        self.image = read_image(elf)
        folder = Path(tempfile.mkdtemp(prefix="penstock-qemu-"))
        file = folder / "counts"
        lower, upper = self.image.code_lower, self.image.code_upper
        self._counter = InstructionCounter(file, lower, upper)
        self._counter.begin((), DEFAULT_BUDGET_INSTRUCTIONS)
        self._cpu = Qemu(elf, self.image, folder, f"{self._counter.library},counts={file}")
        self._stack_lower = STACK_TOP - stack_limit_bytes

    def symbol(self, name: str) -> int:
        """Address of a function or object.  Raises ToolError unless there is exactly one."""
        return self.image.symbol(name).address

    def read(self, address: int, size_bytes: int) -> bytes:
        """The current contents of memory."""
        return self._cpu.read(address, size_bytes)

    def write(self, address: int, content: bytes) -> None:
        """Writes memory, including flash."""
        self._cpu.write(address, content)

    def call(
        self,
        name: str,
        *arguments: int,
        phases: Sequence[str] = (),
        budget_instructions: int = DEFAULT_BUDGET_INSTRUCTIONS,
    ) -> CallOutcome:
        """Calls a function with integers or pointers, and runs until it returns.

        Raises: InternalError at a fault, when the budget is spent, when r4 to r11 or sp came back
        changed, when the stack is above its limit."""
        sp = calling.prepare(self._cpu, arguments, STACK_TOP)
        paint = calling.paint_stack(self._cpu, self._stack_lower, sp)
        self._counter.begin(tuple(self.symbol(phase) for phase in phases), budget_instructions)
        self._run(name)
        calling.check_preserved(self._cpu, name, sp)
        lowest = calling.lowest_changed(self._cpu, self._stack_lower, paint)
        if lowest == self._stack_lower:
            raise InternalError(
                "simulator-013", f"'{name}' needs more than {sp - lowest} bytes of stack"
            )
        before, *counts = (ExecutionCounts(n, n) for n in self._counter.counts(len(phases) + 1))
        return CallOutcome(
            return_value=calling.result_register(self._cpu),
            counts=sum(counts, before),
            stack_bytes=sp - lowest,
            before=before,
            phases=tuple(counts),
        )

    def _run(self, name: str) -> None:
        try:
            self._cpu.run(self.symbol(name))
        except InternalError as error:
            if self._counter.spent:
                raise InternalError(
                    "simulator-007",
                    f"'{name}' did not return",
                    why="its budget is spent; does it loop for ever?",
                ) from error
            raise
