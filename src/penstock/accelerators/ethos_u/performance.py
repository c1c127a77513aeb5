"""performance: cycles of an operation, by the formulas of Arm's compiler.

The multipliers work block by block; what they summed up is scaled and written while they compute
the next block; and neither can go faster than commands are handed out.  Meanwhile bytes come and go
through the memories' ports.  The slowest of all says how long an operation takes.

Vela asks these formulas about whole operations only, also where it computes them stripe by stripe.
Asked about a stripe, they know what stripes cost: the first block's input and the last one's output
are waited for, blocks are cut, and weights are fetched once more for each.

Source: Vela 5.2.0, `regor/architecture/ethosu55/ethos_u55_performance.cpp`; facts, in our words.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import cache, lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from penstock.accelerators.ethos_u.blocks import (
    WINDOW_PART,
    Blocks,
    Ints,
    fitting_blocks,
    input_blocks,
)
from penstock.accelerators.ethos_u.configurations import BRICK, Configuration, MemoryPort, Shape
from penstock.accelerators.ethos_u.work import Kind, Work

Floats = NDArray[np.float64]
Block = tuple[int, int, int]
"""Rows, columns and channels."""
BIAS_BYTES = 10
"""Of a channel: bias, multiplier and shift."""
BIAS_BURST = 256
SUM_DELAY, SLOW_SUM_DELAY = 2, 3
"""Cycles until a sum can be added to again, of most configurations and of the smallest."""


@dataclass(frozen=True, slots=True)
class Cycles:
    """For each block, how long an operation takes in blocks of that shape: the multipliers, what
    is behind them, handing out commands, all these together, features, constants, and in all."""

    multipliers: Floats
    output: Floats
    commands: Floats
    npu: Floats
    features: Floats
    constants: Floats

    @property
    def total(self) -> Floats:
        return np.maximum(self.npu, np.maximum(self.features, self.constants))

    def of(self, k: int) -> Cycles:
        """Of block number k alone."""
        return Cycles(*(getattr(self, field.name)[k : k + 1] for field in fields(self)))


def cycles(work: Work, blocks: Blocks) -> Cycles:
    """Of the operation, in blocks of each shape."""
    if work.kind is Kind.ELEMENTWISE:
        multipliers, output, commands, npu = _elementwise(work, blocks)
    else:
        multipliers, output, commands, npu = _summing(work, blocks)
    chip = work.chip
    features = feature_bytes(work, blocks) / chip.features.bytes_per_cycle
    constants = constant_bytes(work, blocks) / chip.constants.bytes_per_cycle
    if chip.features is chip.constants:
        features = constants = features + constants
    return Cycles(multipliers, output, commands, npu, features, constants)


@cache
def soonest(work: Work, depth: int | None = None) -> tuple[Block, Cycles] | None:
    """The block in which the operation is done soonest, the largest of equals, and what it takes
    there; of so many channels, if said.  None where none fits."""
    blocks, taken, ranks = _ranked(work)
    if depth is not None:
        ranks = ranks[blocks[ranks, 2] == depth]
    if not len(ranks):
        return None
    best = int(ranks[0])
    height, width, channels = blocks[best].tolist()
    return (height, width, channels), taken.of(best)


def best_block(work: Work, depth: int | None = None) -> Block | None:
    """The block alone."""
    found = soonest(work, depth)
    return None if found is None else found[0]


@lru_cache(maxsize=64)
def _ranked(work: Work) -> tuple[Blocks, Cycles, Ints]:
    """Every block that fits, how long the operation takes in each, and their numbers, the best one
    first."""
    blocks = fitting_blocks(work)
    taken = cycles(work, blocks)
    total, size = np.round(taken.total, 3), blocks.prod(axis=1)
    return blocks, taken, np.lexsort((-blocks[:, 2], -size, total))


def copying_cycles(chip: Configuration, size_bytes: int) -> float:
    """Cycles in which constants are copied into the memory of features."""
    return chip.constants.read_latency + size_bytes / chip.constants.bytes_per_cycle


def feature_bytes(work: Work, blocks: Blocks) -> Floats:
    """Bytes of tensors that are read and written, with what bursts shorter than the memory's
    waste."""
    out = _stored(work.output, work.packed_output)
    written = _moved(work, blocks, out.elements, read=False)
    if work.kind is Kind.ELEMENTWISE:
        same = _stored(work.output, work.packed_input)
        second = work.second_elements
        more = same.elements * work.binary if second is None else second
        return written + _moved(work, blocks, same.elements + more, read=True)
    count = _ceil(np.array(work.output), _clipped(blocks, work.output))
    passes = count[:, 0] * count[:, 1] * (1 if work.equal_depth else count[:, 2])
    needed = _clipped(input_blocks(work, blocks), work.input)
    depth = _stored(work.input, work.packed_input).depth
    read = needed[:, 0] * needed[:, 1] * depth * _window_parts(work) * passes
    return written + _moved(work, blocks, read, read=True)


def constant_bytes(work: Work, blocks: Blocks) -> Floats:
    """Bytes of weights and biases: all of them, for each column of blocks; of a second input
    that is constant, once."""
    if work.kind is Kind.ELEMENTWISE:
        return np.full(len(blocks), float(work.constant_bytes))
    count = _ceil(np.array(work.output), _clipped(blocks, work.output))
    return (count[:, 0] * count[:, 1] * work.constant_bytes).astype(float)


def _summing(work: Work, blocks: Blocks) -> tuple[Floats, Floats, Floats, Floats]:
    """Multipliers, output, commands and all together, where windows are summed up."""
    out, block = np.array(work.output), _clipped(blocks, work.output)
    micro = _micro_block(work)
    count = _ceil(out, micro).prod() / _ceil(block, micro).prod(axis=1)
    output = np.ceil(work.rate * block.prod(axis=1))
    done = output
    if work.kind is not Kind.POOLING:
        home = work.chip.features if work.biases_near else work.chip.constants
        latency = home.read_latency
        done = np.maximum(done, BIAS_BYTES * block[:, 2] * latency / BIAS_BURST)
    busy = _multiplier_cycles(work, blocks).astype(float)
    first, last = _first_input(work, blocks), _last_output(work, blocks)
    waiting = np.where(count > 1, np.abs(last - first), 0)
    commands = (waiting + busy + done) / 4
    mac, out_cycles = np.maximum(busy, commands), np.maximum(done, commands)
    total = np.where(mac > out_cycles, mac * count + out_cycles, out_cycles * count + mac)
    return busy * count + done, output * count + busy, commands * count, total + first + last


def _elementwise(work: Work, blocks: Blocks) -> tuple[Floats, Floats, Floats, Floats]:
    """The same, element by element."""
    elements = _stored(work.output, work.packed_output).elements
    output = np.full(len(blocks), np.ceil(work.rate * elements))
    block = np.maximum(_first_input(work, blocks), _last_output(work, blocks))
    commands = np.ceil((block / blocks.prod(axis=1) + work.rate) / 4 * elements)
    return np.zeros(len(blocks)), output, commands, np.maximum(output, commands)


def _multiplier_cycles(work: Work, blocks: Blocks) -> Ints:
    """Cycles of the multipliers for one block."""
    block, needed = _clipped(blocks, work.output), _clipped(input_blocks(work, blocks), work.input)
    micro = _micro_block(work)
    pieces = _ceil(block, micro)
    area = pieces[:, 0] * pieces[:, 1]
    weights = 4 * micro.depth
    total = np.zeros(len(blocks), np.int64)
    for taps in _parts(work):
        steps = 1
        rounds = np.ones(len(blocks), np.int64)
        if work.kind is Kind.POOLING:
            busy = max(4, taps) * area * pieces[:, 2] * (1 if work.chip.smallest else 4)
        else:
            steps = -(-taps // 4) if work.part_kernel or work.kind is Kind.DEPTHWISE else taps
            busy = np.maximum(weights, 4 * area) * steps * pieces[:, 2]
        if work.part_kernel:
            rounds = -(-needed[:, 2] // 8)
        total += (busy + _delay(work, area, pieces[:, 2], steps)) * rounds
    if work.kind is Kind.CONVOLUTION:
        total *= -(-work.input.depth // needed[:, 2])
    return total


def _delay(work: Work, area: Ints, depth: Ints, steps: int) -> Ints:
    """Cycles for which sums of one micro block are waited for."""
    delay = SLOW_SUM_DELAY if work.chip.smallest else SUM_DELAY
    waiting = np.where(depth == 1, steps, (steps - 1) * depth)
    return np.where(area == 1, delay * waiting, 0)


def _parts(work: Work) -> list[int]:
    """Taps of each part of the window."""
    rows, columns = (
        [min(WINDOW_PART, size - k) for k in range(0, size, WINDOW_PART)] for size in work.window
    )
    return [r * c for c in columns for r in rows]


def _window_parts(work: Work) -> int:
    return len(_parts(work))


def _micro_block(work: Work) -> Shape:
    """The smallest piece; in one row with a flat window it lies along the row."""
    micro, out = work.chip.micro_block, work.output
    flat = work.kind is Kind.CONVOLUTION and (out.height, work.window.height) == (1, 1)
    return Shape(1, 4, micro.depth) if micro.height == 2 and flat and out.width % 2 == 0 else micro


def _first_input(work: Work, blocks: Blocks) -> Floats:
    """Cycles until the input of a block is there."""
    port, shape = work.chip.features, work.input
    elements = _clipped(input_blocks(work, blocks), shape).prod(axis=1)
    bytes = _moved(work, blocks, elements, read=True)
    return port.read_latency + np.floor(bytes / port.bytes_per_cycle)


def _last_output(work: Work, blocks: Blocks) -> Floats:
    """Cycles until the output of a block is written."""
    port, elements = work.chip.features, _clipped(blocks, work.output).prod(axis=1)
    bytes = _moved(work, blocks, elements, read=False)
    return port.write_latency + np.floor(bytes / port.bytes_per_cycle)


def _moved(work: Work, blocks: Blocks, elements: Ints | int, *, read: bool) -> Floats:
    """Bytes that so many elements of the input or output take of the port's time."""
    port: MemoryPort = work.chip.features
    if read:
        burst = _read_burst(work.packed_input, input_blocks(work, blocks), work.input)
    else:
        burst = _write_burst(work.packed_output, blocks, work.output)
    return np.floor(elements * port.burst_bytes / np.minimum(port.burst_bytes, burst))


