"""Cycles of Ethos-U register command streams, operation by operation.

The decoder of the functional model reads a stream, whoever emitted it. The timing model
(`accelerators/ethos_u/timeline.py`) then times every operation, copy and wait, and so every stripe
of a cascade. Its formulas assume 8-bit elements; wider ones (in softmax) are timed as 8-bit
elements.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from math import ceil, prod

import numpy as np

from penstock.ir.op import row_axis, row_count
from penstock.program.expr import evaluate
from penstock.program.program import (
    END,
    FIRST,
    Address,
    Call,
    Invoke,
    Loop,
    Program,
    WholeMemory,
)
from penstock.program.program import Command as ProgramCommand
from penstock.program.steps import Variables, iterations, offset_name
from penstock_ethos_u.blocks import ComputeKind, Extent, NpuWork
from penstock_ethos_u.configurations import EthosUConfiguration, MapShape, OutputRates
from penstock_ethos_u.interpreter import driver_payload
from penstock_ethos_u.interpreter.commands import decode_commands
from penstock_ethos_u.interpreter.operation import (
    BlockOperation,
    DmaOperation,
    Operation,
)
from penstock_ethos_u.interpreter.registers import Registers
from penstock_ethos_u.performance import cycles
from penstock_ethos_u.timeline import (
    CommandQueue,
    Job,
    QueueWait,
    Step,
    copy_job,
    operation_job,
    timing,
)

SUBMIT = "ethosu_submit"
KINDS = {
    "conv": ComputeKind.CONVOLUTION,
    "depthwise": ComputeKind.DEPTHWISE,
    "max_pool": ComputeKind.POOLING,
    "average_pool": ComputeKind.POOLING,
    "reduce_sum": ComputeKind.POOLING,
}
"""Kinds of operations; all others are element-wise."""
SET = "NPU_SET_"
WAITS = {"NPU_OP_KERNEL_WAIT": CommandQueue.OPERATIONS, "NPU_OP_DMA_WAIT": CommandQueue.COPIES}
NOT_TIMED = ("NPU_OP_STOP", "NPU_OP_IRQ", "NPU_OP_PMU_MASK")


def stream_cycles(words: bytes, chip: EthosUConfiguration, constants: Collection[int]) -> int:
    """Cycles of a stream; `constants`: the regions in flash or DRAM."""
    return ceil(timing(stream_steps(words, chip, constants), chip))


def program_cycles(program: Program, chip: EthosUConfiguration) -> int:
    """Cycles of all streams of a program, in sequence."""
    buffers = {buffer.name: buffer for buffer in program.buffers}
    constants = {memory.name for memory in program.memories if not memory.writable}
    known: dict[tuple[bytes, frozenset[int]], int] = {}
    total = 0
    for invoke, variables in submissions(program):
        stream, size, *every = invoke.arguments
        assert isinstance(stream, Address)
        assert not isinstance(size, Address | WholeMemory)
        data = buffers[stream.buffer].data
        assert data is not None
        at = evaluate(stream.offset, variables)
        payload = data.raw[at : at + evaluate(size, variables)]
        regions = frozenset(
            k
            for k, base in enumerate(every[::2])
            if isinstance(base, Address) and buffers[base.buffer].memory in constants
        )
        if (payload, regions) not in known:
            known[payload, regions] = stream_cycles(driver_payload(payload), chip, regions)
        total += known[payload, regions]
    return total


def submissions(program: Program) -> Iterator[tuple[Invoke, Variables]]:
    """Every invocation of the driver, in program order."""
    yield from _submissions(program.run, {}, {})


def _submissions(
    commands: Sequence[ProgramCommand], variables: Variables, counters: dict[str, int]
) -> Iterator[tuple[Invoke, Variables]]:
    for command in commands:
        if isinstance(command, Loop):
            for inside in iterations(command, variables, counters):
                yield from _submissions(command.body, inside, counters)
        elif isinstance(command, Call):
            first, end = _rows(command, variables)
            inside = {**variables, **_offsets(command, variables), FIRST.name: first, END.name: end}
            for invoke in command.body:
                if first < end and isinstance(invoke, Invoke) and invoke.driver.name == SUBMIT:
                    yield invoke, inside


def _offsets(call: Call, variables: Variables) -> Variables:
    """The variables of the call's body that stand for offsets, which depend on loops around it."""
    names = [offset_name(k) for k in range(len(call.inputs))] + [offset_name()]
    views = zip(names, (*call.inputs, call.output), strict=True)
    return {
        name: evaluate(v.offset, variables) for name, v in views if not isinstance(v.offset, int)
    }


