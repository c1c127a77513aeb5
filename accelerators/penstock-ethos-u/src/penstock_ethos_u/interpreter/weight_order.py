"""The order of weights in the streams that the hardware reads.

The nested loops over weights are, from the outermost: blocks of output channels, blocks of input
channels, parts of the kernel (groups of taps), micro blocks (small groups of channels). Incomplete
micro blocks and parts are padded with zeros. Source: Arm's weight encoder, mlw_encode.c, and for
Ethos-U85 ethos_u85_weight_encoder.cpp of Vela.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from penstock.uma import Array
from penstock_ethos_u.interpreter.operation import KernelWindow

# For 8-bit inputs, the taps of a part of a kernel are padded to a multiple of this number, in
# depthwise and part-kernel-first order.
PARALLEL_TAPS = 4
WIDE_PARALLEL_TAPS = 2  # The corresponding number for 16-bit inputs in part-kernel-first order.
# In Ethos-U85: output channels that a decoder handles before the next one does; input channels that
# multipliers read at a time, and with sparse weights; taps to whose multiple a part is padded in
# part-kernel-first order of 8-bit inputs, and otherwise, also in depthwise order.
DEALT = 4
U85_INPUTS, U85_SPARSE_INPUTS = 8, 16
U85_TAPS, U85_MANY_TAPS = 5, 10


@dataclass(frozen=True, slots=True)
class WeightLayout:
    """The parameters that determine the order of weights in a stream.

    outputs, inputs: number of output and input channels; `inputs` is 1 for a depthwise convolution.
    kernel: the window of the operation.
    depthwise: whether the operation is a depthwise convolution.
    block: maximum number of output channels in a block of the output.
    input_block: maximum number of input channels in a block of the input; 1 if depthwise.
    micro, input_micro: output and input channels of a micro block, the unit of computation of the
        multipliers.
    bits: number of bits of an input element.
    sparse: whether at least two of four consecutive input channels have a weight of 0.
    macs: multiply-accumulates per cycle, of all cores.
    core, cores: number of the core or decoder that reads the stream, and number of all."""

    outputs: int
    inputs: int
    kernel: KernelWindow
    depthwise: bool
    block: int
    input_block: int
    micro: int
    input_micro: int
    bits: int
    macs: int
    sparse: bool = False
    core: int = 0
    cores: int = 1

    @property
    def nowhere(self) -> int:
        """The place of the zeros that pad a stream. The place of a weight is its flat index in an
        array of shape (height, width, inputs, outputs); this is the number of its elements."""
        return self.kernel.height * self.kernel.width * self.inputs * self.outputs

    @property
    def text(self) -> str:
        """The parameters as the subject of a sentence for messages, such as "kernels of 3 x 3 for
        16 outputs of 8 inputs, depth first, in blocks of 16 outputs,"."""
        kernel = self.kernel
        part = "part of the kernel" if kernel.part_kernel_first else "depth"
        first = "depthwise" if self.depthwise else f"{part} first"
        return (
            f"kernels of {kernel.height} x {kernel.width} for {self.outputs} outputs of "
            f"{self.inputs} inputs, {first}, in blocks of {self.block} outputs,"
        )

    def places_of(self, rows: Array, columns: Array, sources: Array, targets: Array) -> Array:
        """Return the places of the weights at these taps, input and output channels, whose arrays
        broadcast."""
        kernel = self.kernel
        place = ((rows * kernel.width + columns) * self.inputs + sources) * self.outputs + targets
        inside = (targets < self.outputs) & (sources < self.inputs)
        return np.where(inside & (rows < kernel.height), place, self.nowhere)


