"""u85_commands: the register commands of Ethos-U85, which Vela's API does not write.

Registers keep their values, so a command is omitted if it repeats a value. Of what Ethos-U85 can do
and Ethos-U55 cannot, only the scales of both operands of a sum are used; operations are not
chained.

Source: Vela 5.2.0, `regor/architecture/ethosu85/ethos_u85_register_cs_generator.cpp`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from penstock_ethos_u.blocks import ComputeKind
from penstock_ethos_u.call import Action, Compute
from penstock_ethos_u.encoding import EXTRA_BITS, HIGH_BITS
from penstock_ethos_u.interpreter.commands import U85, assemble, tables
from penstock_ethos_u.operation import TABULATED, UNSIGNED, NpuFunction, Operation, reciprocal
from penstock_ethos_u.timeline import CommandQueue, QueueWait
from penstock_ethos_u.waits import block_dependency, timeline_steps

TABLES = {1: 4, 4: 7}  # Codes of tables of int8 elements, by bytes of an entry.
REGION, INTERNAL = 7, 8  # Mask of the number of a region, and bit of the internal memory.

WAITS = {CommandQueue.OPERATIONS: "NPU_OP_KERNEL_WAIT", CommandQueue.COPIES: "NPU_OP_DMA_WAIT"}
# Codes of pools and element-wise operations.
POOLS = {
    NpuFunction.MAXIMUM: 0,
    NpuFunction.LOOKUP: 0,
    NpuFunction.COPY: 0,
    NpuFunction.AVERAGE: 1,
    NpuFunction.CHANNEL_SUM: 2,
}
SUM_POOL = 3
ELEMENTWISE = {
    NpuFunction.MULTIPLY: 0,
    NpuFunction.ADD: 1,
    NpuFunction.SUBTRACT: 2,
    NpuFunction.LOOKUP_DIFFERENCE: 2,
    NpuFunction.SMALLER: 3,
    NpuFunction.LARGER: 4,
    NpuFunction.LEADING_ZEROS: 7,
    NpuFunction.SHIFT_RIGHT: 8,
    NpuFunction.SHIFT_LEFT: 9,
}
NATURAL = 1  # Code of the rounding to nearest, ties upwards; 0 is that of TFLite.

Fields = dict[str, int]
Settings = Iterator[tuple[str, Fields | int]]


def command_words(actions: Sequence[Action], operations: Sequence[Any]) -> list[int]:
    """Return the 32-bit words of the commands that perform actions (operations and copies), with
    the waits that they need.

    operations: the same actions as operations of Vela's API."""
    lines, known = list[str](), dict[str, str]()
    waiting, before = zip(actions, operations, strict=True), None
    chip = next(action.op.configuration for action in actions if isinstance(action, Compute))
    for step in timeline_steps(actions, chip):
        if isinstance(step, QueueWait):
            lines.append(f"{WAITS[step.queue]} outstanding={step.outstanding}")
            continue
        action, made = next(waiting)
        settings, start = _copy(made), "NPU_OP_DMA_START"
        if isinstance(action, Compute):
            settings, start = _computation(action, made), _start(action.op)
            dependency = 0 if before is None else block_dependency(action, before)
            settings = (*settings, ("BLOCKDEP", dependency))
            before = action
        for register, value in settings:
            fields = {"value": value} if isinstance(value, int) else value
            text = " ".join(f"{name}={number}" for name, number in fields.items())
            if known.get(register) != text:
                known[register] = text
                lines.append(f"NPU_SET_{register} {text}")
        lines.append(start)
    lines.append("NPU_OP_STOP mask=0xffff")
    return np.frombuffer(assemble("\n".join(lines), U85), "<u4").tolist()


def _copy(made: Any) -> Settings:
    for name, place in (("SRC", made.src), ("DST", made.dest)):
        internal = place.region >> INTERNAL
        region = 0 if internal else place.region
        yield f"DMA0_{name}_REGION", {"region": region & REGION, "internal": internal}
        yield f"DMA0_{name}", place.address
    yield "DMA0_LEN", made.src.length
    yield "DMA0_SIZE0", 1


def _start(op: Operation) -> str:
    if op.kind is ComputeKind.ELEMENTWISE:
        return f"NPU_OP_ELEMENTWISE mode={ELEMENTWISE[op.function]}"
    if op.kind is ComputeKind.POOLING:
        mode = SUM_POOL if op.scales_sum else POOLS[op.function]
        return f"NPU_OP_POOL mode={mode}"
    return "NPU_OP_DEPTHWISE" if op.kind is ComputeKind.DEPTHWISE else "NPU_OP_CONV"


def _computation(action: Compute, made: Any) -> Settings:
    op, second = action.op, action.op.second
    sources = [("IFM", made.ifm)]
    if second is not None:
        names = ("IFM2", "IFM") if second.is_left else ("IFM", "IFM2")
        sources = [*zip(names, (made.ifm, made.ifm2), strict=True)]
    for name, map in (*sources, ("OFM", made.ofm)):
        yield from _map(name, map, op)
    yield "IFM_DEPTH_M1", op.in_c - 1
    yield "IFM_UPSCALE", 0 if op.upscale == 1 else 2
    for axis, size, block in zip(AXES, made.ofm.shape, made.block_config, strict=True):
        yield f"OFM_{axis}_M1", size - 1
        yield f"OFM_BLK_{axis}_M1", block - 1
    micro = tables()[U85]["choices"]["micro_block"].index([*action.timing.micro_block[:2]])
    yield "ACC_FORMAT", {"micro_block": micro}
    if op.kind is ComputeKind.ELEMENTWISE:
        yield from _elementwise(op, dict(sources), made.ofm.shape)
    else:
        yield from _window(op, made)
        scale, shift = 1, 0
        if op.scales_sum:
            scale, shift = reciprocal(op.kernel_h * op.kernel_w, scales_sum=True)
        rounding = NATURAL if op.rounds_average_once else 0
        yield "OFM_SCALE", {"scale": scale, "shift": shift, "rounding": rounding}
    yield from _activation(op)
    if op.weighted:
        yield from _constants(made)


