"""Models the cycles of Cortex-M instructions with zero-wait memory.

A block costs the sum of its instructions; each taken branch costs `taken_branch_cycles` more.
Instructions skipped by a false condition cost as if executed, except branches not taken.

The pipeline model covers consecutive accesses inside a block (the first is not pipelined):

    ldr r0, [r4]       2      a load
    ldr r1, [r4, #4]   1      a load after a plain load whose result is not its address
    adds r4, #8        1
    ldr r2, [r4]       3      one more: the preceding instruction computes its address

Sources: Cortex-M4 TRM (Arm 100166_0001_00), table 3-1 and load/store timings; Cortex-M0+ TRM
(Arm DDI 0484C), table 3-1, with the fast multiplier; Cortex-M3 TRM (Arm 100165_0201_00), table 3-1.
Errors of the M4 table against boards: -4 to +7 % on a Cortex-M33 with cached flash; on a Cortex-M4
with flash wait states, -12 to -14 % for convolutional networks and -25 % for a fully connected one,
which reads each weight once.  There are no published tables for Cortex-M7 and M33; they use the
M4's, which is pessimistic for the dual-issue M7.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from enum import Enum, auto
from functools import cache
from types import MappingProxyType
from typing import Any

from penstock.errors import InternalError, ToolError
from penstock.frozen import frozen
from penstock.toolchains.command import extra

# Decodes Thumb instructions, as far as their cost depends on them.
#
# Decoding is capstone's. What capstone names otherwise than expected counts as plain arithmetic.


IMMEDIATE_OPERAND, MEMORY_OPERAND = 2, 3  # ARM_OP_IMM, ARM_OP_MEM of capstone 5


class InstructionKind(Enum):
    """Kinds of instructions with equal cost."""

    ARITHMETIC = auto()
    MULTIPLY = auto()
    MULTIPLY_ADD = auto()
    MULTIPLY_LONG = auto()
    MULTIPLY_LONG_ADD = auto()
    DIVIDE = auto()
    LOAD = auto()
    STORE = auto()
    LOAD_MULTIPLE = auto()  # also POP and LDRD: `registers` of them
    STORE_MULTIPLE = auto()
    BRANCH = auto()
    CALL = auto()
    TABLE_BRANCH = auto()
    FLOAT_MULTIPLY_ADD = auto()
    FLOAT_DIVIDE = auto()


NAMES: dict[InstructionKind, str] = {
    InstructionKind.MULTIPLY: "mul",
    InstructionKind.MULTIPLY_ADD: "mla mls",
    InstructionKind.MULTIPLY_LONG: "smull umull",
    InstructionKind.MULTIPLY_LONG_ADD: "smlal umlal umaal",
    InstructionKind.DIVIDE: "sdiv udiv",
    InstructionKind.LOAD: "ldr ldrb ldrh ldrsb ldrsh ldrt ldrbt ldrht ldrsbt ldrsht vldr",
    InstructionKind.STORE: "str strb strh strt strbt strht vstr",
    InstructionKind.LOAD_MULTIPLE: "ldm ldmdb ldmda ldmib pop ldrd vldmia vldmdb vpop",
    InstructionKind.STORE_MULTIPLE: "stm stmdb stmda stmib push strd vstmia vstmdb vpush",
    InstructionKind.BRANCH: "b bx blx cbz cbnz",
    InstructionKind.CALL: "bl",
    InstructionKind.TABLE_BRANCH: "tbb tbh",
    InstructionKind.FLOAT_MULTIPLY_ADD: "vmla vmls vnmla vnmls vfma vfms vfnma vfnms",
    InstructionKind.FLOAT_DIVIDE: "vdiv vsqrt",
}
KIND_OF = {name: kind for kind, names in NAMES.items() for name in names.split()}


@frozen
class Instruction:
    """An instruction.  `address_registers` form the address of a memory access; it transfers
    `registers` registers.

    `stack_bytes` is the growth of the stack (negative if it shrinks), if the operands state it.
    """

    name: str
    kind: InstructionKind
    registers: int = 1
    address_registers: frozenset[str] = frozenset()
    written: frozenset[str] = frozenset()
    writeback: bool = False
    register_offset: bool = False
    stack_bytes: int = 0


@frozen
class BasicBlock:
    """A basic block: instructions that are executed consecutively."""

    instructions: tuple[Instruction, ...]

    @property
    def stack_bytes(self) -> int:
        """Largest growth of the stack inside the block, at least 0."""
        deepest = depth = 0
        for instruction in self.instructions:
            depth += instruction.stack_bytes
            deepest = max(deepest, depth)
        return deepest


def decode(code: bytes, address: int) -> BasicBlock:
    """Decodes a block.  Raises InternalError if the bytes are not instructions."""
    return BasicBlock(tuple(_instructions(code, address)))


def _instructions(code: bytes, address: int) -> Iterator[Instruction]:
    read_bytes = 0
    for found in _disassembler()(code, address):
        read_bytes += int(found.size)
        yield _instruction(found)
    if read_bytes != len(code):
        raise InternalError(
            "simulator-002", "an executed instruction is unknown", where=hex(address + read_bytes)
        )


@cache
def _disassembler() -> Callable[[bytes, int], Iterator[Any]]:
    capstone = extra("capstone")
    mode = capstone.CS_MODE_THUMB | capstone.CS_MODE_MCLASS
    disassembler = capstone.Cs(capstone.CS_ARCH_ARM, mode)
    disassembler.detail = True
    return disassembler.disasm


def _instruction(found: Any) -> Instruction:
    name = str(found.insn_name())
    kind = KIND_OF.get(name, InstructionKind.ARITHMETIC)
    written = frozenset(str(found.reg_name(number)) for number in found.regs_access()[1])
    memory = [operand.mem for operand in found.operands if operand.type == MEMORY_OPERAND]
    return Instruction(
        name=name,
        kind=kind,
        registers=_registers(found, name, kind),
        address_registers=_address_registers(found),
        written=written,
        writeback=bool(found.writeback),
        register_offset=any(mem.index for mem in memory),
        stack_bytes=_stack_bytes(found, name, written),
    )


def _registers(found: Any, name: str, kind: InstructionKind) -> int:
    """Number of registers that a multiple access transfers: its operands without the base."""
    if kind not in (InstructionKind.LOAD_MULTIPLE, InstructionKind.STORE_MULTIPLE):
        return 1
    if name in ("ldrd", "strd"):
        return 2
    base = 0 if name in ("push", "pop", "vpush", "vpop") else 1
    return len(found.operands) - base


def _address_registers(found: Any) -> frozenset[str]:
    """Base and index registers of the memory operand, without the program counter."""
    memory = [operand.mem for operand in found.operands if operand.type == MEMORY_OPERAND]
    numbers = [number for mem in memory for number in (mem.base, mem.index) if number]
    return frozenset(str(found.reg_name(number)) for number in numbers) - {"pc"}


def _stack_bytes(found: Any, name: str, written: frozenset[str]) -> int:
    """Growth of the stack by an instruction whose operands state it; 0 for all others."""
    # A conditional pop that returns counts as 0: if it is skipped, the stack does not change.
    if "pc" in written:
        return 0
    if name in ("push", "pop", "vpush", "vpop"):
        each = 8 if str(found.reg_name(found.operands[0].reg)).startswith("d") else 4
        moved = each * len(found.operands)
        return moved if name.endswith("push") else -moved
    if "sp" not in written:
        return 0
    return _stack_step(found, name)


def _stack_step(found: Any, name: str) -> int:
    last = found.operands[-1]
    if last.type == IMMEDIATE_OPERAND:
        return int(last.imm) if name in ("sub", "subw") else -int(last.imm)
    if last.type == MEMORY_OPERAND:
        return -int(last.mem.disp)
    return 0


MULTIPLE = (InstructionKind.LOAD_MULTIPLE, InstructionKind.STORE_MULTIPLE)
ACCESSES = (InstructionKind.LOAD, InstructionKind.STORE, *MULTIPLE)
COMPUTING = (
    InstructionKind.ARITHMETIC,
    InstructionKind.MULTIPLY,
    InstructionKind.MULTIPLY_ADD,
    InstructionKind.MULTIPLY_LONG,
)


@frozen
class Timing:
    """Cycles by kind of instruction, 1 by default; multiple accesses add one per register.

    `pipelined` cores overlap consecutive loads and stall on an address that was just computed.
    """

    source: str
    cycles: Mapping[InstructionKind, int]
    taken_branch_cycles: int
    pipelined: bool

    def block_cycles(self, block: BasicBlock) -> int:
        """Cycles of one execution of the block, without the penalty of a taken branch."""
        before = (None, *block.instructions[:-1])
        pairs = zip(before, block.instructions, strict=True)
        return sum(self._instruction_cycles(previous, this) for previous, this in pairs)

    def joint_cycles(self, previous: Instruction, this: Instruction) -> int:
        """Cycles that a preceding instruction adds to another one; negative if they overlap."""
        return self._instruction_cycles(previous, this) - self._instruction_cycles(None, this)

    def _instruction_cycles(self, previous: Instruction | None, this: Instruction) -> int:
        cycles = self.cycles.get(this.kind, 1)
        if this.kind in MULTIPLE:
            cycles += this.registers
        if not self.pipelined or this.kind not in ACCESSES:
            return cycles
        return cycles + _pipeline_cycles(previous, this)


def _pipeline_cycles(previous: Instruction | None, this: Instruction) -> int:
    """Cycles that the preceding instruction adds to an access; negative if they overlap."""
    store_cycles = 1 if this.kind is InstructionKind.STORE and this.register_offset else 0
    if previous is None:
        return store_cycles
    waits = bool(previous.written & this.address_registers)
    if previous.kind in COMPUTING:
        return store_cycles + waits
    after_load = previous.kind is InstructionKind.LOAD and not previous.writeback and not waits
    if after_load and this.kind is InstructionKind.LOAD and not this.writeback:
        return -1
    return 0 if after_load else store_cycles


def _cycles(**named: int) -> Mapping[InstructionKind, int]:
    return MappingProxyType({InstructionKind[name]: cycles for name, cycles in named.items()})


CORTEX_M4 = Timing(
    source="Cortex-M4 TRM, table 3-1; division 7 of 2 to 12; a taken branch 2 of 1 to 3",
    cycles=_cycles(LOAD=2, DIVIDE=7, TABLE_BRANCH=3, FLOAT_MULTIPLY_ADD=3, FLOAT_DIVIDE=14),
    taken_branch_cycles=2,
    pipelined=True,
)
CORTEX_M3 = replace(
    CORTEX_M4,
    source="Cortex-M3 TRM, table 3-1; long multiplications 4 of 3 to 5 and 5 of 4 to 7",
    cycles=_cycles(
        LOAD=2, DIVIDE=7, TABLE_BRANCH=3, MULTIPLY_ADD=2, MULTIPLY_LONG=4, MULTIPLY_LONG_ADD=5
    ),
)
CORTEX_M0PLUS = Timing(
    source="Cortex-M0+ TRM, table 3-1, fast multiplier; BL 3, POP that returns 3 + N",
    cycles=_cycles(LOAD=2, STORE=2, CALL=2),
    taken_branch_cycles=1,
    pipelined=False,
)


@frozen
class Core:
    """A simulated core: its CPU model in Unicorn, and the timing of its instructions.

    A Cortex-M0+ runs as M0: both execute Armv6-M and fault on unaligned accesses.  The simulated
    Cortex-M3 also accepts DSP instructions, which a real one lacks.
    """

    name: str
    model: str
    timing: Timing


CORES = (
    Core("cortex-m0plus", "UC_CPU_ARM_CORTEX_M0", CORTEX_M0PLUS),
    Core("cortex-m3", "UC_CPU_ARM_CORTEX_M3", CORTEX_M3),
    Core("cortex-m4", "UC_CPU_ARM_CORTEX_M4", CORTEX_M4),
    Core("cortex-m7", "UC_CPU_ARM_CORTEX_M7", CORTEX_M4),
    Core("cortex-m33", "UC_CPU_ARM_CORTEX_M33", CORTEX_M4),
)


def core_named(name: str) -> Core:
    """The core of that name.  Raises ToolError if Unicorn does not simulate it."""
    for core in CORES:
        if core.name == name:
            return core
    raise ToolError(
        "tool-010",
        f"core '{name}' cannot be simulated",
        where="core of the target",
        why="the CPU simulator executes Armv6-M, Armv7-M and Armv8-M without MVE",
        help=f"one of {', '.join(core.name for core in CORES)}, and in QEMU cortex-m55",
    )
