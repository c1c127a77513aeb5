"""kernels: the tasks of an offloaded operator, the commands of its calls, and its cycles and bytes.

Features are stored row by row, each row in packs of channels (`penstock.uma.packed`).  In NVDLA's
terms, a surface is one pack of a row, and the line stride is the row pitch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from penstock.uma import Command, KernelCall, Offloaded, maximum, minimum
from penstock_nvdla.configurations import CVSRAM
from penstock_nvdla.operators import CONCATENATION, constant_operand, copies, operator_task
from penstock_nvdla.task import Task

WEIGHTED = ("nn.conv2d", "nn.dense", "nn.depthwise_conv2d")
# Operators that may need constant arrays.
TABLED = (
    *(*WEIGHTED, "clip", "multiply", "mean", "add", "subtract"),
    *("concatenate", "nn.pad", "nn.avg_pool2d", "nn.prelu"),
)
OPERATORS = (*TABLED, "nn.max_pool2d", "strided_slice", "nn.leaky_relu")


@dataclass(frozen=True, slots=True)
class TaskInputs:
    """A task, and the input tensors that it reads.

    inputs: the indices of these tensors among the composite's inputs.  There is one, or two for a
        sum or difference of two tensors."""

    task: Task
    inputs: tuple[int, ...]


def tasks(offloaded: Offloaded) -> tuple[TaskInputs, ...]:
    """Return the tasks that compute an offloaded operator, in order of execution.  A concatenation
    has one task per input; all other operators have a single task."""
    if offloaded.main.kind == CONCATENATION:
        return tuple(
            TaskInputs(task, (offloaded.input_index(k),))
            for k, task in enumerate(copies(offloaded))
        )
    task = operator_task(offloaded)
    operands = (constant_operand(offloaded.main) == 0,) if task.function else task.operands
    return (TaskInputs(task, tuple(map(offloaded.input_index, operands))),)


def compute(call: KernelCall) -> Sequence[Command]:
    """Return the commands of a kernel call, one per task.  A concatenation has one task per input,
    which copies that input to its channels of the output."""
    commands: list[Command] = []
    channel = 0
    for one in tasks(call):
        task = one.task
        lower = maximum(call.first * task.stride_h - task.pad_top, 0)
        upper = minimum((call.end - 1) * task.stride_h - task.pad_top + task.reach_h, task.in_h)
        rows = ((lower, upper), (call.first, call.end))
        commands.append(
            call.issue(
                task,
                [
                    call.operands[k].rows(*interval)
                    for k, interval in zip(one.inputs, rows, strict=False)
                ],
                call.result.rows(call.first, call.end, _pack_offset(task, channel)),
                tables=tuple(map(call.table, task.tables)),
                scratch=None if call.scratch_buffer is None else call.scratch,
            )
        )
        channel += task.in_c
    return commands


def _pack_offset(task: Task, channel: int) -> int:
    """The offset in bytes, in an output row, of the pack that contains a channel."""
    atom = task.hardware.memory_atom_bytes
    return channel // atom * task.out_w * atom


def cvsram_fields(offloaded: Offloaded, input_indices: tuple[int, ...]) -> frozenset[str]:
    """Return which tensors of a task are in the memory at the second port, as names of fields of
    `LayerTraffic`.

    "features" stands for the first input, "second" for the second input, and "output" for the
    output.  The result is empty if the operator has no memory assignment.

    input_indices: the indices, among the composite's inputs, of the tensors that the task reads."""
    if not offloaded.memory_assignment:
        return frozenset()
    *inputs, output = offloaded.memory_assignment
    memories = {"output": output}
    for name, k in zip(("features", "second"), input_indices, strict=False):
        memories[name] = inputs[k]
    return frozenset(name for name, memory in memories.items() if memory == CVSRAM)
