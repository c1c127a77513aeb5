"""The operations of a command stream, decoded from the register state at their start. A
`BlockOperation` computes an output feature map from one or two inputs, block by block. A
`DmaOperation` copies bytes.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from penstock.uma import Array, UnsupportedError
from penstock_ethos_u.interpreter.feature_map import FeatureMap
from penstock_ethos_u.interpreter.memory import ByteSpan


@dataclass(frozen=True, slots=True)
class KernelWindow:
    """The window of an operation, which slides over the input.

    height, width: number of taps.
    stride_y, stride_x: input rows and columns between consecutive windows.
    dilation_y, dilation_x: rows and columns between consecutive taps; 1 without dilation.
    part_kernel_first: order of the weights in the stream. If True ("part kernel first"), all taps
        of a few input channels precede the next few channels. If False ("depth first"), all input
        channels of one tap precede the next tap.
    decomposition: the hardware divides a window into parts that span at most this number of rows
        and columns, including dilation."""

    height: int = 1
    width: int = 1
    stride_y: int = 1
    stride_x: int = 1
    dilation_y: int = 1
    dilation_x: int = 1
    part_kernel_first: bool = False
    decomposition: int = 8

    @property
    def reach_y(self) -> int:
        """Number of rows from the first to the last tap, inclusive."""
        return (self.height - 1) * self.dilation_y + 1

    @property
    def reach_x(self) -> int:
        """Number of columns from the first to the last tap, inclusive."""
        return (self.width - 1) * self.dilation_x + 1


@dataclass(frozen=True, slots=True)
class WindowPadding:
    """Rows and columns of padding around the input. Convolutions read zeros there; pools ignore the
    padding."""

    top: int = 0
    left: int = 0
    bottom: int = 0
    right: int = 0


@dataclass(frozen=True, slots=True)
class ScaleFactor:
    """A factor by which accumulators or operands are multiplied: `scale` / 2 ** `shift`.

    left: bits by which operands are shifted left before, and right in addition after the
        multiplication: they decide where the product is rounded first.
    rounding: rounding mode of operands, one of those that `output.py` defines."""

    scale: int = 1
    shift: int = 0
    left: int = 0
    rounding: str = "tfl"


@dataclass(frozen=True, slots=True)
class ActivationRange:
    """The activation of an operation: the output is clamped to [`lower`, `upper`] (both inclusive)
    and, if there is a look-up table, then looked up in it.

    table: address of the look-up table, relative to the first one; None for no look-up.
    signed: whether the elements that index the table are signed.
    interpolated: whether the table is one for 16-bit elements, between whose entries results are
        interpolated."""

    lower: int
    upper: int
    table: int | None = None
    signed: bool = True
    interpolated: bool = False


@dataclass(frozen=True, slots=True)
class SecondOperand:
    """The second input of an element-wise operation.

    map: the feature map; None if the input is a scalar.
    scalar: the value of the scalar; 0 if the input is a feature map.
    zero_point: the element that represents 0.
    first: whether the second input is the left operand, for example the minuend of a difference."""

    map: FeatureMap | None
    scalar: int
    zero_point: int
    first: bool


@dataclass(frozen=True, slots=True)
class OperandScaling:
    """The factors of the operands of an element-wise operation.

    left, right: factors of the left and of the right operand; of the positive and of the negative
        elements of the operand of a leaky rectifier."""

    left: ScaleFactor = ScaleFactor()
    right: ScaleFactor = ScaleFactor()


@dataclass(frozen=True, slots=True)
class ResizeAxis:
    """The sampling of an axis of a resized image: output `x` is at (`offset` + `x` * `step`) /
    `parts` in the input."""

    offset: int
    step: int
    parts: int

    def place(self, x: Array) -> tuple[Array, Array]:
        """Return the input at or before each of the outputs `x`, and the distance from it in
        parts."""
        place, rest = np.divmod(self.offset + x * self.step, self.parts)
        return place, rest


@dataclass(frozen=True, slots=True)
class BlockOperation:
    """An operation that computes a feature map block by block.

    number: index of the operation among all operations of the stream.
    word: index, among the 32-bit words of the stream, of the first word of the command that starts
        the operation.
    kind: conv, depthwise, or the name of a pooling or element-wise mode in `registers.toml`.
    ifm: the input.
    second: the second input; None if there is none.
    ofm: the output.
    height, width: rows and columns of the input after upscaling.
    kernel: the window; one tap for element-wise operations.
    padding: rows and columns of padding around the input.
    upscale: "none", or the way in which rows and columns are doubled: "nearest" repeats elements,
        "zeros" inserts zeros.
    weights: the bytes of the weight stream of each core; empty for operations without weights. The
        cores take turns at output channels: with two cores, the first one computes channels 0, 2,
        4, ..
    scales: the bytes of the biases and scales of the channels of each core; empty for operations
        without weights.
    block: rows, columns and channels of a block of the output.
    scale: factor by which accumulators are multiplied; None if each channel has its own (`scales`),
        or if an average divides by the number of elements of its window.
    rounding: rounding mode of the scaling, one of those that `output.py` defines.
    operand_scaling: scaling of the operands of an element-wise operation.
    activation: clamping of the output, and look-up table.
    accumulator_bits: width of accumulators; 0 if the register has an undefined value.
    blockdep: maximum number of jobs of the previous operation that may be unfinished when this one
        starts. A job processes a block, or one slice of input channels for a block.
    slice_channels: maximum number of input channels of such a slice.
    micro_channels: output channels of a micro block, the unit of computation of the multipliers.
    fast_weights: whether the weights have the format of the fast decoder.
    sparse_weights: whether at least two of four consecutive input channels have a weight of 0.
    resize: the sampling of rows and of columns; None unless the operation resizes its input.
    links: the earlier operations of a chain, of which this is the last. All operations of a chain
        compute a block before the first one computes the next block."""

    number: int
    word: int
    kind: str
    ifm: FeatureMap
    second: SecondOperand | None
    ofm: FeatureMap
    height: int
    width: int
    kernel: KernelWindow
    padding: WindowPadding
    upscale: str
    weights: tuple[ByteSpan, ...]
    scales: tuple[ByteSpan, ...]
    block: tuple[int, int, int]
    scale: ScaleFactor | None
    rounding: str
    operand_scaling: OperandScaling
    activation: ActivationRange
    accumulator_bits: int
    blockdep: int
    slice_channels: int
    micro_channels: int
    fast_weights: bool = False
    sparse_weights: bool = False
    resize: tuple[ResizeAxis, ResizeAxis] | None = None
    links: tuple[BlockOperation, ...] = ()

    @property
    def inputs(self) -> tuple[FeatureMap, ...]:
        """The input feature maps in memory: `ifm`, then the second input. Those in chaining buffers
        are not among them."""
        return tuple(map for map in self._maps if not map.chained)

    @property
    def reads_chain(self) -> bool:
        """Whether an input is in a chaining buffer."""
        return any(map.chained for map in self._maps)

    @property
    def _maps(self) -> tuple[FeatureMap, ...]:
        second = self.second.map if self.second else None
        return (self.ifm, second) if second else (self.ifm,)

    @property
    def chain(self) -> tuple[BlockOperation, ...]:
        """The operations of the chain that ends with this one, in order."""
        return *self.links, self

    @property
    def where(self) -> str:
        """Position of the operation in the stream, for messages."""
        return f"operation {self.number} ({self.kind}), word {self.word}"


@dataclass(frozen=True, slots=True)
class DmaOperation:
    """A copy of bytes from `source` to `target`.

    number: index of the operation among all operations of the stream.
    word: index, among the 32-bit words of the stream, of the first word of the command that starts
        the copy."""

    number: int
    word: int
    source: ByteSpan
    target: ByteSpan
    kind: str = "dma"

    @property
    def where(self) -> str:
        """Position of the operation in the stream, for messages."""
        return f"operation {self.number} (dma), word {self.word}"


Operation = BlockOperation | DmaOperation


def not_modelled(what: str, where: str) -> UnsupportedError:
    """Return the error for a feature of the hardware that is not modelled.

    where: position in the stream, as `BlockOperation.where`."""
    return UnsupportedError(
        "ethosu-106",
        f"not modelled: {what}",
        where=where,
        help="the model supports most operations that Vela emits for Ethos-U55, U65 and U85",
    )
