"""Decodes Thumb instructions, as far as their cost depends on them.

Decoding is capstone's. What capstone names otherwise than expected counts as plain arithmetic.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum, auto
from functools import cache
from typing import Any

from penstock.errors import InternalError
from penstock.toolchains.extra import extra

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


@dataclass(frozen=True, slots=True)
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


@dataclass(frozen=True, slots=True)
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
    """Growth of the stack by an instruction whose operands state it; 0 for all others.

    A conditional pop that returns counts as 0: if it is skipped, the stack does not change.
    """
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
    """Growth of the stack by `sub sp, #n`, `add sp, #n`, or an access with writeback to sp."""
    last = found.operands[-1]
    if last.type == IMMEDIATE_OPERAND:
        return int(last.imm) if name in ("sub", "subw") else -int(last.imm)
    if last.type == MEMORY_OPERAND:
        return -int(last.mem.disp)
    return 0
