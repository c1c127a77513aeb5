"""Calls functions on a simulated core, and checks that they preserve their caller's registers.

Source: Procedure Call Standard for the Arm Architecture (AAPCS).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Generic, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from penstock.errors import InternalError
from penstock.frozen import frozen
from penstock.hardware.core_access import CoreAccess, Trap
from penstock.simulators.cortex_m_timing import BasicBlock, Timing
from penstock.toolchains.elf_file import ElfImage

# Counts of executed instructions, from block records and decoded blocks.


@frozen
class ExecutionCounts:
    """Cost of executed code.

    Exact: `instructions`, `taken_branches` (including returns) and `code_bytes`, the total size of
    the executed instructions.  `cycles` are those of the timing table of the core."""

    instructions: int = 0
    cycles: int = 0
    taken_branches: int = 0
    code_bytes: int = 0

    def __add__(self, other: ExecutionCounts) -> ExecutionCounts:
        return ExecutionCounts(
            self.instructions + other.instructions,
            self.cycles + other.cycles,
            self.taken_branches + other.taken_branches,
            self.code_bytes + other.code_bytes,
        )

    def __sub__(self, other: ExecutionCounts) -> ExecutionCounts:
        return ExecutionCounts(
            self.instructions - other.instructions,
            self.cycles - other.cycles,
            self.taken_branches - other.taken_branches,
            self.code_bytes - other.code_bytes,
        )


def counts_by_phase(
    records: npt.NDArray[np.void], blocks: Sequence[BasicBlock], timing: Timing, phases: int
) -> tuple[ExecutionCounts, ...]:
    """The counts of each phase in [0, phases); `blocks[i]` is the decoded block of `records[i]`.

    The simulator ends blocks at page boundaries, too.  The instruction after such an end is costed
    with the one before it, so the cycles do not depend on where the code is linked."""
    executions = records["executions"].astype(np.int64)
    taken = records["exits_taken"].astype(np.int64)
    instructions = executions * np.array([len(b.instructions) for b in blocks], np.int64)
    cycles = executions * np.array([timing.block_cycles(b) for b in blocks], np.int64)
    cycles += taken * timing.taken_branch_cycles
    cycles += (executions - taken) * _joint_cycles(records, blocks, timing)
    sizes = executions * records["size"].astype(np.int64)
    totals = np.zeros((phases, 4), np.int64)
    np.add.at(totals, records["phase"], np.stack((instructions, cycles, taken, sizes), axis=1))
    return tuple(ExecutionCounts(*(int(total) for total in row)) for row in totals)


def _joint_cycles(
    records: npt.NDArray[np.void], blocks: Sequence[BasicBlock], timing: Timing
) -> npt.NDArray[np.int64]:
    starts = records["address"].astype(np.int64)
    first = {start: b.instructions[0] for start, b in zip(starts.tolist(), blocks, strict=True)}
    ends = (starts + records["size"].astype(np.int64)).tolist()
    return np.array(
        [
            timing.joint_cycles(block.instructions[-1], first[end]) if end in first else 0
            for end, block in zip(ends, blocks, strict=True)
        ],
        np.int64,
    )


REGISTER_ARGUMENTS = 4  # AAPCS 6.4: r0 to r3, then the stack
PRESERVED = tuple(f"R{number}" for number in range(4, 12))  # AAPCS 6.1.1
PRESERVED_MARK = 0x5EED_0000  # plus the position in PRESERVED


@frozen
class CallOutcome:
    """Result and cost of one call.

    `return_value` is r0 as a signed number.  `stack_bytes` is the largest stack use, measured from
    the stack pointer at the call.  `phases` has the requested order; `before` counts the code
    executed before the first phase.  `before` and `phases` add up to `counts`.
    """

    return_value: int
    counts: ExecutionCounts
    stack_bytes: int
    before: ExecutionCounts
    phases: tuple[ExecutionCounts, ...]

    @property
    def address(self) -> int:
        """The return value as a pointer."""
        return self.return_value & 0xFFFF_FFFF


class Trapping(CoreAccess, Protocol):
    """A core that executes traps."""

    def set_trap(self, address: int, trap: Trap, /) -> None:
        """Executes `trap` when the core reaches that address, then returns from the function."""
        ...


_Core = TypeVar("_Core", bound=Trapping)


class Simulated(Generic[_Core]):
    """Base of simulators: a core with a program in its memory."""

    image: ElfImage
    _cpu: _Core

    def symbol(self, name: str) -> int:
        """Address of a function or object.  Raises ToolError unless there is exactly one."""
        return self.image.symbol(name).address

    def read(self, address: int, size_bytes: int) -> bytes:
        """The current contents of memory."""
        return self._cpu.read(address, size_bytes)

    def write(self, address: int, content: bytes) -> None:
        """Writes memory, including flash."""
        self._cpu.write(address, content)

    def set_trap(self, name: str, trap: Trap) -> None:
        """Executes `trap` in place of a function when the program calls it."""
        self._cpu.set_trap(self.symbol(name), trap)


def prepare(core: CoreAccess, arguments: Sequence[int], stack_top: int) -> int:
    """Passes the arguments in registers and on the stack; returns the stack pointer."""
    on_stack = arguments[REGISTER_ARGUMENTS:]
    sp = stack_top - -(-4 * len(on_stack) // 8) * 8
    core.write(sp, b"".join(_word(value) for value in on_stack))
    core.set_register("SP", sp)
    for number, value in enumerate(arguments[:REGISTER_ARGUMENTS]):
        core.set_register(f"R{number}", value)
    for place, name in enumerate(PRESERVED):
        core.set_register(name, PRESERVED_MARK + place)
    return sp


def paint_stack(core: CoreAccess, lower: int, sp: int) -> npt.NDArray[np.uint32]:
    """Fills the stack [lower, sp) with random words, and returns them."""
    words = (sp - lower) // 4
    paint = np.random.default_rng(words).integers(0, 1 << 32, words, np.uint32)
    core.write(lower, paint.tobytes())
    return paint


def lowest_changed(core: CoreAccess, lower: int, paint: npt.NDArray[np.uint32]) -> int:
    """Address of the lowest stack word that differs from `paint`."""
    now = np.frombuffer(core.read(lower, paint.nbytes), np.uint32)
    changed = np.flatnonzero(now != paint)
    words = int(changed[0]) if changed.size else len(paint)
    return lower + 4 * words


def check_preserved(core: CoreAccess, name: str, sp: int) -> None:
    """Raises InternalError if a function returned without restoring its caller's registers."""
    expected = {register: PRESERVED_MARK + place for place, register in enumerate(PRESERVED)}
    changed = [r for r, v in {**expected, "SP": sp}.items() if core.register(r) != v]
    if changed:
        raise InternalError(
            "simulator-008",
            f"'{name}' came back with {', '.join(changed).lower()} changed",
            why="r4 to r11 and sp belong to the caller (AAPCS 6.1.1); look at inline assembly",
        )


def result_register(core: CoreAccess) -> int:
    """r0 as a signed number."""
    word = core.register("R0")
    return word - (1 << 32) if word >> 31 else word


def _word(value: int) -> bytes:
    return (value & 0xFFFF_FFFF).to_bytes(4, "little")
