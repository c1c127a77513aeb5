"""programs: the encoder of command streams, and the functional model that executes them.

A kernel call issues one `EncodedOperation`, preceded by copies of constants for this call and later
ones. The encoder converts these commands to NPU operations and copies (`call`), and then to
register commands. A payload contains all consecutive calls of the NPU.

Streams are relocatable: an address consists of the number of a memory region and an offset. A
submission passes the base address of each region, and a payload in the format of Arm's driver: a
header and the register commands.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from itertools import accumulate
from typing import Any

from penstock.uma import Array, Driver, Place, StreamOperation, StreamTransfer
from penstock_ethos_u.blocks import ComputeKind
from penstock_ethos_u.call import NOWHERE, Action, Compute, EncodedOperation, MapPlace, NpuCall
from penstock_ethos_u.configurations import BLOCK_CHANNELS, MapShape
from penstock_ethos_u.encoding import EXTRA_BITS, HIGH_BITS, traversal
from penstock_ethos_u.interpreter import driver_payload as words_of
from penstock_ethos_u.interpreter import execute, execute_parts
from penstock_ethos_u.operation import (
    TABULATED,
    UNSIGNED,
    NpuFunction,
    Operation,
    SecondInput,
)
from penstock_ethos_u.u85_commands import command_words as u85_commands
from penstock_ethos_u.vela import (
    WAIT_FOR_COPIES,
    WAIT_FOR_OPERATIONS,
    command_words,
    driver_payload,
    operation_words,
    payload_configuration,
    vela,
)
from penstock_ethos_u.waits import overtakes, reads_copy

# Conversion of the actions of a call (operations and copies) to the API of Arm's
# compiler Vela, which encodes them as register commands.


WORD_BYTES = 4
INSIDE = 1 << 8 | 3  # The region number of the NPU's internal memory in Vela's API.
BANK_BYTES = 1024
LOOKUP_BANKS = 2
# Names of element-wise functions in Vela's API.
ELEMENTWISE = {
    NpuFunction.ADD: "ADD",
    NpuFunction.SUBTRACT: "SUB",
    NpuFunction.MULTIPLY: "MUL",
    NpuFunction.LARGER: "MAX",
    NpuFunction.SMALLER: "MIN",
    NpuFunction.LOOKUP_DIFFERENCE: "SUB",
    NpuFunction.LEADING_ZEROS: "CLZ",
    NpuFunction.SHIFT_LEFT: "SHL",
    NpuFunction.SHIFT_RIGHT: "SHR",
}


def vela_operation(action: Action) -> Any:
    """Return the operation of Vela's API that performs an action (an operation or a copy)."""
    if isinstance(action, Compute):
        return _computation(action)
    if isinstance(action, StreamTransfer):
        return _copy(action.source, _range(action.target, action.size_bytes), action.size_bytes)
    at = (action.op.configuration.banks - LOOKUP_BANKS) * BANK_BYTES
    inside = vela().NpuAddressRange(INSIDE, at, action.size_bytes)
    return _copy(action.source, inside, action.size_bytes)


