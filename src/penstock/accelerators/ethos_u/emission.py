"""emission: operations as Arm's compiler takes them from outside, and makes words of."""

from __future__ import annotations

from typing import Any

from penstock.accelerators.ethos_u.call import NOWHERE, Action, Compute, ConstantsCopy, Placed
from penstock.accelerators.ethos_u.configurations import BRICK, Shape
from penstock.accelerators.ethos_u.encoding import HIGH_BITS, traversal
from penstock.accelerators.ethos_u.operation import WITH_SCALAR, Function, Operation
from penstock.accelerators.ethos_u.vela import vela
from penstock.accelerators.ethos_u.waits import TABLE_BYTES
from penstock.accelerators.ethos_u.work import Kind
from penstock.uma import Place

INSIDE = 1 << 8 | 3
"""The region that stands for the NPU's own memory."""
BANK_BYTES = 1024
LOOKUP_BANKS = 2
EXTRA_BITS = 20
"""By so many bits TFLite raises both terms of a sum."""


def emitted(action: Action) -> Any:
    """An action as the package takes it."""
    if isinstance(action, Compute):
        return _operation(action)
    if isinstance(action, ConstantsCopy):
        return _copy(action.source, _range(action.target, action.size_bytes), action.size_bytes)
    at = (action.op.configuration.banks - LOOKUP_BANKS) * BANK_BYTES
    inside = vela().NpuAddressRange(INSIDE, at, TABLE_BYTES)
    return _copy(action.source, inside, TABLE_BYTES)


def _operation(action: Compute) -> Any:
    """An operation, in the block in which it is done soonest."""
    api, op, part, maps = vela(), action.op, action.part, action.maps
    rows = action.first, action.end
    lower, upper = op.reads(*rows)
    source = Shape(upper - lower, op.in_w, op.in_c)
    result = Shape(action.end - action.first, op.out_w, part.channels)
    made = _made(api, op)
    made.ifm = _map(api, source, maps.source, op.packed_in, op.in_zero)
    made.ofm = _map(api, result, maps.result, op.packed_out, op.out_zero, (part.first, op.out_c))
    made.activation = _activation(api, op)
    made.block_config = api.NpuShape3D(*action.computed.block)
    if op.kind is Kind.ELEMENTWISE:
        _add_second(api, op, made, maps.second, rows)
    else:
        made.kernel = api.NpuKernel(
            op.kernel_w, op.kernel_h, op.stride_w, op.stride_h, op.dilation_w, op.dilation_h
        )
        made.padding = api.NpuPadding(*op.padding(*rows))
        made.ifm_upscale = api.NpuResamplingMode["NONE" if op.upscale == 1 else "TRANSPOSE"]
    if part.place is not None:
        biases, weights = part.biases or part.place, part.place
        made.biases = [_range(biases, part.bias_bytes)]
        made.weights = [
            api.NpuAddressRange(
                weights.base, weights.offset_bytes + part.bias_bytes, part.weight_bytes
            )
        ]
    return made


def _copy(source: Place, target: Any, size_bytes: int) -> Any:
    return vela().NpuDmaOperation(_range(source, size_bytes), target)


def _range(place: Place, size_bytes: int) -> Any:
    return vela().NpuAddressRange(place.base, place.offset_bytes, size_bytes)


def _made(api: Any, op: Operation) -> Any:
    """An operation of its kind."""
    pools = api.NpuPoolingOp
    match Function(op.function):
        case Function.CONVOLUTION:
            made = api.NpuConv2DOperation()
            made.block_traversal = traversal(api, op)
            return made
        case Function.DEPTHWISE:
            return api.NpuConvDepthWiseOperation()
        case Function.AVERAGE:
            return api.NpuPoolingOperation(pools.AVERAGE)
        case Function.MAXIMUM | Function.LOOKUP | Function.COPY:
            return api.NpuPoolingOperation(pools.MAX)
        case Function.ADD:
            return api.NpuElementWiseOperation(api.NpuElementWiseOp.ADD)
        case Function.SUBTRACT:
            return api.NpuElementWiseOperation(api.NpuElementWiseOp.SUB)
        case Function.MULTIPLY:
            return api.NpuElementWiseOperation(api.NpuElementWiseOp.MUL)


def _map(
    api: Any,
    shape: Shape,
    placed: Placed,
    packed: int,
    zero: int,
    inside: tuple[int, int] | None = None,
) -> Any:
    """A feature map of int8 elements; `inside`: of a larger one, the channels from the first on, of
    so many."""
    region, tiles = placed
    first, depth = inside or (0, shape.depth)
    pixel, brick = (BRICK, BRICK * shape.width) if packed else (depth, 1)
    behind = first // BRICK * brick if packed else first
    found = api.NpuFeatureMap()
    found.data_type = api.NpuDataType.INT8
    found.region = region
    found.shape = api.NpuShape3D(*shape)
    places = [
        tiles.first + behind,
        0,
        tiles.second + behind if tiles.height < shape.height else 0,
        0,
    ]
    found.tiles = api.NpuTileBox(tiles.height, 0, shape.width, places)
    found.quantization = api.NpuQuantization(1.0, zero)
    found.layout = api.NpuLayout.NHCWB16 if packed else api.NpuLayout.NHWC
    found.strides = api.NpuShape3D(height=tiles.pitch, width=pixel, depth=brick)
    return found


def _activation(api: Any, op: Operation) -> Any:
    """Limits, which the package takes as real numbers of the output's scale, here 1."""
    kinds = api.NpuActivationOp
    if op.function == Function.LOOKUP:
        return api.NpuActivation(kinds.TABLE_LOOKUP)
    found = api.NpuActivation(kinds.NONE_OR_RELU)
    found.min, found.max = float(op.least - op.out_zero), float(op.most - op.out_zero)
    return found


def _add_second(
    api: Any, op: Operation, made: Any, placed: Placed | None, rows: tuple[int, int]
) -> None:
    """The second input, and scales.

    A product is scaled as is said.  The package finds out the scales of sums by itself, from those
    of tensors; so it is given such as lead to TFLite's."""
    if op.second != WITH_SCALAR:
        assert placed is not None
        first, end = op.second_rows(*rows)
        shape = Shape(end - first, op.second_w, op.second_c)
        made.ifm2 = _map(api, shape, placed, op.packed_second, op.second_zero)
    else:
        made.ifm2 = _map(api, Shape(0, 0, 0), NOWHERE, 0, op.second_zero)
        made.ifm2_scalar = float(op.scalar - op.second_zero)
    made.reversed_operands = bool(op.second_first)
    if op.function == Function.MULTIPLY:
        made.rescale = (op.out_multiplier, HIGH_BITS - op.out_shift)
        return
    scales = _scales(op)
    for each, scale in zip((made.ifm, made.ifm2, made.ofm), scales, strict=True):
        each.quantization = each.quantization._replace(scale_f32=scale)
    made.activation.min *= scales[2]
    made.activation.max *= scales[2]
    if op.second == WITH_SCALAR:
        made.ifm2_scalar *= scales[1]


def _scales(op: Operation) -> tuple[float, float, float]:
    """Scales of two terms and of their sum that lead to its multipliers: the larger one is 1."""
    first, second = (
        2.0 * m * 2.0 ** (s - HIGH_BITS)
        for m, s in ((op.multiplier0, op.shift0), (op.multiplier1, op.shift1))
    )
    result = op.out_multiplier * 2.0 ** (op.out_shift - HIGH_BITS + EXTRA_BITS)
    return first, second, 2.0 / result