def _read_burst(packed: bool, blocks: Blocks, shape: Shape) -> Ints:
    """Bytes that lie together of a block that is read."""
    if packed:
        return _packed_burst(blocks, shape)
    whole = blocks[:, 2] == shape.depth
    return np.where(whole, blocks[:, 1] * blocks[:, 2], blocks[:, 2])


def _write_burst(packed: bool, blocks: Blocks, shape: Shape) -> Ints:
    """Bytes that lie together of a block that is written."""
    if packed:
        return _packed_burst(blocks, shape)
    whole = (blocks[:, 2] == shape.depth) & (blocks[:, 2] <= BRICK)
    return np.where(whole, blocks[:, 1] * blocks[:, 2], np.minimum(BRICK, blocks[:, 2]))


def _packed_burst(blocks: Blocks, shape: Shape) -> Ints:
    """Bytes that lie together of a block of bricks."""
    whole = BRICK * shape.width == blocks[:, 2]
    return blocks[:, 1] * np.where(whole, blocks[:, 2], BRICK)


def _stored(shape: Shape, packed: bool) -> Shape:
    """The shape with the channels that fill up the last brick."""
    return shape._replace(depth=-(-shape.depth // BRICK) * BRICK) if packed else shape


def _clipped(blocks: Blocks, shape: Shape) -> Blocks:
    return np.minimum(blocks, np.array(shape))


def _ceil(whole: Any, part: Any) -> Any:
    return -(-np.asarray(whole) // np.asarray(part))
