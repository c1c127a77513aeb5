"""Buffers that program passes add to a program with addresses."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from penstock.errors import BackendError
from penstock.ir.tensor import Array, Data, DType, TensorType
from penstock.program.program import Address, Buffer, Kind, Program

ALIGNMENT_BYTES = 16
ADDED_KINDS = (Kind.CONSTANT, Kind.SCRATCH)  # The purposes of buffers that a pass may add.


def with_constant(program: Program, name: str, array: Array) -> tuple[Program, Address]:
    """Return the program with a constant that commands may read, and its address.

    For passes of PROGRAM_PHASE_2 and 3, whose commands may read it.

    name: a name that no other buffer has.

    >>> import numpy as np
    >>> from penstock.program.program import Memory
    >>> flash = Memory("flash", 0, writable=False)
    >>> program = Program("net", (flash,), (), (), (), (), ())
    >>> program, address = with_constant(program, "npu/words", np.arange(3, dtype=np.int32))
    >>> address, program.buffers[0].size_bytes
    (Address(buffer='npu/words', offset=0), 12)

    Raises BackendError if the name is taken, or the element type is none of the compiler's."""
    elements = np.ascontiguousarray(array)
    if elements.dtype.name not in {dtype.value for dtype in DType}:
        raise _bad(name, f"it has elements of type {elements.dtype.name}")
    stored = next((b.memory for b in program.buffers if b.kind is Kind.CONSTANT), None)
    memory = stored or next(m.name for m in program.memories if not m.writable)
    type = TensorType(elements.shape, DType(elements.dtype.name))
    made = Buffer(name, Kind.CONSTANT, memory, 0, elements.nbytes, Data.of(elements), type)
    return _with_buffer(program, made)


def with_scratch(program: Program, name: str, size_bytes: int) -> tuple[Program, Address]:
    """Return the program with working memory that commands may write, and its address.

    For passes of PROGRAM_PHASE_2 and 3, whose commands may use it.  It lies beside all tensors
    during the whole run, and counts towards the RAM budget.

    name: a name that no other buffer has.

    >>> from penstock.program.program import Memory
    >>> program = Program("net", (Memory("sram", 20, writable=True),), (), (), (), (), ())
    >>> program, address = with_scratch(program, "npu/room", 8)
    >>> program.buffers[0].address, program.memories[0].size_bytes
    (32, 40)

    Raises BackendError if the name is taken, or the size is not positive."""
    if size_bytes < 1:
        raise _bad(name, f"its size is {size_bytes} bytes")
    (memory, *_) = program.ram()
    return _with_buffer(program, Buffer(name, Kind.SCRATCH, memory.name, 0, size_bytes))


def _with_buffer(program: Program, made: Buffer) -> tuple[Program, Address]:
    if any(buffer.name == made.name for buffer in program.buffers):
        raise _bad(made.name, "the program has a buffer of that name")
    added = replace(program, buffers=(*program.buffers, made))
    return with_room(program, added), Address(made.name)


def with_room(before: Program, after: Program) -> Program:
    """Return a program in which the buffers that a pass added have addresses after all others, and
    memories have room for them."""
    known = {buffer.name for buffer in before.buffers}
    ends = {memory.name: memory.size_bytes for memory in before.memories}
    for buffer in before.buffers:
        ends[buffer.memory] = max(ends[buffer.memory], buffer.address + buffer.size_bytes)
    placed: list[Buffer] = []
    for buffer in after.buffers:
        if buffer.name not in known:
            at = -(-ends[buffer.memory] // ALIGNMENT_BYTES) * ALIGNMENT_BYTES
            ends[buffer.memory] = at + buffer.size_bytes
            buffer = replace(buffer, address=at)
        placed.append(buffer)
    if len(placed) == len(before.buffers):
        return after
    memories = tuple(replace(m, size_bytes=ends[m.name]) for m in before.memories)
    return replace(after, buffers=tuple(placed), memories=memories)


def _bad(name: str, why: str) -> BackendError:
    return BackendError(
        "backend-101",
        f'buffer "{name}" cannot be added',
        where="a program pass",
        why=why,
        help="give it a name of its own, such as one that begins with the accelerator's, and a "
        "size or elements of a type of the compiler",
    )