def _computation(action: Compute) -> Any:
    api, op, part, maps = vela(), action.op, action.part, action.maps
    rows = action.first, action.end
    lower, upper = op.reads(*rows)
    source = MapShape(upper - lower, op.in_w, op.in_c)
    result = MapShape(action.end - action.first, op.out_w, part.channels)
    made = _empty_operation(api, op)
    made.ifm = _map(api, source, maps.source, op.packed_in, op.in_zero)
    made.ofm = _map(api, result, maps.result, op.packed_out, op.out_zero, (part.first, op.out_c))
    made.activation = _activation(api, op)
    made.block_config = api.NpuShape3D(*action.timing.block)
    if op.second is not None:
        _add_second(api, op, op.second, made, maps.second, rows)
    elif op.kind is not ComputeKind.ELEMENTWISE:
        made.kernel = api.NpuKernel(
            op.kernel_w, op.kernel_h, op.stride_w, op.stride_h, op.dilation_w, op.dilation_h
        )
        made.padding = api.NpuPadding(*op.padding(*rows))
        made.ifm_upscale = api.NpuResamplingMode["NONE" if op.upscale == 1 else "TRANSPOSE"]
    if op.out_bytes > 1 or op.in_bytes > 1 or op.function is NpuFunction.LOOKUP_DIFFERENCE:
        _widen(api, op, made)
    for map, unsigned in ((made.ifm, op.unsigned_in), (made.ofm, op.unsigned_out)):
        if unsigned:
            map.data_type = api.NpuDataType.UINT8
            zero = map.quantization.zero_point + UNSIGNED
            map.quantization = map.quantization._replace(zero_point=zero)
    if part.place is not None:
        weights = Place(part.place.base, part.place.offset_bytes + part.segment.bias_bytes)
        made.biases = _ranges(part.biases or part.place, part.segment.bias_sizes)
        made.weights = _ranges(weights, part.segment.weight_sizes)
    return made


def _copy(source: Place, target: Any, size_bytes: int) -> Any:
    """The operation of Vela's API that copies `size_bytes` bytes from `source` to `target`,
    an address range of Vela's API."""
    return vela().NpuDmaOperation(_range(source, size_bytes), target)


def _range(place: Place, size_bytes: int) -> Any:
    """Return Vela's address range of the `size_bytes` bytes at `place`."""
    return vela().NpuAddressRange(place.base, place.offset_bytes, size_bytes)


def _ranges(place: Place, sizes: Sequence[int]) -> list[Any]:
    """Return Vela's address ranges of consecutive data of the given sizes, from `place` on."""
    begins = accumulate(sizes[:-1], initial=place.offset_bytes)
    return [
        _range(Place(place.base, begin), size) for begin, size in zip(begins, sizes, strict=True)
    ]


def _empty_operation(api: Any, op: Operation) -> Any:
    pools = api.NpuPoolingOp
    match op.function:
        case NpuFunction.CONVOLUTION:
            made = api.NpuConv2DOperation()
            made.block_traversal = traversal(api, part_kernel=op.part_kernel)
            return made
        case NpuFunction.DEPTHWISE:
            return api.NpuConvDepthWiseOperation()
        case NpuFunction.AVERAGE:
            return api.NpuPoolingOperation(pools.AVERAGE)
        case NpuFunction.MAXIMUM | NpuFunction.LOOKUP | NpuFunction.COPY:
            return api.NpuPoolingOperation(pools.MAX)
        case NpuFunction.CHANNEL_SUM:
            return api.NpuPoolingOperation(pools.REDUCE_SUM)
        case _:
            made = api.NpuElementWiseOperation(api.NpuElementWiseOp[ELEMENTWISE[op.function]])
            if op.function is NpuFunction.SHIFT_RIGHT:
                made.rounding_mode = api.NpuRoundingMode.NATURAL
            return made


def _map(
    api: Any,
    shape: MapShape,
    placed: MapPlace,
    packed: bool,
    zero: int,
    inside: tuple[int, int] | None = None,
) -> Any:
    """A feature map of int8 elements, as Vela's API describes it."""
    region, tiles = placed
    first, depth = inside or (0, shape.depth)
    pixel, block = tiles.stride or depth, 1
    if packed:
        pixel, block = BLOCK_CHANNELS, tiles.stride or BLOCK_CHANNELS * shape.width
    offset = first // BLOCK_CHANNELS * block if packed else first
    found = api.NpuFeatureMap()
    found.data_type = api.NpuDataType.INT8
    found.region = region
    found.shape = api.NpuShape3D(*shape)
    places = [
        tiles.first + offset,
        0,
        tiles.second + offset if tiles.height < shape.height else 0,
        0,
    ]
    found.tiles = api.NpuTileBox(tiles.height, 0, shape.width, places)
    found.quantization = api.NpuQuantization(1.0, zero)
    found.layout = api.NpuLayout.NHCWB16 if packed else api.NpuLayout.NHWC
    found.strides = api.NpuShape3D(height=tiles.pitch, width=pixel, depth=block)
    return found