def _rows(call: Call, variables: Variables) -> tuple[int, int]:
    """The output rows that a call computes."""
    shape = call.output.type.shape
    axis = row_axis(len(shape))
    if (call.out.lower, call.out.upper) == ((0,) * len(shape), shape):
        return 0, row_count(shape)
    return evaluate(call.out.lower[axis], variables), evaluate(call.out.upper[axis], variables)


def work_of(
    operation: BlockOperation, chip: EthosUConfiguration, constants: Collection[int]
) -> NpuWork:
    """The parameters of the timing formulas for an operation of a stream."""
    spans = [span for span in (operation.weights, operation.scales) if span is not None]
    second = operation.second.map if operation.second else None
    direct = operation.weights is None or operation.weights.region in constants
    kernel = operation.kernel
    constant_bytes = sum(span.upper - span.lower for span in spans)
    second_elements = None
    if second is not None and second.shape != operation.ofm.shape:
        second_elements = prod(second.shape)
    if second is not None and second.region in constants:
        constant_bytes, second_elements = prod(second.shape), 0
    return NpuWork(
        chip if direct else chip.in_sram,
        KINDS.get(operation.kind, ComputeKind.ELEMENTWISE),
        MapShape(*operation.ifm.shape),
        MapShape(*operation.ofm.shape),
        _rate(operation, chip.rates),
        Extent(kernel.height, kernel.width),
        Extent(kernel.stride_y, kernel.stride_x),
        Extent(kernel.dilation_y, kernel.dilation_x),
        upscale=1 if operation.upscale == "none" else 2,
        binary=second is not None,
        lookup=operation.activation.table is not None,
        part_kernel=kernel.part_kernel_first,
        packed_input=operation.ifm.nhcwb16,
        packed_output=operation.ofm.nhcwb16,
        second_elements=second_elements,
        constant_bytes=constant_bytes,
        biases_in_tensor_memory=operation.scales is not None
        and operation.scales.region not in constants,
    )


def _rate(operation: BlockOperation, rates: OutputRates) -> float:
    """Cycles per element after the multipliers."""
    own = {
        "mul": rates.multiply,
        "add": rates.add,
        "sub": rates.add,
        "max_pool": rates.maximum,
    }.get(operation.kind, rates.other)
    activation, limits = operation.activation, np.iinfo(operation.ofm.dtype)
    if activation.table is not None:
        return max(own, rates.lookup)
    clamped = activation.lower > limits.min or activation.upper < limits.max
    return max(own, rates.clamp) if clamped else own


def stream_steps(
    words: bytes, chip: EthosUConfiguration, constants: Collection[int]
) -> Iterator[Step]:
    """Operations, copies and waits of a stream, in order."""
    registers = Registers()
    for number, command in enumerate(decode_commands(words)):
        name = command.format.name
        if name.startswith(SET):
            registers.set(command)
        elif name in WAITS:
            yield QueueWait(WAITS[name], command.fields["outstanding"])
        elif name not in NOT_TIMED:
            yield _job(registers.operation(command, number), chip, constants)


def _job(operation: Operation, chip: EthosUConfiguration, constants: Collection[int]) -> Job:
    if isinstance(operation, DmaOperation):
        home = chip if operation.source.region in constants else chip.in_sram
        return copy_job(home, operation.source.upper - operation.source.lower)
    work = work_of(operation, chip, constants)
    return operation_job(cycles(work, np.array([operation.block])), work.chip)
