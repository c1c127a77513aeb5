"""tiles: a call as a loop nest, its tiles in the buffers, and what they cost.

Of several tilings, each of which moves the fewest bytes of those that divide some axes
(`LeastTraffic`), a fast one is taken.  The output buffer holds a sum for each element of a tile;
its size is counted in sums.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import lru_cache

from penstock.uma import (
    WEIGHTS,
    Breakdown,
    CapacityError,
    Copies,
    Layer,
    LayerOperand,
    LeastTraffic,
    Offloaded,
    Region,
    Scratchpads,
    Tiling,
    matrix_layer,
)
from penstock_pe_array.dataflow import (
    SUM_BYTES,
    depthwise_cycles,
    product_cycles,
    vector_cycles,
)
from penstock_pe_array.hardware import GLOBAL_BUFFER, Dataflow, Hardware, hardware_of
from penstock_pe_array.timeline import Bank, BufferNumber, Timeline

PARAMETER_BYTES = 12
"""Bias, multiplier and shift of an output channel, as int32."""
MOST_TILES = 4096
"""The most tiles of a layer; a stream states each of them."""
SLACK = 1.02
"""Tilings within this factor of the fastest count as equally fast: fewer tiles need less flash."""
MOST_EXTENTS = 64
"""About the most sizes of tiles along channels that the search tries."""
DIVIDED = tuple(
    frozenset(axes) for axes in (
        ("n", "h", "w", "c", "sum"), ("n", "h", "w"), ("n", "h", "c"), ("c", "sum"), ("h", "sum"),
    )
)  # fmt: skip
"""The choices of axes that tiles may divide, of which the fastest is taken."""
WEIGHTED = ("Conv2D", "DepthwiseConv2D", "FullyConnected")
"""Operators with weights and parameters."""


def buffers(hardware: Hardware) -> Scratchpads:
    """Return the buffers as a tiler takes them, the output buffer in sums."""
    return Scratchpads.separate(
        hardware.input.size_bytes,
        hardware.weights.size_bytes,
        hardware.output.size_bytes // SUM_BYTES,
        double_buffered=hardware.banks == 2,
        spills=False,
        copies=Copies(
            hardware.memory_bytes_per_cycle,
            hardware.memory_run_cycles,
            hardware.memory_latency_cycles,
        ),
    )


def bank_size(hardware: Hardware, buffer: BufferNumber) -> int:
    """Return the size of a bank: in bytes, or in sums if it is of the output buffer."""
    return buffers(hardware).scratchpads[buffer].size_bytes // hardware.banks


def layer_on_array(offloaded: Offloaded, rows: int | None = None) -> Layer:
    """Return the loop nest of a call that computes `rows` output rows, or all rows.

    Biases are parameters, which are in no buffer.  The second operand of a sum is in the buffer of
    weights."""
    main = offloaded.main
    if main.kind == "FullyConnected":
        layer = matrix_layer(main.op, main.site, main.name)
        layer = layer if rows is None else layer.stripe("n", rows)
    else:
        layer = offloaded.layer(rows)
    if main.kind in WEIGHTED:
        layer = replace(layer, inputs=layer.inputs[:2])
    if main.kind == "Add":
        x, other = layer.inputs
        layer = replace(layer, inputs=(x, replace(other, role=WEIGHTS)))
    return replace(layer, output=replace(layer.output, partial_bytes=1))


def tiling_of(offloaded: Offloaded, rows: int | None = None) -> Tiling:
    """Return the tiling of a call that computes `rows` output rows, or all rows.

    Raises CapacityError if no tile fits the buffers."""
    hardware, layer = hardware_of(offloaded.target), layer_on_array(offloaded, rows)
    return _tiling(hardware, Work.of(offloaded), layer)


@lru_cache(maxsize=4096)
def _tiling(hardware: Hardware, work: Work, layer: Layer) -> Tiling:
    """Return the tiling with the fewest tiles of those that are about as fast as the fastest.

    Each candidate moves the fewest bytes of the tilings that divide only some axes.  Tiles fill the
    array where such tiles fit.  It is not known yet which tensors are in the global buffer, so the
    time is that with all tensors in main memory."""
    shaped = _in_folds(hardware, work, layer)
    found = _candidates(hardware, shaped) or _candidates(hardware, _in_steps(layer))
    if not found:
        return LeastTraffic().tile(_in_steps(layer), buffers(hardware))
    few = [tiling for tiling in found if tiling.count <= MOST_TILES] or found[:1]
    ends = [_timeline(hardware, work, tiling).end for tiling in few]
    fast = [t for t, end in zip(few, ends, strict=True) if end <= SLACK * min(ends)]
    return min(fast, key=lambda tiling: tiling.count)


def _candidates(hardware: Hardware, layer: Layer) -> list[Tiling]:
    """Return the tiling that moves the fewest bytes for each choice of axes in `DIVIDED`."""
    names, found = {axis.name for axis in layer.axes}, list[Tiling]()
    for only in dict.fromkeys(frozenset(axes & names) for axes in DIVIDED):
        with suppress(CapacityError):
            found.append(LeastTraffic(only).tile(layer, buffers(hardware)))
    return found


def _in_folds(hardware: Hardware, work: Work, layer: Layer) -> Layer:
    """Return a layer whose tiles fill rows and columns of the array with channels."""
    stationary = hardware.dataflow
    if stationary is not Dataflow.INPUT_STATIONARY:
        layer = layer.with_axis("c", least=hardware.columns, step=hardware.columns)
    if layer.reduced and stationary is not Dataflow.OUTPUT_STATIONARY:
        channels = -(-hardware.rows // work.taps)
        layer = layer.with_axis("sum", least=channels, step=channels)
    return _in_steps(layer)


def _in_steps(layer: Layer) -> Layer:
    """Return a layer whose tiles have at most about `MOST_EXTENTS` sizes along channels."""
    for name in ("c", *(axis.name for axis in layer.reduced)):
        axis = layer.axis(name)
        multiples = -(-axis.extent // (axis.step * MOST_EXTENTS))
        layer = layer.with_axis(name, step=axis.step * multiples)
    return layer


def why_no_tile(offloaded: Offloaded) -> str:
    """Return why the array cannot compute a layer tile by tile, or "" if it can."""
    try:
        count = tiling_of(offloaded).count
    except CapacityError as error:
        return error.what
    return f"there are {count} tiles, at most {MOST_TILES} are run" if count > MOST_TILES else ""


def cycles(offloaded: Offloaded, rows: int) -> Breakdown:
    """Return the cycles of a call that computes `rows` output rows, and those in which the array
    and the channels of memory work."""
    hardware, layer = hardware_of(offloaded.target), layer_on_array(offloaded, rows)
    total, busy = _timed(hardware, Work.of(offloaded), layer, _inside(offloaded))
    peak = hardware.rows * hardware.columns
    return Breakdown(total, dict(busy), peak if offloaded.macs(rows) else None)


def traffic(offloaded: Offloaded, first: int, end: int) -> Mapping[str, int]:
    """Return the bytes that a call for output rows [first, end) moves, by tensor."""
    tiling, found = tiling_of(offloaded, end - first), Counter[str]()
    for moved in tiling.moved:
        found[moved.operand.role] += moved.bytes
    if offloaded.main.kind in WEIGHTED:
        finished = math.prod(
            len(tiling.tiles[axis.name])
            for axis in tiling.layer.axes
            if axis.name != "c" and axis not in tiling.layer.reduced
        )
        found["parameters"] = PARAMETER_BYTES * finished * tiling.layer.axis("c").extent
    return found


def _inside(offloaded: Offloaded) -> frozenset[str]:
    """Return the operands of the loop nest that are in the global buffer, by name."""
    memories = offloaded.memory_assignment
    if not memories:
        return frozenset()
    found = {"output": memories[-1]}
    for k, value in enumerate(offloaded.main.inputs):
        if value.data is None:
            found[f"input {k}"] = memories[offloaded.input_index(k)]
    return frozenset(name for name, memory in found.items() if memory == GLOBAL_BUFFER)


@dataclass(frozen=True, slots=True)
class Work:
    """What the array computes: the kind of the operator, and the taps of its window."""

    kind: str
    taps: int

    @staticmethod
    def of(offloaded: Offloaded) -> Work:
        """Return the work of a node."""
        p = offloaded.parameters
        return Work(offloaded.main.kind, p.get("kernel_h", 1) * p.get("kernel_w", 1))

    def cycles(self, hardware: Hardware, pixels: int, depth: int, channels: int) -> int:
        """Return the cycles of a tile of `pixels` x `channels` output elements, each the sum of
        `depth` channels."""
        if self.kind == "DepthwiseConv2D":
            return depthwise_cycles(hardware, pixels, self.taps, channels)
        if self.kind not in WEIGHTED:
            return vector_cycles(hardware, pixels, self.taps, channels, 1 + (self.kind == "Add"))
        return product_cycles(hardware, pixels, self.taps * depth, channels)


@lru_cache(maxsize=16384)
def _timed(
    hardware: Hardware, work: Work, layer: Layer, inside: frozenset[str]
) -> tuple[float, tuple[tuple[str, float], ...]]:
    """Return the time of a call, and the busy cycles by unit."""
    timeline = _timeline(hardware, work, _tiling(hardware, work, layer), inside)
    return timeline.end, tuple(timeline.busy.items())


def _timeline(
    hardware: Hardware, work: Work, tiling: Tiling, inside: frozenset[str] = frozenset()
) -> Timeline:
    """Return the timeline of a call.

    inside: the operands that are in the global buffer."""
    layer, timeline = tiling.layer, Timeline()
    held = {
        moved.operand.name: _Held.of(hardware, tiling, k) for k, moved in enumerate(tiling.moved)
    }
    for step in tiling.steps():
        for load in step.loads:
            tile = held[load.operand.name]
            tile.advance()
            timeline.load(tile.banks, copy_cycles(hardware, load.operand, load.region, inside))
        box = {name: upper - lower for name, (lower, upper) in step.box.items()}
        sums = [axis.name for axis in layer.reduced]
        finish = all(step.box[name][1] == layer.axis(name).extent for name in sums)
        channels, depth = box.pop("c"), math.prod(box.pop(name) for name in sums)
        if finish and work.kind in WEIGHTED:
            timeline.parameters(parameter_cycles(hardware, channels))
        inputs = [bank for operand in layer.inputs for bank in held[operand.name].banks]
        outputs = held[layer.output.name]
        if outputs.number < 0:
            outputs.advance()
        pixels = math.prod(box.values())
        timeline.compute(inputs, outputs.banks, work.cycles(hardware, pixels, depth, channels))
        for store in step.stores:
            timeline.store(
                outputs.banks, copy_cycles(hardware, store.operand, store.region, inside)
            )
            outputs.advance()
    return timeline


class _Held:
    """The banks that the current tile of a tensor occupies."""

    def __init__(self, buffer: BufferNumber, whole: tuple[Bank, ...], *, alternates: bool) -> None:
        self.number = -1
        self._buffer, self._whole, self._alternates = buffer, whole, alternates

    @staticmethod
    def of(hardware: Hardware, tiling: Tiling, k: int) -> _Held:
        """Return the banks of operand `k` of a tiling, before the first tile."""
        moved = tiling.moved[k]
        buffer = BufferNumber(
            [memory.roles[0] for memory in tiling.scratchpads.scratchpads].index(moved.operand.role)
        )
        count = -(-moved.held_bytes // bank_size(hardware, buffer))
        alternates = tiling.scratchpads.double_buffered and moved.tiles > 1
        return _Held(
            buffer, tuple((buffer.value, bank) for bank in range(count)), alternates=alternates
        )

    def advance(self) -> None:
        """Go to the next tile."""
        self.number += 1

    @property
    def banks(self) -> tuple[Bank, ...]:
        """The banks of the current tile."""
        return ((self._buffer.value, self.number % 2),) if self._alternates else self._whole


def copy_cycles(
    hardware: Hardware, operand: LayerOperand, region: Region, inside: frozenset[str]
) -> float:
    """Return the cycles of a copy of a region of a tensor whose rows are contiguous.

    inside: the tensors that are in the global buffer."""
    shape = region.shape
    parts = [k for k, (n, size) in enumerate(zip(shape, operand.shape, strict=True)) if n < size]
    runs = math.prod(shape[: parts[-1]]) if parts else 1
    size_bytes = math.prod(shape) * operand.element_bytes
    return transfer_cycles(hardware, runs, size_bytes, inside=operand.name in inside)


def transfer_cycles(
    hardware: Hardware,
    runs: int,
    size_bytes: int,
    *,
    inside: bool = False,
    queued: bool = False,
) -> float:
    """Return the cycles of a copy of `size_bytes` bytes in `runs` runs.

    inside: whether it copies from or to the global buffer, instead of memory.
    queued: whether it continues the copy of a tile, so that its latency is hidden."""
    own = hardware.global_buffer
    if inside:
        return (0 if queued else own.latency_cycles) + size_bytes / own.bytes_per_cycle
    latency = 0 if queued else hardware.memory_latency_cycles
    moved = size_bytes / hardware.memory_bytes_per_cycle
    return latency + hardware.memory_run_cycles * runs + moved


def parameter_cycles(hardware: Hardware, channels: int) -> float:
    """Return the cycles in which the parameters of output channels are read."""
    return transfer_cycles(hardware, 1, PARAMETER_BYTES * channels)