@lru_cache(maxsize=256)
def u55_places(order: WeightLayout) -> Array:
    """Return the place of each weight of a stream for Ethos-U55 or U65, in the order of the
    stream."""
    # The stream contains every `cores`-th output channel.  For each block of them, it contains the
    # weights of all taps of the kernel for one block of input channels, then those for the next.
    outputs, block = (-(-(n - order.core) // order.cores) for n in (order.outputs, order.block))
    parts = [
        _part_places(order, range(first, min(first + block, outputs)), first_input, part)
        for first in range(0, outputs, block)
        for first_input in range(0, order.inputs, order.input_block)
        for part in _kernel_parts(order.kernel)
    ]
    return np.concatenate([np.zeros(0, np.int64), *(part.ravel() for part in parts)])


def _kernel_parts(kernel: KernelWindow) -> Iterator[tuple[range, range]]:
    """(rows, columns) for each part of a kernel: the part consists of the taps with these row
    and column indices. Including dilation, it spans at most `kernel.decomposition` rows and
    columns."""
    tall, wide = (kernel.decomposition // d for d in (kernel.dilation_y, kernel.dilation_x))
    for top in range(0, kernel.height, tall):
        for left in range(0, kernel.width, wide):
            yield (
                range(top, min(top + tall, kernel.height)),
                range(left, min(left + wide, kernel.width)),
            )


def _part_places(
    order: WeightLayout, outputs: range, first_input: int, part: tuple[range, range]
) -> Array:
    """The places of the weights that the stream contains for one part of a kernel and one
    block of channels; `u55_places` concatenates them.

    outputs: the block of output channels, counted among those of the core."""
    # The result is in the order of the stream. Its axes are the loops over the weights, from the
    # outermost to the innermost. A micro block consists of the channels that the hardware processes
    # at a time.
    # - micro blocks of input channels; if the order is depth first, of length 1
    # - micro blocks of output channels
    # - taps, including those that pad the part
    # - micro blocks of input channels; if the order is part kernel first, of length 1
    # - output channels of a micro block
    # - input channels of a micro block
    rows, columns = part
    kernel, part_first = order.kernel, order.kernel.part_kernel_first
    block = order.input_block
    deep = min(block, order.inputs - first_input) if part_first else block
    inner = 1 if order.depthwise else order.input_micro
    micros = -(-deep // inner)
    outer_inputs, inner_inputs = (micros, 1) if part_first else (1, micros)
    o, b, t, i, z, c = np.ogrid[
        :outer_inputs, : -(-len(outputs) // order.micro), : _taps(order, len(rows) * len(columns)),
        :inner_inputs, : order.micro, :inner,
    ]  # fmt: skip
    to = order.core + (outputs.start + b * order.micro + z) * order.cores
    source = first_input + (o + i) * inner + c
    y, x = rows.start + t // len(columns), columns.start + t % len(columns)
    return order.places_of(np.where(y < rows.stop, y, kernel.height), x, source, to)


def _taps(order: WeightLayout, taps: int) -> int:
    """The number of taps that the stream contains for a part of the kernel with `taps` taps.
    It is rounded up to a multiple that depends on the order of weights and the input type; the
    additional taps are zeros. For example, 9 taps become 12 in a depthwise convolution."""
    if order.depthwise:
        step = PARALLEL_TAPS
    elif order.kernel.part_kernel_first:
        step = {8: PARALLEL_TAPS, 16: WIDE_PARALLEL_TAPS}.get(order.bits, 1)
    else:
        step = 1
    return -(-taps // step) * step


@lru_cache(maxsize=256)
def u85_places(order: WeightLayout) -> Array:
    """Return the place of each weight of a stream for Ethos-U85, in the order of the stream."""
    # Blocks of input channels are visited forwards and backwards in turn.  Output channels are
    # dealt to the decoders in groups of four.
    found = [np.zeros(0, np.int64)]
    inputs = range(0, order.inputs, order.input_block)
    for number, first in enumerate(range(0, order.outputs, order.block)):
        outputs = range(first, min(first + order.block, order.outputs))
        for source in inputs[::-1] if number % 2 else inputs:
            channels = range(source, min(source + order.input_block, order.inputs))
            for taps in _u85_taps(order):
                found += [
                    _u85_part(order, taps, inner, outer)
                    for inner in channels[:: _u85_inputs(order)]
                    for outer in outputs[:: order.micro]
                ]
    return np.concatenate(found)


def _u85_inputs(order: WeightLayout) -> int:
    """Input channels whose weights are adjacent in the stream for each tap."""
    narrow = order.kernel.part_kernel_first and order.bits == 16 and not order.sparse
    return U85_INPUTS if narrow else order.input_block


def _u85_round(order: WeightLayout) -> int:
    """Number to whose multiple the taps of a part of the kernel are padded."""
    if order.depthwise:
        return U85_MANY_TAPS
    if not order.kernel.part_kernel_first:
        return 1
    return U85_MANY_TAPS if order.bits == 16 or order.sparse else U85_TAPS


def _u85_taps(order: WeightLayout) -> Iterator[Array]:
    """The taps of each part of the kernel, as an array of shape (taps, 2) of rows and columns."""
    # The taps whose offset leaves the same remainder when divided by the stride follow each other,
    # from left to right and from right to left in turn.
    kernel = order.kernel
    strided = order.depthwise or kernel.part_kernel_first
    steps = (kernel.stride_y, kernel.stride_x) if strided else (1, 1)
    tall, wide = (kernel.decomposition // d for d in (kernel.dilation_y, kernel.dilation_x))
    for left in range(0, kernel.width, wide):
        for top in range(0, kernel.height, tall):
            rows = range(top, min(top + tall, kernel.height))
            columns = range(left, min(left + wide, kernel.width))
            yield np.array([
                (y, x)
                for below in range(steps[0])
                for right in range(steps[1])
                for k, y in enumerate(rows[below :: steps[0]])
                for x in columns[right :: steps[1]][:: -1 if k % 2 else 1]
            ])  # fmt: skip


def _u85_part(order: WeightLayout, taps: Array, source: int, target: int) -> Array:
    """The places of a part of the kernel, of the input and output channels from `source` and
    `target` on that are computed at a time."""
    inputs, step = _u85_inputs(order), _u85_round(order)
    inner = 1 if order.depthwise else U85_SPARSE_INPUTS if order.sparse else U85_INPUTS
    width = order.micro // order.cores
    t, i, g, z, c = np.ogrid[
        : len(taps), : -(-inputs // inner), : -(-width // DEALT), :DEALT, :inner
    ]
    to = target + (g * order.cores + order.core) * DEALT + z
    places = order.places_of(taps[t, 0], taps[t, 1], source + i * inner + c, to)
    if not order.depthwise:
        padding = -len(taps) % step * inputs * width
        return np.append(places.ravel(), np.full(padding, order.nowhere))
    # Larger configurations idle after each ten taps.
    idle = 0 if order.macs <= 256 and order.bits == 8 else 2 if order.macs <= 512 else 6
    parts = [
        np.append(part.ravel(), np.full((step - len(part) + idle) * width, order.nowhere))
        for part in np.split(places, range(step, len(places), step))
    ]
    return np.concatenate(parts)


def dealt(values: Array, order: WeightLayout) -> list[Array]:
    """Return the weights of each decoder of Ethos-U85 from those of the fast decoder, which reads
    parts of all of them in turn."""
    size = order.micro * _u85_inputs(order) * _u85_round(order) // order.cores
    whole = len(values) // (size * order.cores) * size * order.cores
    return list(
        values[:whole].reshape(-1, order.cores, size).swapaxes(0, 1).reshape(order.cores, -1)
    )