AXES = ("HEIGHT", "WIDTH", "DEPTH")


def _map(name: str, map: Any, op: Operation) -> Settings:
    """The registers of a feature map, or of a scalar operand, which has no elements."""
    size = map.data_type.size_in_bytes()
    precision = {
        "signed": int(map.data_type.name != "UINT8"),
        "precision": size.bit_length() - 1,
        "format": int(map.layout.name == "NHCWB16"),
        "storage": 0 if map.shape.height else NO_STORAGE,
    }
    if name == "OFM":
        precision["global_scale"] = int(not op.weighted)
    yield f"{name}_PRECISION", precision
    yield f"{name}_ZERO_POINT", map.quantization.zero_point or 0
    if not map.shape.height:
        assert op.second is not None
        assert op.second.scalar is not None
        yield "OP_SCALAR", op.second.scalar
        return
    yield f"{name}_REGION", map.region
    for tile, address in enumerate(map.tiles.addresses):
        yield f"{name}_BASE{tile}", address
    yield f"{name}_HEIGHT0_M1", map.tiles.height_0 - 1
    yield f"{name}_HEIGHT1_M1", map.tiles.height_0 - 1
    yield f"{name}_WIDTH0_M1", map.tiles.width_0 - 1
    for axis, stride in zip("YXC", map.strides, strict=True):
        yield f"{name}_STRIDE_{axis}", stride


NO_STORAGE = 3  # Code of a feature map without elements in memory.


def _window(op: Operation, made: Any) -> Settings:
    for axis, size in zip(AXES, (op.reach_h, op.reach_w), strict=False):
        yield f"KERNEL_{axis}_M1", size - 1
    fields = {"part_kernel_first": int(op.part_kernel)}
    for axis, stride, dilation in (
        ("y", op.stride_h, op.dilation_h),
        ("x", op.stride_w, op.dilation_w),
    ):
        fields[f"stride_{axis}"] = (stride - 1) & 1
        fields[f"stride_{axis}_high"] = (stride - 1) >> 1
        fields[f"dilation_{axis}"] = dilation - 1
    yield "KERNEL_STRIDE", fields
    for side, size in zip(("TOP", "LEFT", "BOTTOM", "RIGHT"), made.padding, strict=True):
        yield f"IFM_PAD_{side}", size


def _elementwise(op: Operation, sources: dict[str, Any], shape: Sequence[int]) -> Settings:
    """The registers of an element-wise operation, by the names of its inputs.

    shape: rows, columns and channels of the output."""
    for name, map in sources.items():
        fields = {"scalar": int(not map.shape.height)}
        if map.shape.height:
            extents = zip(AXES, map.shape, shape, strict=True)
            fields |= {axis.lower(): int(size < whole) for axis, size, whole in extents}
        yield f"{name}_BROADCAST", fields
    one, result = {"scale": 1, "shift": 0}, {"scale": 1, "shift": 0}
    scales = dict.fromkeys(sources, one)
    sums = op.function in (NpuFunction.ADD, NpuFunction.SUBTRACT) and op.out_bytes == 1
    if op.function is NpuFunction.MULTIPLY or sums:
        result = {"scale": op.out_multiplier, "shift": HIGH_BITS - op.out_shift}
    if sums:
        factors = (op.multiplier0, op.shift0), (op.multiplier1, op.shift1)
        for name, (multiplier, shift) in zip(sources, factors, strict=True):
            shift = HIGH_BITS - EXTRA_BITS - shift
            scales[name] = {"scale": multiplier, "shift": shift, "left": EXTRA_BITS}
    for name, scale in scales.items():
        yield f"{name}_SCALE", scale
    natural = op.function is NpuFunction.SHIFT_RIGHT
    yield "OFM_SCALE", result | {"rounding": NATURAL if natural else 0}


def _activation(op: Operation) -> Settings:
    shift = UNSIGNED if op.unsigned_out else 0
    lower, upper, fields = op.least + shift, op.most + shift, {"function": 0}
    if op.function in TABULATED:
        lower, upper, fields = -128, 127, {"function": TABLES[op.out_bytes]}
    elif op.out_bytes > 1:
        fields["clip_range"] = 1  # none
    yield "ACTIVATION", fields
    yield "ACTIVATION_MIN", lower
    yield "ACTIVATION_MAX", upper


def _constants(made: Any) -> Settings:
    yield "WEIGHT_FORMAT", {"fast": 0, "sparse": 0}
    yield "WEIGHT_REGION", made.weights[0].region
    for decoder, place in enumerate(made.weights):
        yield f"WEIGHT{decoder or ''}_BASE", place.address
        yield f"WEIGHT{decoder or ''}_LENGTH", place.length
    (biases,) = made.biases
    yield "SCALE_REGION", biases.region
    yield "SCALE_BASE", biases.address
    yield "SCALE_LENGTH", biases.length
