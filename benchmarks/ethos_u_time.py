"""ethos_u_time: how long a register command stream takes, operation by operation as it stands.

The formulas of `performance.py`, asked about every operation of a stream, so about each stripe
where a network runs in stripes.  Copies and operations go on side by side until the stream waits
for them; the ports' time is not shared out between them, which flatters streams that copy.
The formulas are of elements of 8 bits; wider ones (a softmax's) are taken as if they had as many.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from penstock.accelerators.ethos_u.configurations import Configuration, OutputRates, Shape
from penstock.accelerators.ethos_u.interpreter.commands import Command, commands_of
from penstock.accelerators.ethos_u.interpreter.operation import BlockOperation, DmaOperation
from penstock.accelerators.ethos_u.interpreter.registers import Registers
from penstock.accelerators.ethos_u.performance import copying_cycles, cycles
from penstock.accelerators.ethos_u.work import Extent, Kind, Work

KINDS = {
    "conv": Kind.CONVOLUTION,
    "depthwise": Kind.DEPTHWISE,
    "max_pool": Kind.POOLING,
    "average_pool": Kind.POOLING,
    "reduce_sum": Kind.POOLING,
}
"""All others are element by element."""
SET, OPERATION, WAIT = "NPU_SET_", "NPU_OP_", "_WAIT"
KERNELS, COPIES = "NPU_OP_KERNEL_WAIT", "NPU_OP_DMA_WAIT"
NOT_TIMED = ("NPU_OP_STOP", "NPU_OP_IRQ", "NPU_OP_PMU_MASK")


@dataclass(slots=True)
class Timeline:
    """Cycles: of the next command, and when operations on blocks and copies end, in their order,
    behind a 0."""

    now: float = 0.0
    ends: dict[str, list[float]] = field(default_factory=lambda: {KERNELS: [0.0], COPIES: [0.0]})

    def begin(self, queue: str, taken: float) -> None:
        """An operation begins when the one before it in its queue has ended."""
        ends = self.ends[queue]
        ends.append(max(self.now, ends[-1]) + taken)

    def wait(self, queue: str, outstanding: int) -> None:
        """Until at most so many of a queue have not ended."""
        ends = self.ends[queue]
        if outstanding < len(ends):
            self.now = max(self.now, ends[-1 - outstanding])

    @property
    def end(self) -> float:
        """When all is done."""
        return max(ends[-1] for ends in self.ends.values())


def stream_cycles(words: bytes, chip: Configuration, constants: int) -> float:
    """Cycles of a stream; `constants` is the region that lies in flash or DRAM."""
    timeline = Timeline()
    for command, operation in _steps(words):
        if operation is None:
            timeline.wait(command.format.name, command.fields["outstanding"])
        elif isinstance(operation, DmaOperation):
            home = chip if operation.source.region == constants else chip.in_sram
            size = operation.source.upper - operation.source.lower
            timeline.begin(COPIES, copying_cycles(home, size))
        else:
            work = work_of(operation, chip, constants)
            (taken,) = cycles(work, np.array([operation.block])).total
            timeline.begin(KERNELS, float(taken))
    return timeline.end


def work_of(operation: BlockOperation, chip: Configuration, constants: int) -> Work:
    """An operation of a stream as the formulas see it."""
    spans = [span for span in (operation.weights, operation.scales) if span is not None]
    direct = operation.weights is not None and operation.weights.region == constants
    kernel = operation.kernel
    return Work(
        chip if direct else chip.in_sram,
        KINDS.get(operation.kind, Kind.ELEMENTWISE),
        Shape(*operation.ifm.shape),
        Shape(*operation.ofm.shape),
        _rate(operation, chip.rates),
        Extent(kernel.height, kernel.width),
        Extent(kernel.stride_y, kernel.stride_x),
        Extent(kernel.dilation_y, kernel.dilation_x),
        upscale=1 if operation.upscale == "none" else 2,
        binary=len(operation.inputs) > 1,
        lookup=operation.activation.table is not None,
        part_kernel=kernel.part_kernel_first,
        packed_input=operation.ifm.bricks,
        packed_output=operation.ofm.bricks,
        constant_bytes=sum(span.upper - span.lower for span in spans),
    )


def _rate(operation: BlockOperation, rates: OutputRates) -> float:
    """Cycles for each element behind the multipliers."""
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


def _steps(words: bytes) -> Iterator[tuple[Command, BlockOperation | DmaOperation | None]]:
    """Operations and waits of a stream, in its order; a wait is no operation."""
    registers, number = Registers(), 0
    for command in commands_of(words):
        name = command.format.name
        if name.startswith(SET):
            registers.set(command)
        elif name in (KERNELS, COPIES):
            yield command, None
        elif name not in NOT_TIMED:
            yield command, registers.operation(command, number)
            number += 1