def _activation(api: Any, op: Operation) -> Any:
    # Vela expects each limit as a real number: (limit - zero point) * scale.  The scale of the
    # output is always 1 here.
    kinds = api.NpuActivationOp
    if op.function in TABULATED:
        return api.NpuActivation(kinds.TABLE_LOOKUP)
    found = api.NpuActivation(kinds.NONE_OR_RELU)
    found.min, found.max = float(op.least - op.out_zero), float(op.most - op.out_zero)
    return found


def _add_second(
    api: Any,
    op: Operation,
    second: SecondInput,
    made: Any,
    placed: MapPlace | None,
    rows: tuple[int, int],
) -> None:
    if second.scalar is None:
        assert placed is not None
        first, end = op.second_rows(*rows)
        shape = MapShape(end - first, second.shape.width, second.shape.depth)
        made.ifm2 = _map(api, shape, placed, second.packed, second.zero)
    else:
        made.ifm2 = _map(api, MapShape(0, 0, 0), NOWHERE, packed=False, zero=second.zero)
        made.ifm2_scalar = float(second.scalar - second.zero)
    made.reversed_operands = second.is_left
    # Vela uses the given scale of a product unchanged.  For a sum or difference of int8 elements,
    # it derives multipliers from the scales of the three tensors.  It scales nothing else.
    if op.function is NpuFunction.MULTIPLY:
        made.rescale = (op.out_multiplier, HIGH_BITS - op.out_shift)
    if op.function not in (NpuFunction.ADD, NpuFunction.SUBTRACT) or op.out_bytes > 1:
        return
    scales = _scales(op)
    for each, scale in zip((made.ifm, made.ifm2, made.ofm), scales, strict=True):
        each.quantization = each.quantization._replace(scale_f32=scale)
    made.activation.min *= scales[2]
    made.activation.max *= scales[2]
    if second.scalar is not None:
        made.ifm2_scalar *= scales[1]


def _widen(api: Any, op: Operation, made: Any) -> None:
    """State the types of int32 elements. Without scales, Vela scales nothing."""
    for map, size in ((made.ifm, op.in_bytes), (made.ifm2, op.in_bytes), (made.ofm, op.out_bytes)):
        if map is not None:
            map.data_type = api.NpuDataType.INT8 if size == 1 else api.NpuDataType.INT32
            map.quantization = map.quantization._replace(scale_f32=None)
            if size > 1:  # in NHWC
                height, width, _ = map.strides
                map.strides = api.NpuShape3D(height=height, width=width, depth=size)
    if op.function not in TABULATED and op.out_bytes > 1:
        made.activation = None


def _scales(op: Operation) -> tuple[float, float, float]:
    first, second = (
        2.0 * m * 2.0 ** (s - HIGH_BITS)
        for m, s in ((op.multiplier0, op.shift0), (op.multiplier1, op.shift1))
    )
    result = op.out_multiplier * 2.0 ** (op.out_shift - HIGH_BITS + EXTRA_BITS)
    return first, second, 2.0 / result


@cache
def submission(engine: str) -> Driver:
    """Return the driver function that submits a stream to `engine`, the name of the accelerator."""
    return Driver("ethosu_submit", engine, submit, object)


CallCommands = Sequence[StreamOperation[EncodedOperation] | StreamTransfer]


def encode(commands: CallCommands) -> bytes:
    """Return the driver payload of a call.

    commands: exactly one operation, and zero or more copies of constants, issued before it."""
    payload, _ = encode_calls([commands])
    return payload


