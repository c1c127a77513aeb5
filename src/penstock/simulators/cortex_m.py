"""Simulates a Cortex-M, calls functions of a program, and counts instructions and cycles.

    simulator = Simulator(Path("net.elf"), "cortex-m4")
    simulator.write(simulator.symbol("input"), image)
    outcome = simulator.call("net_run", phases=("net_step0", "net_step1"))
    outcome.counts.instructions, outcome.stack_bytes, outcome.phases[1].cycles

**Phases.** Phase `net_step0` begins when that function is entered and ends when another named
function is entered.  It includes all functions that it calls and the code of `net_run` after it.
Repeated entries add up.  The named functions must not be inlined (a missing symbol is an error) and
must not call each other.  The C code needs no instrumentation.

Instruction counts are exact and include conditional instructions that are skipped.  Counts of taken
branches are exact and include the final return.  Cycles are those of the timing table of the core
(`cortex_m_timing.py`).  Each call is counted separately.

Unaligned LDM, LDRD, STM and STRD fault on a real Armv7-M core but not in this simulator.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from penstock.errors import InternalError
from penstock.simulators import calling
from penstock.simulators.block_hook import BlockHook, Status
from penstock.simulators.calling import CallOutcome
from penstock.simulators.cortex_m_timing import core_named
from penstock.simulators.counts import counts_by_phase
from penstock.simulators.cpu import RETURN_ADDRESS, STACK_TOP, Cpu
from penstock.simulators.thumb import BasicBlock, decode
from penstock.toolchains.elf_file import read_image

DEFAULT_STACK_LIMIT_BYTES = 64 << 10
DEFAULT_BUDGET_HALFWORDS = 20_000_000_000


class Simulator:
    """One core with one program in its memory, which persists between calls."""

    def __init__(
        self, elf: Path, core: str, *, stack_limit_bytes: int = DEFAULT_STACK_LIMIT_BYTES
    ) -> None:
        self.core = core_named(core)
        self.image = read_image(elf)
        self._cpu = Cpu(self.image, self.core, stack_limit_bytes)
        self._hook = BlockHook(
            self.image.code_lower,
            self.image.code_upper,
            read_register=self._cpu.library_function("uc_reg_read"),
            stop=self._cpu.library_function("uc_emu_stop"),
            sp_name=self._cpu.register_number("SP"),
        )
        self._cpu.add_block_hook(self._hook.function, self._hook.state)
        self._blocks: dict[tuple[int, int], BasicBlock] = {}

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
        budget_halfwords: int = DEFAULT_BUDGET_HALFWORDS,
    ) -> CallOutcome:
        """Calls a function with integers or pointers, and runs until it returns.

        `budget_halfwords` limits the executed code; an instruction has one or two halfwords.
        Raises InternalError on a fault, when the budget is exhausted, and if the function does not
        restore r4 to r11 and sp.
        """
        sp = calling.prepare(self._cpu, arguments, STACK_TOP)
        lower = self._cpu.stack_lower
        paint = calling.paint_stack(self._cpu, lower, sp)
        self._hook.begin(self._markers(phases), budget_halfwords)
        try:
            self._cpu.run(self.symbol(name))
            self._check_return(name, sp)
        except InternalError as error:
            raise error.at(self._last_block(name)) from error
        records = self._hook.end()
        blocks = [self._block(int(r["address"]), int(r["size"])) for r in records]
        before, *counts = counts_by_phase(records, blocks, self.core.timing, len(phases) + 1)
        changed = calling.lowest_changed(self._cpu, lower, paint)
        return CallOutcome(
            return_value=calling.result_register(self._cpu),
            counts=sum(counts, before),
            stack_bytes=sp - min(_lowest_pointer(records, blocks), changed),
            before=before,
            phases=tuple(counts),
        )

    def _markers(self, phases: Sequence[str]) -> tuple[int, ...]:
        addresses = tuple(self.symbol(name) for name in phases)
        if len(set(addresses)) != len(addresses):
            raise InternalError("simulator-006", "two phases begin at the same function")
        return addresses

    def _check_return(self, name: str, sp: int) -> None:
        """Raises InternalError unless the function returned as the calling convention requires."""
        why = {
            Status.OUTSIDE_CODE: "the program counter is outside the code",
            Status.TOO_MANY_RECORDS: "more blocks and phases than the counters hold",
            Status.BUDGET_SPENT: "its budget is spent; does it loop for ever?",
        }.get(self._hook.status, "")
        if not why and self._cpu.register("PC") != RETURN_ADDRESS:
            why = "the core stopped"
        if why:
            raise InternalError(
                "simulator-007", f"'{name}' did not return", where=self._cpu.place(), why=why
            )
        calling.check_preserved(self._cpu, name, sp)

    def _last_block(self, name: str) -> str:
        """Location of an error in a call: the block entered last."""
        last = self._hook.last_block
        return f"call of {name}" if last is None else f"block {self.image.describe(last)}"

    def _block(self, address: int, size_bytes: int) -> BasicBlock:
        key = (address, size_bytes)
        if key not in self._blocks:
            self._blocks[key] = decode(self.read(address, size_bytes), address)
        return self._blocks[key]


def _lowest_pointer(records: npt.NDArray[np.void], blocks: Sequence[BasicBlock]) -> int:
    """The lowest stack pointer: for each block, its value on entry minus the bytes pushed."""
    growth = np.array([block.stack_bytes for block in blocks], np.int64)
    return int((records["sp_lowest"].astype(np.int64) - growth).min())
