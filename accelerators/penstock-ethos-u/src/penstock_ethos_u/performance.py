"""performance: cycles of an operation for several block sizes, by the formulas of Arm's compiler
Vela. A block is the part of the output that the NPU computes at a time.

The multipliers compute the output block by block. While they compute a block, the output unit
scales and writes the accumulators of the previous one. Issuing the commands of a block takes time
as well, and so does the transfer of bytes through each memory port. The slowest of these
(multipliers, output unit, command issue, ports) determines the duration of the operation.

Vela applies these formulas to whole operations only, even if it computes them in stripes (intervals
of rows). penstock applies them to each stripe, so the costs of striping are included: each stripe
waits until the input of its first block is read and the output of its last block is written, has
partial blocks, and reads the weights again.

Source: Vela 5.2.0, `regor/architecture/ethosu55/ethos_u55_performance.cpp`, and `ethosu85`.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import cache, lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from penstock_ethos_u.blocks import (
    WINDOW_PART,
    Blocks,
    ComputeKind,
    Ints,
    NpuWork,
    fitting_blocks,
    input_blocks,
    micro_block,
)
from penstock_ethos_u.configurations import (
    BLOCK_CHANNELS,
    EthosUConfiguration,
    EthosUPort,
    MapShape,
    read_rate,
)

Floats = NDArray[np.float64]
Block = tuple[int, int, int]  # Rows, columns and channels of a block.
BIAS_BYTES = 10  # Bytes of the encoded bias, multiplier and shift of a channel.
BIAS_BURST = 256  # Bytes of biases that are read within one memory latency.
# Cycles by which a block size may be slower for each cycle in which it leaves a port to copies,
# which may run at the same time.
PORT_WEIGHT = 0.02
# Cycles before another product can be added to the same accumulator: in most configurations, and in
# the smallest.
SUM_DELAY, SLOW_SUM_DELAY = 2, 3


@dataclass(frozen=True, slots=True)
class Cycles:
    """Cycles of an operation on each unit of the NPU. Each field is an array with one element for
    each candidate block size.

    multipliers: cycles of the multipliers, plus the cycles of the output unit for the last block; 0
        for an element-wise operation.
    output: cycles of the output unit, which scales and writes results, plus the cycles of the
        multipliers for the first block unless the operation is element-wise.
    commands: cycles of issuing commands.
    npu: cycles of the operation if memory bandwidth is unlimited: the three units above work
        concurrently. Unless the operation is element-wise, these cycles include the time to read
        the input of the first block and to write the output of the last one.
    features: cycles of the port of the memory that holds tensors.
    constants: cycles of the port of the memory that holds constants. If there is a single port for
        both, `features` and `constants` each contain the sum."""

    multipliers: Floats
    output: Floats
    commands: Floats
    npu: Floats
    features: Floats
    constants: Floats

    @property
    def total(self) -> Floats:
        """Cycles of the whole operation: the maximum of `npu`, `features` and `constants`."""
        return np.maximum(self.npu, np.maximum(self.features, self.constants))

    def for_block(self, k: int) -> Cycles:
        """Return the cycles for the block size with index `k`; each field of the result is an array
        with one element."""
        return Cycles(*(getattr(self, field.name)[k : k + 1] for field in fields(self)))


def cycles(work: NpuWork, blocks: Blocks) -> Cycles:
    """Return the cycles of an operation on each unit of the NPU, for each block size.

    blocks: array of shape (n, 3): rows, columns and channels of each block size."""
    needed = input_blocks(work, blocks)
    if work.kind is ComputeKind.ELEMENTWISE:
        multipliers, output, commands, npu = _elementwise_cycles(work, blocks, needed)
    else:
        multipliers, output, commands, npu = _accumulating_cycles(work, blocks, needed)
    chip = work.chip
    features = feature_bytes(work, blocks, needed) / chip.features.bytes_per_cycle
    constants = constant_bytes(work, blocks) / _constant_rate(work)
    if chip.features is chip.constants:
        features = constants = features + constants
    if chip.memories is not None:  # Vela's figures for Ethos-U85 are whole
        npu, features, constants = (np.floor(each) for each in (npu, features, constants))
    return Cycles(multipliers, output, commands, npu, features, constants)


@cache
def fastest_block_and_cycles(
    work: NpuWork, depth: int | None = None
) -> tuple[Block, Cycles] | None:
    """Return the block size (rows, columns, channels) with the fewest cycles, and these cycles, or
    None if no block size fits the NPU's internal memory. Cycles of ports count, too, at
    `PORT_WEIGHT`. Among equally fast block sizes, the largest is selected.

    depth: required number of channels of a block; None permits any."""
    blocks, taken, ranks = _ranked(work)
    if depth is not None:
        ranks = ranks[blocks[ranks, 2] == depth]
    if not len(ranks):
        return None
    best = int(ranks[0])
    height, width, channels = blocks[best].tolist()
    return (height, width, channels), taken.for_block(best)


def best_block(work: NpuWork, depth: int | None = None) -> Block | None:
    """Return the block size (rows, columns, channels) with the fewest cycles, or None if no block
    size fits the NPU's internal memory.

    depth: required number of channels of a block; None permits any."""
    found = fastest_block_and_cycles(work, depth)
    return None if found is None else found[0]


@lru_cache(maxsize=64)
def _ranked(work: NpuWork) -> tuple[Blocks, Cycles, Ints]:
    """(block sizes, cycles, ranking) for the block sizes that fit the NPU's internal memory."""
    # The ranking lists the indices of block sizes in the order of increasing cycles, to which the
    # use of ports adds a little.  Among equally fast block sizes, larger ones come first.
    blocks = fitting_blocks(work)
    taken = cycles(work, blocks)
    total = taken.total + PORT_WEIGHT * (taken.features + taken.constants)
    total, size = np.round(total, 3), blocks.prod(axis=1)
    return blocks, taken, np.lexsort((-blocks[:, 2], -size, total))


