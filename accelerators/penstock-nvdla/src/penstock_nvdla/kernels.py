"""kernels: translates operators to tasks for NVDLA's convolution core and penstock's extension.  A
task consists of the parameters with which the hardware computes an operator.

Features are stored row by row, each row in packs of channels (`penstock.uma.packed`).  In NVDLA's
terms, a surface is one pack of a row, and the line stride is the row pitch.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from penstock.uma import (
    Array,
    Command,
    KernelCall,
    Node,
    Offloaded,
    TensorType,
    Value,
    maximum,
    minimum,
    quantise_multiplier,
)
from penstock_nvdla.configurations import CVSRAM, FEATURE_BUFFER, NvdlaConfiguration
from penstock_nvdla.extension import NO_POST, ElementwiseMode, Post, Range, Scale, WindowKind
from penstock_nvdla.packing import pack_weights
from penstock_nvdla.task import Task, operator_task
from penstock_nvdla.unextended_kernels import (
    CONCATENATION,
    ELEMENTWISE,
    constant_operand,
    copies,
    plain_hardware,
    plain_tables,
    plain_task,
)

# Constant operands of sums, differences and products that have one value per
# channel, or one value for all channels.


def channel_values(node: Node, constant: int) -> Array:
    """Return the quantised values of a constant operand, as an int64 array of shape (channels,).

    constant: the index of the operand among the inputs of `node`."""
    found = node.site.constant(constant).astype(np.int64).ravel()
    return np.broadcast_to(found, node.output.type.shape[-1:])


def factors(node: Node, constant: int) -> Array:
    """Return `channel_values` minus the zero point of the operand."""
    return channel_values(node, constant) - node.inputs[constant].type.zero_point


POOLS = {"MaxPool2D": WindowKind.LARGEST, "AveragePool2D": WindowKind.MEAN}
# The function of unit WINDOW for each of its operators.
WINDOWS = {"DepthwiseConv2D": WindowKind.DEPTHWISE, **POOLS}
CONVOLUTIONS = ("Conv2D", "FullyConnected")  # The operators of the convolution core.
WEIGHTED = ("nn.conv2d", "nn.dense", "nn.depthwise_conv2d")
# Operators to whose results unit POST can add a second tensor.
SUMMED = ("nn.conv2d", "nn.depthwise_conv2d")
# Operators that may need constant arrays.
TABLED = (
    *(*WEIGHTED, "clip", "multiply", "mean", "add", "subtract"),
    *("concatenate", "nn.pad", "nn.avg_pool2d", "nn.prelu"),
)
OPERATORS = (*TABLED, "nn.max_pool2d", "strided_slice", "nn.leaky_relu")


def hardware(offloaded: Offloaded) -> NvdlaConfiguration:
    """Return the hardware configuration that the user selected, with the units that penstock adds
    to NVDLA (`Extension`) unless the user disabled them.  The number of banks of its feature buffer
    is 1, whatever the real number: tasks depend only on the size of a bank."""
    plain, buffer = plain_hardware(offloaded), offloaded.target.memories.get(FEATURE_BUFFER)
    if not is_extended(offloaded):
        return plain
    return plain.extended(1, buffer.bank_bytes if buffer else 0)


def is_extended(offloaded: Offloaded) -> bool:
    """Return whether the hardware has the units that penstock adds to NVDLA."""
    return bool(offloaded.target.attrs["extension"])


@dataclass(frozen=True, slots=True)
class TaskInputs:
    """A task, and the input tensors that it reads.

    inputs: the indices of these tensors among the composite's inputs.  There is one, or two for an
        element-wise operation on two tensors."""

    task: Task
    inputs: tuple[int, ...]


def tasks(offloaded: Offloaded) -> tuple[TaskInputs, ...]:
    """Return the tasks that compute an offloaded operator, in order of execution.  A concatenation
    has one task per input; all other operators have a single task."""
    if offloaded.main.kind == CONCATENATION:
        chip = hardware(offloaded)
        shapes = [value.type.shape for value in offloaded.main.inputs]
        extended = is_extended(offloaded)
        every = [_copy_task(chip, s) for s in shapes] if extended else copies(offloaded)
        return tuple(TaskInputs(task, (offloaded.input_index(k),)) for k, task in enumerate(every))
    if not is_extended(offloaded):
        task = plain_task(offloaded)
        operands = (constant_operand(offloaded.main) == 0,) if task.function else task.operands
        return (TaskInputs(task, tuple(map(offloaded.input_index, operands))),)
    task = _single_task(offloaded)
    addend = fused_addend(offloaded)
    if addend is not None and not task.post.by_channel:
        other = offloaded.source_index(addend.value)
        assert other is not None
        return (TaskInputs(task, (offloaded.input_index(0), other)),)
    if task.post.elementwise and not task.post.by_channel:
        return (TaskInputs(task, (offloaded.input_index(0), offloaded.input_index(1))),)
    return (TaskInputs(task, (offloaded.input_index(constant_operand(offloaded.main) == 0),)),)


@dataclass(frozen=True, slots=True)
class FusedAddend:
    """An operand that unit POST adds to the results of a convolution or product, because the
    composite also contains a sum of both.

    node: the sum.
    index: the index of the operand among the inputs of the sum."""

    node: Node
    index: int

    @property
    def value(self) -> Value:
        """The operand as a value of the graph."""
        return self.node.inputs[self.index]


def fused_addend(offloaded: Offloaded) -> FusedAddend | None:
    """Return the operand that unit POST adds to the results of the main operator, a convolution or
    a product; None if the composite has no sum besides its main operator."""
    main = offloaded.main
    for node in offloaded.composite.nodes:
        if node.kind == "Add" and node.name != main.name:
            return FusedAddend(node, 1 if node.inputs[0].name == main.name else 0)
    return None


def _single_task(offloaded: Offloaded) -> Task:
    p, kind, chip = dict(offloaded.parameters), offloaded.main.kind, hardware(offloaded)
    if kind == "Relu":
        return _clamp_task(chip, offloaded)
    if kind == "Mean":
        return _mean_task(chip, p, offloaded.main.inputs[0].type.shape)
    if kind in ELEMENTWISE:
        return _elementwise_task(chip, p, offloaded)
    if kind == "FullyConnected":
        p |= {"in_h": 1, "in_w": 1, "out_h": 1, "out_w": 1}
    limits = Range(p["least"], p["most"])
    post = Post(requantise=kind not in POOLS, zero=p.get("out_zero", 0), limits=limits)
    post = _with_fused_sum(post, offloaded)
    task = operator_task(Task, chip, WINDOWS.get(kind), p)
    return replace(task, multiplier_d=p.get("multiplier_d", 1), post=post)


def _copy_task(chip: NvdlaConfiguration, shape: tuple[int, ...]) -> Task:
    """The task that copies a tensor of shape `shape`, (1, height, width, channels).  Unit
    WINDOW computes it as a maximum over windows of one element."""
    _, h, w, c = shape
    return Task(chip, WindowKind.LARGEST, w, h, c, w, h, c)


def _clamp_task(chip: NvdlaConfiguration, offloaded: Offloaded) -> Task:
    """The task of a clamp.  Unit WINDOW copies each element (windows of one element), and
    post-processing requantises and clamps it."""
    y = offloaded.main.output.type
    _, h, w, c = y.shape
    outputs = offloaded.tables["table"]
    limits = Range(int(outputs.min()), int(outputs.max()))
    post = Post(requantise=True, zero=y.zero_point, limits=limits)
    return Task(chip, WindowKind.LARGEST, w, h, c, w, h, c, post=post)


def _mean_task(chip: NvdlaConfiguration, p: Mapping[str, int], shape: tuple[int, ...]) -> Task:
    """The task of a mean over an image: a depthwise convolution whose window is the whole
    image."""
    _, h, w, c = shape
    post = Post(requantise=True, zero=p["out_zero"])
    return Task(chip, WindowKind.DEPTHWISE, w, h, c, 1, 1, c, w, h, post=post)


def _elementwise_task(chip: NvdlaConfiguration, p: Mapping[str, int], offloaded: Offloaded) -> Task:
    # A product with a constant is a depthwise convolution with windows of one element and the
    # constant as weights.  For any other operator, unit WINDOW copies each element of the first
    # tensor (windows of one element), and post-processing combines it with the second tensor or
    # with the constant.
    _, h, w, c = offloaded.main.output.type.shape
    constant = constant_operand(offloaded.main)
    if constant is not None and offloaded.main.kind == "Mul":
        limits = Range(p["least"], p["most"])
        post = Post(requantise=True, zero=p["out_zero"], limits=limits)
        post = _with_fused_sum(post, offloaded)
        return Task(chip, WindowKind.DEPTHWISE, w, h, c, w, h, c, post=post)
    post = _combining(NO_POST, p, 1 if constant == 0 else 0)
    post = replace(post, by_channel=constant is not None)
    return Task(chip, WindowKind.LARGEST, w, h, c, w, h, c, post=post)


def _with_fused_sum(post: Post, offloaded: Offloaded) -> Post:
    """Return post-processing that also adds the operand `fused_addend`, if there is one."""
    addend = fused_addend(offloaded)
    if addend is None:
        return post
    own = dict(addend.node.op.kernel(addend.node.site).params)
    is_constant = addend.value.data is not None
    return replace(_combining(post, own, 1 - addend.index), by_channel=is_constant)


def _combining(post: Post, p: Mapping[str, int], first: int) -> Post:
    modes = {1: ElementwiseMode.ADD, -1: ElementwiseMode.SUBTRACT, 0: ElementwiseMode.MULTIPLY}
    scales = [
        Scale(*(p.get(f"{name}{k}", 0) for name in ("zero", "multiplier", "shift"))) for k in (0, 1)
    ]
    return replace(
        post,
        elementwise=modes[p.get("sign1", 0)],
        first=scales[first],
        other=scales[1 - first],
        result=Scale(p["out_zero"], p["out_multiplier"], p["out_shift"]),
        result_limits=Range(p["least"], p["most"]),
    )


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


def gathered_bytes(reach: int, packs: TensorType) -> int:
    """Return the size in bytes of the scratch memory that an operator needs: enough for the input
    rows of one window, or 0 if its windows have one row.

    If the input rows of a window have no constant pitch in memory, they are first copied (gathered)
    to scratch.

    packs: the type of the input, stored in packs of channels."""
    return reach * math.prod(packs.shape[2:]) if reach > 1 else 0


def feature_buffer_fields(offloaded: Offloaded, input_indices: tuple[int, ...]) -> frozenset[str]:
    """Return which tensors of a task are assigned to the feature buffer, as names of fields of
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
    second = (FEATURE_BUFFER, CVSRAM)
    return frozenset(name for name, memory in memories.items() if memory in second)


