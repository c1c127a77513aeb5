"""Execution of a register command stream on byte arrays, with checks of addresses and hazards.
Shared memory is the internal memory of the NPU."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import frexp, prod
from typing import Any

import numpy as np

from penstock.uma import Array, BackendError, UsageError
from penstock_ethos_u.interpreter import arithmetic
from penstock_ethos_u.interpreter.commands import RegisterCommand, decode_commands
from penstock_ethos_u.interpreter.feature_map import BLOCK_CHANNELS, FeatureMap, size_bytes
from penstock_ethos_u.interpreter.footprint import Footprint, operation_footprint
from penstock_ethos_u.interpreter.hardware import NpuHardware, find_hardware
from penstock_ethos_u.interpreter.hazards import Flight
from penstock_ethos_u.interpreter.memory import SHARED, ByteSpan, RegionMemory
from penstock_ethos_u.interpreter.operation import (
    BlockOperation,
    DmaOperation,
    Operation,
    not_modelled,
)
from penstock_ethos_u.interpreter.output import (
    check_accumulators,
    limited,
    looked_up,
    scaled_output,
    table_bytes,
)
from penstock_ethos_u.interpreter.registers import Registers
from penstock_ethos_u.interpreter.weights import decode_biases, decode_weights

# Checks that addresses and sizes are multiples of 16 bytes where the hardware requires it.
#
# Source: the checks of the register command stream generator of Arm's compiler Vela, for U55 and
# U65.


ALIGNMENT = 16  # Alignment in bytes.
WORD_BYTES = 4


def check_alignment(operation: Operation, hardware: NpuHardware) -> None:
    """Raise BackendError if an address, stride or size of an operation is not a multiple of 16
    bytes although the hardware requires it."""
    if isinstance(operation, DmaOperation):
        numbers = _copy_registers(operation, hardware)
    else:
        numbers = _block_operation_registers(operation)
    for name, number in numbers:
        if number % ALIGNMENT:
            raise BackendError(
                "ethosu-113",
                f"{name} {number:#x} is not a multiple of {ALIGNMENT}",
                where=operation.where,
                why="channel blocks, weights and copies are at multiples of 16; on U65, copies only"
                " if they access shared memory",
                help="align buffers to 16 bytes, and pad their contents",
            )


def _copy_registers(operation: DmaOperation, hardware: NpuHardware) -> Iterator[tuple[str, int]]:
    """(name, value) of the registers of a copy whose values must be multiples of 16."""
    # These are the source address, the target address and the size in bytes.  If the hardware
    # supports unaligned copies (U65), there are two restrictions only.  An address must be a
    # multiple of 16 if it is in shared memory, the internal memory of the NPU.  The size must be a
    # multiple of 16 if the target is in shared memory.
    source, target = operation.source, operation.target
    anywhere = hardware.unaligned_copies
    for span in (source, target):
        if span.region == SHARED or not anywhere:
            yield f"NPU_SET_{span.name}", span.lower
    if target.region == SHARED or not anywhere:
        yield "NPU_SET_DMA0_LEN", source.upper - source.lower


def _block_operation_registers(operation: BlockOperation) -> Iterator[tuple[str, int]]:
    """(name, value) of the registers of a block operation (any operation but a copy) whose
    values must be multiples of 16."""
    for map in (*operation.inputs, operation.ofm):
        if map.nhcwb16:
            yield from _feature_map_registers(map)
    for weights in operation.weights:
        yield f"NPU_SET_{weights.name}_BASE", weights.lower
        yield f"NPU_SET_{weights.name}_LENGTH", weights.upper - weights.lower
    for scales in operation.scales:
        yield f"NPU_SET_{scales.name}_LENGTH", scales.upper - scales.lower


def _feature_map_registers(map: FeatureMap) -> Iterator[tuple[str, int]]:
    """(name, value) of the registers of a feature map in layout NHCWB16 whose values must be
    multiples of 16: base addresses of the tiles that are in use, and strides."""
    height, width, depth = map.stored_shape
    name = f"NPU_SET_{map.name.upper()}"
    right, below = width > map.width_0, height > map.height_0
    used = (True, right, below, right and height > map.height_1)
    for tile, base in enumerate(map.bases):
        if used[tile]:
            yield f"{name}_BASE{tile}", base
    if height > 1:
        yield f"{name}_STRIDE_Y", map.stride_y
    if depth > BLOCK_CHANNELS:
        yield f"{name}_STRIDE_C", map.stride_c


WEIGHTED = {"conv": arithmetic.convolution, "depthwise": arithmetic.depthwise}
POOLED = {
    "max_pool": arithmetic.largest,
    "average_pool": arithmetic.window_sum,
    "reduce_sum": arithmetic.depth_sum,
    "sum_pool": arithmetic.window_sum,
    "min_pool": arithmetic.least,
    "copy": arithmetic.unchanged,
    "argmax": arithmetic.place_of_largest,
    "bilinear": arithmetic.bilinear,
    "nearest": arithmetic.nearest,
}
# Precision in bits of the reciprocal by which the hardware multiplies the sum of a window to
# compute its average.
POOLING_BITS = 31


@dataclass(frozen=True, slots=True)
class Execution:
    """A summary of an executed stream.

    operations: number of executed operations by kind, for example "conv" or "dma".
    bytes_read, bytes_written: number of bytes that operations accessed, by region number. Each byte
        is counted once per operation. The internal memory of the NPU is not included.
    ordered: descriptions of overwrites that are correct only because the hardware completes blocks
        in order. In each, an operation overwrites bytes that the previous operation may still
        access.
    unfinished: positions in the stream, such as "operation 3 (dma), word 17", of the copies that
        may be unfinished when the stream ends."""

    operations: Mapping[str, int]
    bytes_read: Mapping[int, int]
    bytes_written: Mapping[int, int]
    ordered: tuple[str, ...]
    unfinished: tuple[str, ...]


def execute(
    stream: bytes,
    regions: Mapping[int, Any],
    accelerator: str,
    observe: Callable[[Operation], None] = lambda operation: None,
    *,
    waited: bool = False,
) -> Execution:
    """Execute a register command stream of little-endian 32-bit words, and check it.

    The result is a summary, such as the numbers of executed operations and of accessed bytes.

    observe: called with each operation after its execution.
    waited: whether the stream must wait for all copies before it ends.

    Raises BackendError if the stream is invalid (an unknown command, a register that is not set, a
    hazard), CapacityError if an access is outside its region, UnsupportedError if the stream uses a
    feature that is not modelled, and UsageError if the accelerator is not modelled or a region is
    not a contiguous uint8 array."""
    _check_regions(regions)
    run = _Run(find_hardware(accelerator), regions, observe, waited)
    for _ in run.parts(stream, ()):
        pass
    counters = dict(run.counts), dict(run.read), dict(run.written)
    return Execution(*counters, tuple(run.flight.ordered), run.unfinished)


def execute_parts(
    stream: bytes, ends: Sequence[int], regions: Mapping[int, Any], accelerator: str
) -> Iterator[None]:
    """Execute a stream as `execute`, in parts: yield before the commands at each of the offsets
    `ends`, in bytes, and at the end.  The stream must wait for all copies before it ends."""
    _check_regions(regions)
    yield from _Run(find_hardware(accelerator), regions, _ignored, True).parts(stream, ends)


def _ignored(operation: Operation) -> None:
    del operation


def _check_regions(regions: Mapping[int, Any]) -> None:
    for number, region in regions.items():
        if not _is_bytes(region):
            raise UsageError(
                "ethosu-116",
                f"region {number} is not an array of bytes",
                where="execute() of penstock_ethos_u.interpreter",
                why="a region is a one-dimensional NumPy array of uint8, modified in place",
                help="pass array.view(np.uint8).reshape(-1) of a contiguous array",
            )


@dataclass(slots=True)
class _Run:
    """The state of an execution.

    hardware: the hardware configuration.
    regions: arrays of uint8 by region number, without shared memory.
    observe: called with each operation after its execution.
    waited: whether the stream must wait for all copies before it ends.
    memory: `regions` and shared memory.
    copied: array of bool: for each byte of shared memory, whether it holds data that a copy wrote
        and that accumulators have not overwritten.
    flight: the operations that may be unfinished.
    chained: the elements in each chaining buffer, by number.
    links: the operations of the chain that has begun.
    counts: number of executed operations by kind.
    read, written: number of bytes accessed, by region number, without shared memory.
    unfinished: positions of the copies that may be unfinished at the end."""

    hardware: NpuHardware
    regions: Mapping[int, Any]
    observe: Callable[[Operation], None]
    waited: bool
    memory: RegionMemory = field(init=False)
    copied: Any = field(init=False)
    flight: Flight = field(init=False)
    chained: dict[int, Array] = field(default_factory=dict[int, Array])
    links: list[BlockOperation] = field(default_factory=list[BlockOperation])
    counts: Counter[str] = field(default_factory=Counter[str])
    read: Counter[int] = field(default_factory=Counter[int])
    written: Counter[int] = field(default_factory=Counter[int])
    unfinished: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        shared = np.zeros(self.hardware.shared_bytes, np.uint8)
        self.copied = np.zeros(self.hardware.shared_bytes, np.bool_)
        self.memory = RegionMemory({**self.regions, SHARED: shared})
        self.flight = Flight(self.hardware)

    def parts(self, stream: bytes, ends: Sequence[int]) -> Iterator[None]:
        """Execute a stream; yield before the commands at the offsets `ends`, and at the end."""
        registers, waiting = Registers(self.hardware), list(ends)
        for command in decode_commands(stream, self.hardware.family):
            while waiting and WORD_BYTES * command.word >= waiting[0]:
                del waiting[0]
                yield
            name = command.format.name
            if name.startswith("NPU_SET_"):
                registers.set(command)
            elif name.endswith("_WAIT"):
                self.flight.wait(name, command.fields["outstanding"])
            elif command.format.name in OPERATIONS:
                self._operation(registers, command)
        if self.links:
            raise not_modelled("a chain without an end", self.links[0].where)
        self.unfinished = self.flight.end(waited=self.waited)
        yield

    def _operation(self, registers: Registers, command: RegisterCommand) -> None:
        operation = registers.operation(command, self.counts.total())
        self._check(operation)
        footprint = operation_footprint(operation, self.hardware)
        self._begin(operation, footprint)
        if isinstance(operation, DmaOperation):
            self._copy(operation)
        else:
            self._compute(operation)
        self._count(operation, footprint)
        self.observe(operation)

    def _begin(self, operation: Operation, footprint: Footprint) -> None:
        """Check the hazards of an operation; those of a chain, with the last of its operations.

        Raises UnsupportedError if an operation after the first does not belong to its chain."""
        if isinstance(operation, DmaOperation):
            self.flight.begin(operation, footprint)
            return
        if self.links and (
            not operation.reads_chain
            or (operation.ofm.shape, operation.block)
            != (self.links[0].ofm.shape, self.links[0].block)
        ):
            raise not_modelled("another operation inside a chain", operation.where)
        if operation.ofm.chained:
            self.links.append(operation)
        elif self.links:
            whole = replace(operation, links=tuple(self.links))
            self.links.clear()
            self.flight.begin(whole, operation_footprint(whole, self.hardware))
        else:
            self.flight.begin(operation, footprint)

    def _check(self, operation: Operation) -> None:
        """Raise BackendError if an address of the operation is misaligned. Raise CapacityError if a
        feature map is outside its region or if the output is in a read-only region."""
        check_alignment(operation, self.hardware)
        if isinstance(operation, BlockOperation):
            for map in operation.inputs:
                self.memory.check(map, operation.where)
            if not operation.ofm.chained:
                self.memory.check(operation.ofm, operation.where, written=True)

    def _count(self, operation: Operation, footprint: Footprint) -> None:
        """Add an operation to the counts of operations, and its accesses to the counts of bytes."""
        self.counts[operation.kind] += 1
        for counter, sets in ((self.read, footprint.reads), (self.written, footprint.writes)):
            for region in sets.keys() - {SHARED}:
                counter[region] += size_bytes(sets[region])

    def _copy(self, operation: DmaOperation) -> None:
        source = self.memory.bytes_of(operation.source, operation.where)
        target = self.memory.bytes_of(operation.target, operation.where, written=True)
        target[:] = source.copy()
        if operation.target.region == SHARED:
            self.copied[operation.target.lower : operation.target.upper] = True

    def _compute(self, operation: BlockOperation) -> None:
        ifm = self._read(operation.ifm, operation)
        if operation.kind in WEIGHTED:
            found = self._weighted(operation, ifm)
        elif operation.kind in POOLED:
            found = _pooled(operation, ifm)
        elif operation.kind == "matmul":
            found = self._product(operation, ifm)
        else:
            found = self._elementwise(operation, ifm)
        found = limited(operation, found)
        if operation.activation.table is not None:
            found = looked_up(operation, found, self._table(operation))
        elif self.hardware.overwrites_tables:
            self.copied[:] = False
        if operation.ofm.chained:
            self.chained[operation.ofm.region] = found
        else:
            self.memory.write(operation.ofm, found)
            self.chained.clear()

    def _read(self, map: FeatureMap, operation: BlockOperation) -> Any:
        """The elements of a feature map in memory or in a chaining buffer, as an int64 array in its
        shape."""
        if not map.chained:
            return self.memory.read(map)
        found = self.chained.get(map.region)
        if found is None or found.size != prod(map.shape):
            raise not_modelled(f"reading chaining buffer {map.region} here", operation.where)
        return found.reshape(map.shape)

    def _weighted(self, operation: BlockOperation, ifm: Any) -> Any:
        """The requantised result of a convolution or depthwise convolution, including
        biases: an int64 array in the shape of the output, to which the zero point of the output has
        not been added."""
        streams, tables = (
            [self.memory.bytes_of(span, operation.where) for span in spans]
            for spans in (operation.weights, operation.scales)
        )
        bias, scale, shift = decode_biases(operation, tables, self.hardware)
        kernel = decode_weights(operation, [stream.tobytes() for stream in streams], self.hardware)
        sums = WEIGHTED[operation.kind](operation, ifm, kernel) + bias
        check_accumulators(operation, sums)
        if operation.scale is not None:
            scale, shift = operation.scale.scale, operation.scale.shift
        return scaled_output(operation, sums, scale, shift)

    def _elementwise(self, operation: BlockOperation, ifm: Any) -> Any:
        """The result of an element-wise operation, in the shape of the output. It is
        requantised if the operation requires it; the zero point has not been added."""
        second, other = operation.second, None
        if second is not None:
            other = self._read(second.map, operation) if second.map else second.scalar
        return _rescaled(operation, arithmetic.elementwise(operation, ifm, other))

    def _product(self, operation: BlockOperation, ifm: Any) -> Any:
        """The requantised product of two matrices, of which the second has transposed rows."""
        assert operation.second is not None
        assert operation.second.map is not None
        found = arithmetic.product(operation, ifm, self._read(operation.second.map, operation))
        check_accumulators(operation, found)
        return _rescaled(operation, found)

    def _table(self, operation: BlockOperation) -> Any:
        """The bytes of an operation's look-up table. Raises BackendError if the table has
        not been copied to shared memory."""
        at = self.hardware.table_address + (operation.activation.table or 0)
        span = ByteSpan("table", SHARED, at, at + table_bytes(operation))
        table = self.memory.bytes_of(span, operation.where)
        if not self.copied[span.lower : span.upper].all():
            raise BackendError(
                "ethosu-111",
                f"its table is not in shared memory, bytes [{span.lower:#x}, {span.upper:#x})",
                where=operation.where,
                why="no copy wrote it, or, in 16 KiB of shared memory, a later operation without "
                "a table overwrote it",
                help="copy it into shared memory before (NPU_OP_DMA_START, internal)",
            )
        return table


def _is_bytes(region: Any) -> bool:
    """Whether `region` is a contiguous one-dimensional array of uint8."""
    if not isinstance(region, np.ndarray):
        return False
    return region.dtype == np.uint8 and region.ndim == 1 and region.flags.c_contiguous


OPERATIONS = ("NPU_OP_CONV", "NPU_OP_DEPTHWISE", "NPU_OP_POOL", "NPU_OP_ELEMENTWISE",
              "NPU_OP_DMA_START", "NPU_OP_RESIZE", "NPU_OP_BRANCH")  # fmt: skip


def _rescaled(operation: BlockOperation, values: Any) -> Any:
    """The values multiplied by the scale of the operation."""
    scale = operation.scale
    assert scale is not None
    return scaled_output(operation, values, scale.scale, scale.shift)


def _pooled(operation: BlockOperation, ifm: Any) -> Any:
    # Pooled elements are multiplied by the scale if there is one; otherwise, sums are divided by
    # the number of elements that are not padding.
    found = POOLED[operation.kind](operation, ifm)
    if operation.scale is not None:
        return _rescaled(operation, found)
    counts = arithmetic.window_counts(operation)
    sizes, places = np.unique(counts, return_inverse=True)
    if not sizes[0]:
        raise not_modelled("an average of a window that contains only padding", operation.where)
    scales = np.array([_reciprocal(int(size)) for size in sizes], np.int64)[places]
    scale, shift = (scales[..., k].reshape(counts.shape) for k in range(2))
    return scaled_output(operation, found, scale, shift)


def _reciprocal(count: int) -> tuple[int, int]:
    """(scale, shift) such that `scale` / 2 ** `shift` is slightly greater than 1 / `count`:
    the relative error is at most 2 ** -`POOLING_BITS` (2 ** -31)."""
    _, bits = frexp(count - 1)
    return ((1 << POOLING_BITS + bits) + (1 << bits)) // count, POOLING_BITS + bits