def copying_cycles(chip: EthosUConfiguration, size_bytes: int) -> float:
    """Return the cycles of copying `size_bytes` bytes of constants to the memory that holds
    tensors."""
    return chip.constants.read_latency + size_bytes / copy_rate(chip)


def copy_rate(chip: EthosUConfiguration) -> float:
    """Return the bytes per cycle at which constants are copied."""
    port = chip.constants
    return read_rate(port, chip.memories.copy_words) if chip.memories else port.bytes_per_cycle


def _constant_rate(work: NpuWork) -> float:
    """The bytes per cycle at which an operation reads constants."""
    # Separate memories have buffers for weights and for biases, which are read at the same time.
    # Other constants are operands, which are read as features are.
    port, memories, total = work.chip.constants, work.chip.memories, work.constant_bytes
    if memories is None or not total or work.kind is ComputeKind.ELEMENTWISE:
        return port.bytes_per_cycle
    biases = min(total, BIAS_BYTES * -(-work.output.depth // BLOCK_CHANNELS) * BLOCK_CHANNELS)
    weights = (total - biases) / read_rate(port, memories.weight_words)
    if work.biases_in_tensor_memory and port is not work.chip.features:
        biases = 0
    slowest = max(weights, biases / read_rate(port, memories.bias_words))
    return total / max(slowest, total / port.bytes_per_cycle)


def feature_bytes(work: NpuWork, blocks: Blocks, needed: Blocks) -> Floats:
    """Return, for each block size, how many bytes of feature maps an operation reads and writes.
    Each burst counts as `EthosUPort.burst_bytes` bytes, the longest burst of the memory, because a
    shorter burst takes as long.

    blocks: array of shape (n, 3): rows, columns and channels of each block size.
    needed: their `input_blocks`."""
    out = _stored_shape(work.output, work.packed_output)
    written = _transfer_bytes(work, blocks, out.elements, read=False)
    if work.kind is ComputeKind.ELEMENTWISE:
        same = _stored_shape(work.output, work.packed_input)
        second = work.second_elements
        more = same.elements * work.binary if second is None else second
        return written + _transfer_bytes(work, needed, same.elements + more, read=True)
    count = _divide_up(np.array(work.output), _clipped(blocks, work.output))
    passes = count[:, 0] * count[:, 1] * (1 if work.equal_depth else count[:, 2])
    clipped = _clipped(needed, work.input)
    depth = _stored_shape(work.input, work.packed_input).depth
    read = clipped[:, 0] * clipped[:, 1] * depth * _window_parts(work) * passes
    return written + _transfer_bytes(work, needed, read, read=True)


def constant_bytes(work: NpuWork, blocks: Blocks) -> Floats:
    """Return, for each block size, the number of bytes of constants that an operation reads.

    If blocks divide the output into r intervals of rows and c intervals of columns, weights and
    biases are read r * c times. A constant second input is read once."""
    if work.kind is ComputeKind.ELEMENTWISE:
        return np.full(len(blocks), float(work.constant_bytes))
    count = _divide_up(np.array(work.output), _clipped(blocks, work.output))
    return (count[:, 0] * count[:, 1] * work.constant_bytes).astype(float)


def _accumulating_cycles(
    work: NpuWork, blocks: Blocks, needed: Blocks
) -> tuple[Floats, Floats, Floats, Floats]:
    """The fields `multipliers`, `output`, `commands` and `npu` of `Cycles` for an operation
    that accumulates over windows (a convolution or pool). Each is an array with one element for
    each block size in `blocks`."""
    out, block = np.array(work.output), _clipped(blocks, work.output)
    micro = micro_block(work)
    count = _divide_up(out, micro).prod() / _divide_up(block, micro).prod(axis=1)
    output = np.ceil(work.rate * block.prod(axis=1))
    done = output
    if work.kind is not ComputeKind.POOLING:
        home = work.chip.features if work.biases_in_tensor_memory else work.chip.constants
        latency = home.read_latency
        done = np.maximum(done, BIAS_BYTES * block[:, 2] * latency / BIAS_BURST)
    busy = _multiplier_cycles(work, blocks, needed).astype(float)
    first, last = _first_input(work, needed), _last_output(work, blocks)
    waiting = np.where(count > 1, np.abs(last - first), 0)
    commands = (waiting + busy + done) / 4
    mac, out_cycles = np.maximum(busy, commands), np.maximum(done, commands)
    total = np.where(mac > out_cycles, mac * count + out_cycles, out_cycles * count + mac)
    # The output unit processes a block after the multipliers have computed it.  So the cycles of
    # each unit include the time of the other for one block.
    return busy * count + done, output * count + busy, commands * count, total + first + last


def _elementwise_cycles(
    work: NpuWork, blocks: Blocks, needed: Blocks
) -> tuple[Floats, Floats, Floats, Floats]:
    """The fields `multipliers`, `output`, `commands` and `npu` of `Cycles` for an
    element-wise operation. Each is an array with one element for each block size in `blocks`;
    `multipliers` contains zeros."""
    elements = _stored_shape(work.output, work.packed_output).elements
    output = np.full(len(blocks), np.ceil(work.rate * elements))
    block = np.maximum(_first_input(work, needed), _last_output(work, blocks))
    commands = np.ceil((block / blocks.prod(axis=1) + work.rate) / 4 * elements)
    return np.zeros(len(blocks)), output, commands, np.maximum(output, commands)


def _multiplier_cycles(work: NpuWork, blocks: Blocks, needed: Blocks) -> Ints:
    block, needed = _clipped(blocks, work.output), _clipped(needed, work.input)
    micro = micro_block(work)
    pieces = _divide_up(block, micro)
    area = pieces[:, 0] * pieces[:, 1]
    weights = 4 * micro.depth // work.chip.decoders
    # Products of a tap are computed 8 input channels at a time, in 4 cycles for those of a block.
    deep = needed[:, 2] // 8 if work.chip.memories else 4
    total = np.zeros(len(blocks), np.int64)
    for taps in _window_part_taps(work):
        steps = 1
        rounds = np.ones(len(blocks), np.int64)
        if work.kind is ComputeKind.POOLING:
            busy = max(4, taps) * area * pieces[:, 2] * (1 if work.chip.smallest else 4)
        elif work.part_kernel or work.kind is ComputeKind.DEPTHWISE:
            steps = -(-taps // 4)
            busy = np.maximum(weights, 4 * area) * steps * pieces[:, 2]
        else:
            steps = taps
            busy = np.maximum(weights, deep * area) * steps * pieces[:, 2]
        if work.part_kernel:
            rounds = -(-needed[:, 2] // 8)
        total += (busy + _delay(work, area, pieces[:, 2], steps)) * rounds
    if work.kind is ComputeKind.CONVOLUTION:
        total *= -(-work.input.depth // needed[:, 2])
    return total // work.chip.cores


def _delay(work: NpuWork, area: Ints, depth: Ints, steps: int) -> Ints:
    """Return, for each block size, how many cycles the multipliers stall because of the latency of
    additions, while they process one block and one part of the window (`_window_part_taps`)."""
    # The multipliers compute a micro block of the output at a time.  If a block is a single micro
    # block along rows and columns, consecutive products are added to the same accumulators, so each
    # must wait for the previous addition.  Larger blocks cause no stalls.
    delay = SLOW_SUM_DELAY if work.chip.smallest else SUM_DELAY
    waiting = np.where(depth == 1, steps, (steps - 1) * depth)
    return np.where(area == 1, delay * waiting, 0)


def _window_part_taps(work: NpuWork) -> list[int]:
    """The number of elements in each part of the window. The NPU divides a window into parts
    of at most `WINDOW_PART` (8) rows and columns and processes them one after the other. A window
    of 9 rows and 3 columns has the parts [24, 3]."""
    rows, columns = (
        [min(WINDOW_PART, size - k) for k in range(0, size, WINDOW_PART)] for size in work.window
    )
    return [r * c for c in columns for r in rows]


def _window_parts(work: NpuWork) -> int:
    """The number of parts into which the NPU divides a window. A part has at most
    `WINDOW_PART` (8) rows and columns."""
    return len(_window_part_taps(work))


def _first_input(work: NpuWork, needed: Blocks) -> Floats:
    """Return, for each input block, the cycles of reading it first, including the latency of the
    memory."""
    port, elements = work.chip.features, _clipped(needed, work.input).prod(axis=1)
    bytes = _transfer_bytes(work, needed, elements, read=True)
    return port.read_latency + np.floor(bytes / port.bytes_per_cycle)


def _last_output(work: NpuWork, blocks: Blocks) -> Floats:
    """Return, for each block size, the cycles of writing the output of the last block, including
    the latency of the memory."""
    port, elements = work.chip.features, _clipped(blocks, work.output).prod(axis=1)
    bytes = _transfer_bytes(work, blocks, elements, read=False)
    return port.write_latency + np.floor(bytes / port.bytes_per_cycle)


def _transfer_bytes(work: NpuWork, blocks: Blocks, elements: Ints | int, *, read: bool) -> Floats:
    """Return, for each block size, the size of a transfer of feature maps in bytes, where each
    burst counts as `EthosUPort.burst_bytes` bytes, the longest burst of the memory: a shorter burst
    takes as long. For example, 1000 bytes in bursts of 16 count as 2000 if the longest burst has 32
    bytes.

    blocks: the blocks of the output or, if `read`, of the input."""
    port: EthosUPort = work.chip.features
    if read:
        burst = _read_burst(work.packed_input, blocks, work.input)
    else:
        burst = _write_burst(work.packed_output, blocks, work.output, work.chip.cores)
    return np.floor(elements * port.burst_bytes / np.minimum(port.burst_bytes, burst))


def _read_burst(packed: bool, blocks: Blocks, shape: MapShape) -> Ints:
    """Return, for each block size, how many contiguous bytes of memory the NPU reads at a time."""
    if packed:
        return _packed_burst(blocks, shape)
    whole = blocks[:, 2] == shape.depth
    return np.where(whole, blocks[:, 1] * blocks[:, 2], blocks[:, 2])


def _write_burst(packed: bool, blocks: Blocks, shape: MapShape, cores: int) -> Ints:
    """Return, for each block size, how many contiguous bytes of memory the NPU writes at a time."""
    if packed:
        return _packed_burst(blocks, shape, cores)
    whole = (blocks[:, 2] == shape.depth) & (blocks[:, 2] <= BLOCK_CHANNELS)
    most = BLOCK_CHANNELS * cores
    return np.where(whole, blocks[:, 1] * blocks[:, 2], np.minimum(most, blocks[:, 2]))


def _packed_burst(blocks: Blocks, shape: MapShape, cores: int = 1) -> Ints:
    """Return, for each block size, how many bytes of a block are contiguous in memory in layout
    NHCWB16."""
    whole = BLOCK_CHANNELS * shape.width == blocks[:, 2]
    return blocks[:, 1] * np.where(whole, blocks[:, 2], BLOCK_CHANNELS * cores)


def _stored_shape(shape: MapShape, packed: bool) -> MapShape:
    """The shape of a tensor in memory. If `packed`, channels are rounded up to a multiple of
    16."""
    return (
        shape._replace(depth=-(-shape.depth // BLOCK_CHANNELS) * BLOCK_CHANNELS)
        if packed
        else shape
    )


def _clipped(blocks: Blocks, shape: MapShape) -> Blocks:
    """Return block sizes with rows, columns and channels limited to those of `shape`."""
    return np.minimum(blocks, np.array(shape))


def _divide_up(whole: Any, part: Any) -> Any:
    return -(-np.asarray(whole) // np.asarray(part))
