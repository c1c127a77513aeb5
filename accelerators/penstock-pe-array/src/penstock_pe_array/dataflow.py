"""dataflow: the cycles that the array takes to compute a tile.

A layer with weights is a product of matrices: pixels x depth by depth x output channels, where the
depth consists of all taps and input channels.  Two of the three axes are mapped to the rows and
columns of the array, in folds of at most rows x columns; the third one is streamed, a step at a
time:

    dataflow             rows      columns            steps               held by the elements
    weight-stationary    depth     output channels    pixels              weights
    output-stationary    pixels    output channels    depth               sums
    input-stationary     depth     pixels             output channels     inputs

A depthwise layer is such a product for each channel, with a depth of its taps and one output
channel.  Where columns are output channels, they are channels: each column receives inputs of its
own.

Pools and sums use one row of elements: each column computes a channel of a pixel, and reads an
element of each tensor in a step.

The cycles of a fold of r rows, c columns and t steps:

    transfer    what the elements hold, row by row: loaded before the steps, or, if it is sums,
                stored after them
    steps       (t - 1) * step + r + c - 1: step s enters the array at cycle s * step, and reaches
                element (i, j) after i + j cycles
    latency     of the buffer of the transfer, and the largest of the other two

The time of a row of the transfer, and of a step, is that of the buffer that is busiest: its bytes
by its bytes per cycle.  With buffers that are fast enough, the sum without latencies is
2 r + c + t - 2, as in the analytical model of SCALE-Sim (Samajdar et al., 2018).
"""

from __future__ import annotations

from penstock_pe_array.hardware import Buffer, Dataflow, Hardware

SUM_BYTES = 4
"""The size of a sum in the output buffer."""


def product_cycles(hardware: Hardware, pixels: int, depth: int, outputs: int) -> int:
    """Return the cycles of a product of matrices: pixels x depth by depth x outputs."""
    if 0 in (pixels, depth, outputs):
        return 0
    match hardware.dataflow:
        case Dataflow.WEIGHT_STATIONARY:
            rows, columns, steps = depth, outputs, pixels
        case Dataflow.OUTPUT_STATIONARY:
            rows, columns, steps = pixels, outputs, depth
        case Dataflow.INPUT_STATIONARY:
            rows, columns, steps = depth, pixels, outputs
    return _folds_cycles(hardware, rows, columns, steps)


def depthwise_cycles(hardware: Hardware, pixels: int, taps: int, channels: int) -> int:
    """Return the cycles of a convolution of each channel with a window of `taps` elements."""
    if 0 in (pixels, taps, channels):
        return 0
    match hardware.dataflow:
        case Dataflow.WEIGHT_STATIONARY:
            return _folds_cycles(hardware, taps, channels, pixels, own_inputs=True)
        case Dataflow.OUTPUT_STATIONARY:
            return _folds_cycles(hardware, pixels, channels, taps, own_inputs=True)
        case Dataflow.INPUT_STATIONARY:
            return channels * _folds_cycles(hardware, taps, pixels, 1)


def vector_cycles(hardware: Hardware, pixels: int, taps: int, channels: int, inputs: int) -> int:
    """Return the cycles of a pool or a sum: each column computes a channel, a tap per step.

    taps: the elements of a window.
    inputs: the number of tensors, of which the first is in the input buffer and the second in that
        of the weights."""
    total = 0
    for used, count in _folds(channels, hardware.columns):
        sources = (hardware.input, hardware.weights)[:inputs]
        read = max(_busy(buffer, used) for buffer in sources)
        total += count * max(taps * read, _busy(hardware.output, SUM_BYTES * used))
    return pixels * total + max(hardware.input.latency_cycles, hardware.output.latency_cycles)


def _folds_cycles(
    hardware: Hardware, rows: int, columns: int, steps: int, *, own_inputs: bool = False
) -> int:
    """Return the cycles of all folds of a product whose axes have these extents."""
    total = 0
    for r, down in _folds(rows, hardware.rows):
        for c, across in _folds(columns, hardware.columns):
            total += down * across * fold_cycles(hardware, r, c, steps, own_inputs=own_inputs)
    return total


def _folds(extent: int, size: int) -> list[tuple[int, int]]:
    """Return (length, count) of the folds of an axis: full ones, and the rest."""
    full, rest = divmod(extent, size)
    return [(n, count) for n, count in ((size, full), (rest, 1)) if n and count]


def fold_cycles(
    hardware: Hardware, rows: int, columns: int, steps: int, *, own_inputs: bool = False
) -> int:
    """Return the cycles of a fold.

    own_inputs: whether each column receives inputs of its own, as in a depthwise layer."""
    x, w, y = hardware.input, hardware.weights, hardware.output
    sums = _busy(y, SUM_BYTES * columns)
    inputs = _busy(x, rows * columns if own_inputs else rows)
    match hardware.dataflow:
        case Dataflow.WEIGHT_STATIONARY:
            held, row, step, streamed = w, _busy(w, columns), max(inputs, sums), (x, y)
        case Dataflow.OUTPUT_STATIONARY:
            held, row, step, streamed = y, sums, max(inputs, _busy(w, columns)), (x, w)
        case Dataflow.INPUT_STATIONARY:
            held, row, step, streamed = x, _busy(x, columns), max(_busy(w, rows), sums), (w, y)
    latency = held.latency_cycles + max(buffer.latency_cycles for buffer in streamed)
    return latency + rows * row + (steps - 1) * step + rows + columns - 1


def _busy(buffer: Buffer, count: int) -> int:
    """Return the cycles in which the array reads or writes `count` bytes of a buffer; at least 1,
    because an element needs a cycle."""
    return max(1, -(-count // buffer.bytes_per_cycle))