def tables(offloaded: Offloaded) -> Mapping[str, Array]:
    """Return the constant arrays (tables) that the hardware reads for an operator, by name.

    A sum, difference or product of two tensors has no tables: the result is empty.  Without the
    extension, "post" has other contents (`plain_tables`)."""
    # "weights": the int8 weights, in the order in which the hardware reads them.
    # "post": the int32 bias, multiplier and shift of each output channel, of shape (channels, 3).
    #   The bias includes the correction for the zero point of the input.
    # "second": the constant operand of a sum or difference, int8, of shape (channels,).
    if not is_extended(offloaded):
        return plain_tables(offloaded)
    if offloaded.main.kind in (CONCATENATION, "AveragePool2D"):
        return {}
    if offloaded.main.kind == "Relu":
        x, y = offloaded.main.inputs[0].type, offloaded.main.output.type
        scale = quantise_multiplier(x.scale / y.scale)
        post = np.tile(np.array([-x.zero_point, *scale], np.int32), (y.shape[-1], 1))
        return {"weights": np.zeros(1, np.int8), "post": post}
    if offloaded.main.kind in ELEMENTWISE:
        return _elementwise_tables(offloaded)
    if offloaded.main.kind == "Mean":
        return _averaging_tables(offloaded)
    weights = offloaded.constant(1)
    p, t = offloaded.parameters, offloaded.tables
    if offloaded.main.kind == "DepthwiseConv2D":
        packed, sums = weights.ravel(), weights.astype(np.int64).sum(axis=(0, 1, 2))
    else:
        kernels = weights.reshape((len(weights), 1, 1, -1)) if weights.ndim == 2 else weights
        packed = np.frombuffer(pack_weights(kernels, hardware(offloaded)), np.int8)
        sums = kernels.astype(np.int64).sum(axis=(1, 2, 3))
    bias = offloaded.constant(2) - p["in_zero"] * sums
    post = np.stack([bias, t["multiplier"], t["shift"]], axis=1)
    return {"weights": packed, "post": post.astype(np.int32)}