def encode_calls(calls: Sequence[CallCommands]) -> tuple[bytes, tuple[int, ...]]:
    """Return the driver payload of several calls, and the offset in bytes at which the commands of
    each call end.

    calls: for each call, exactly one operation, and zero or more copies of constants, issued before
        it.

    Operations of successive calls follow each other as those of one call do. Copies of a call begin
    when all earlier operations are complete, and the next call begins when they are: a call takes
    as long as alone."""
    npu_calls = [_npu_call(commands) for commands in calls]
    actions = [tuple(call.actions(*rows)) for call, rows in npu_calls]
    name = npu_calls[0][0].op.configuration.name
    every = [action for own in actions for action in own]
    operations = [*map(vela_operation, every)]
    is_u85 = npu_calls[0][0].op.configuration.memories is not None
    words = u85_commands(every, operations) if is_u85 else command_words(operations, name)
    waits = _waits(actions)
    ends: list[int] = []
    found: list[int] = []
    begins = [0, *accumulate(map(len, actions))]
    for number, part in enumerate(operation_words(words)):
        if number in begins[1:]:
            ends.append(len(found))
        found += [*waits.get(number, ()), *part]
    payload = driver_payload(found, name)
    header = len(payload) - WORD_BYTES * len(found)
    ends = [*ends[: len(calls) - 1], len(found)]
    return payload, tuple(header + WORD_BYTES * end for end in ends)


def _npu_call(commands: CallCommands) -> tuple[NpuCall, tuple[int, int]]:
    """A call, and the interval of output rows that it computes."""
    transfers = tuple(c for c in commands if isinstance(c, StreamTransfer))
    (issued,) = (c for c in commands if isinstance(c, StreamOperation))
    call = NpuCall(
        issued.operation,
        issued.inputs,
        issued.result,
        issued.tables[0] if issued.tables else None,
        issued.scratch,
        issued.prefetched,
        transfers,
    )
    return call, (issued.first, issued.end)


def _waits(calls: Sequence[Sequence[Action]]) -> Mapping[int, Sequence[int]]:
    """The wait commands to insert before some actions, by the number of the action; the number of
    all actions stands for the end of the stream. Vela inserts all others."""
    found: defaultdict[int, list[int]] = defaultdict(list)
    number, has_copied = 0, False
    before: Compute | None = None
    for actions in calls:
        if number and not all(isinstance(action, Compute) for action in actions):
            found[number].append(WAIT_FOR_OPERATIONS)
        if has_copied:
            found[number].append(WAIT_FOR_COPIES)
        has_copied = any(isinstance(action, StreamTransfer) for action in actions)
        for k, action in enumerate(actions):
            if reads_copy(actions, k):
                found[number].append(WAIT_FOR_COPIES)
            if isinstance(action, Compute):
                if before is not None and overtakes(action, before):
                    found[number].append(WAIT_FOR_OPERATIONS)
                before = action
            number += 1
    if has_copied:
        found[number].append(WAIT_FOR_COPIES)
    return found


def submit(device: object, payload: Array, size: int, *regions: Array | int) -> None:
    """Execute a payload on the functional model of the NPU, in the role of the C function
    `ethosu_submit`.

    payload: array that contains the payload in its first `size` bytes.
    regions: for each number of a memory region from 0 on, an array and the size of the region in
        bytes; (0, 0) for a region that the payload does not use.

    Raises BackendError if a copy may be unfinished at the end, because later calls may read its
    target."""
    del device
    raw = payload[:size].tobytes()
    execute(words_of(raw), _given(regions), payload_configuration(raw), waited=True)


def submit_parts(
    device: object, payload: Array, ends: Sequence[int], *regions: Array | int
) -> Iterator[None]:
    """Execute a payload of several calls as `submit`, call by call.

    ends: the offset at which the commands of each call end, of which the last is the size."""
    del device
    raw = payload[: ends[-1]].tobytes()
    words = words_of(raw)
    begins = [end - (len(raw) - len(words)) for end in ends]
    yield from execute_parts(words, begins, _given(regions), payload_configuration(raw))


def _given(regions: Sequence[Array | int]) -> dict[int, Array]:
    """The array of each region that a payload uses, by number, from pairs of array and size."""
    pairs = zip(regions[::2], regions[1::2], strict=True)
    return {k: base[:end] for k, (base, end) in enumerate(pairs) if not isinstance(base, int)}
