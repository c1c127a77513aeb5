"""Cycles of Ethos-U register command streams, operation by operation.

The decoder of the functional model reads a stream, whoever emitted it. The timing model
(`accelerators/ethos_u/timeline.py`) then times every operation, copy and wait, and so every stripe
of a cascade. Its formulas assume 8-bit elements; wider ones (in softmax) are timed as 8-bit
elements, but for the output unit of Ethos-U85. The operations of a chain take the time of the first
one, with the cycles of all in the output unit; the second inputs of the others are free.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from math import ceil, prod

import numpy as np

from penstock.program.expr import evaluate
from penstock.program.program import Address, Program, Submission
from penstock.program.steps import Variables, executions
from penstock_ethos_u.blocks import ComputeKind, Extent, NpuWork
from penstock_ethos_u.configurations import EthosUConfiguration, MapShape, OutputRates
from penstock_ethos_u.interpreter import driver_payload
from penstock_ethos_u.interpreter.commands import decode_commands
from penstock_ethos_u.interpreter.hardware import find_hardware
from penstock_ethos_u.interpreter.operation import (
    BlockOperation,
    DmaOperation,
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

KINDS = {
    "conv": ComputeKind.CONVOLUTION,
    "depthwise": ComputeKind.DEPTHWISE,
    "max_pool": ComputeKind.POOLING,
    "average_pool": ComputeKind.POOLING,
    "sum_pool": ComputeKind.POOLING,
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
    """Cycles of all calls in the streams of a program, in sequence."""
    known: dict[tuple[str, int], int] = {}
    total = 0
    for submission, variables, calls in executions(program.run):
        key = submission.buffer, evaluate(submission.number, variables)
        if calls and key not in known:
            known[key] = sum(call_cycles(program, submission, variables, chip))
        total += known[key] if calls else 0
    return total


def call_cycles(
    program: Program, submission: Submission, variables: Variables, chip: EthosUConfiguration
) -> Iterator[int]:
    """Cycles of each call in the stream that a submission submits, as if it were alone.

    variables: the values of the variables around the submission."""
    buffers = {buffer.name: buffer for buffer in program.buffers}
    stream, _, *every = submission.submit.arguments
    assert isinstance(stream, Address)
    data = buffers[stream.buffer].data
    assert data is not None
    at = evaluate(stream.offset, variables)
    ends = submission.ends[evaluate(submission.number, variables)]
    payload = data.raw[at : at + ends[-1]]
    words = driver_payload(payload)
    constants = {memory.name for memory in program.memories if not memory.writable}
    regions = frozenset(
        k
        for k, base in enumerate(every[::2])
        if isinstance(base, Address) and buffers[base.buffer].memory in constants
    )
    begins = [end - (len(payload) - len(words)) for end in ends]
    for part in _parts(words, begins, chip, regions):
        yield ceil(timing(part, chip))


def _parts(
    words: bytes, ends: Sequence[int], chip: EthosUConfiguration, constants: Collection[int]
) -> Iterator[list[Step]]:
    """Operations, copies and waits of a stream, in parts that end at offsets in bytes."""
    found: list[Step] = []
    waiting = list(ends)
    for word, step in placed_steps(words, chip, constants):
        while 4 * word >= waiting[0]:
            yield found
            del waiting[0]
            found = []
        found.append(step)
    yield found


def work_of(
    operation: BlockOperation, chip: EthosUConfiguration, constants: Collection[int]
) -> NpuWork:
    """The parameters of the timing formulas for an operation of a stream."""
    spans = [*operation.weights, *operation.scales]
    second = operation.second.map if operation.second else None
    direct = all(span.region in constants for span in operation.weights)
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
        biases_in_tensor_memory=any(span.region not in constants for span in operation.scales),
        element_bytes=operation.ifm.element_bytes,
    )


def _rate(operation: BlockOperation, rates: OutputRates) -> float:
    """Cycles per element after the multipliers."""
    own = {
        "mul": rates.multiply,
        "add": rates.add,
        "sub": rates.add,
        "max_pool": rates.maximum,
    }.get(operation.kind, rates.other)
    if max(operation.ifm.element_bytes, operation.ofm.element_bytes) > 1:
        own = max(own, rates.wide)
    activation, limits = operation.activation, np.iinfo(operation.ofm.dtype)
    if activation.table is not None:
        return max(own, rates.lookup)
    clamped = activation.lower > limits.min or activation.upper < limits.max
    return max(own, rates.clamp) if clamped else own


def stream_steps(
    words: bytes, chip: EthosUConfiguration, constants: Collection[int]
) -> Iterator[Step]:
    """Operations, copies and waits of a stream, in order."""
    yield from (step for _, step in placed_steps(words, chip, constants))


def placed_steps(
    words: bytes, chip: EthosUConfiguration, constants: Collection[int]
) -> Iterator[tuple[int, Step]]:
    """Operations, copies and waits of a stream, each with the index of its word."""
    hardware = find_hardware(chip.name)
    registers, chain = Registers(hardware), list[BlockOperation]()
    for number, command in enumerate(decode_commands(words, hardware.family)):
        name = command.format.name
        if name.startswith(SET):
            registers.set(command)
        elif name in WAITS:
            yield command.word, QueueWait(WAITS[name], command.fields["outstanding"])
        elif name not in NOT_TIMED:
            operation = registers.operation(command, number)
            if isinstance(operation, DmaOperation):
                home = chip if operation.source.region in constants else chip.in_sram
                yield command.word, copy_job(home, operation.source.upper - operation.source.lower)
                continue
            chain.append(operation)
            if not operation.ofm.chained:
                yield command.word, _job(chain, chip, constants)
                chain.clear()


def _job(
    chain: Sequence[BlockOperation], chip: EthosUConfiguration, constants: Collection[int]
) -> Job:
    work = replace(
        work_of(chain[0], chip, constants),
        rate=sum(_rate(operation, chip.rates) for operation in chain),
        packed_output=chain[-1].ofm.nhcwb16,
    )
    return operation_job(cycles(work, np.array([chain[0].block])), work.chip)