def _averaging_tables(offloaded: Offloaded) -> Mapping[str, Array]:
    """The constant arrays (tables) of a mean, by name.  The mean runs as a depthwise
    convolution."""
    # "weights": int8, all 1.
    # "post": the int32 bias, multiplier and shift of each channel, of shape (channels, 3).  The
    #   bias subtracts the input's zero point once for each element of the image.
    p, (_, h, w, c) = offloaded.parameters, offloaded.main.inputs[0].type.shape
    post = (-p["in_zero"] * h * w, p["multiplier"], p["shift"])
    return {
        "weights": np.ones(h * w * c, np.int8),
        "post": np.tile(np.array(post, np.int32), (c, 1)),
    }


def _elementwise_tables(offloaded: Offloaded) -> Mapping[str, Array]:
    """The constant arrays (tables) of a sum, difference or product, by name."""
    # A product with a constant, which runs as a depthwise convolution, has two:
    # "weights": for each channel, the constant minus its zero point, as int8.
    # "post": the int32 bias, multiplier and shift of each channel, of shape (channels, 3).  The
    #   bias is -(zero point of the other operand) * weight.
    #
    # A constant operand of a sum or difference, also of a sum that is fused with a product, is the
    # table "second".
    constant, addend = constant_operand(offloaded.main), fused_addend(offloaded)
    if constant is None:
        return {}
    if offloaded.main.kind != "Mul":
        return {"second": channel_values(offloaded.main, constant).astype(np.int8)}
    p, weights = offloaded.parameters, factors(offloaded.main, constant)
    bias = -p[f"zero{1 - constant}"] * weights
    scale = np.broadcast_to([p["out_multiplier"], p["out_shift"]], (len(weights), 2))
    post = np.concatenate([bias[:, None], scale], axis=1).astype(np.int32)
    found = {"weights": weights.astype(np.int8), "post": post}
    if addend is not None:
        found["second"] = channel_values(addend.node, addend.index).astype(np.int8)
    return found
