"""Operations: the decoded register state at the start of an operation.

A `BlockOperation` computes an output map from one or two input maps, block by block. A
`DmaOperation` copies bytes.
"""

from __future__ import annotations

from dataclasses import dataclass

from penstock.accelerators.ethos_u.interpreter.feature_map import FeatureMap
from penstock.accelerators.ethos_u.interpreter.memory import ByteSpan


@dataclass(frozen=True, slots=True)
class KernelWindow:
    """A window: taps, strides and dilation in rows and columns.

    The order of weights is `part_kernel_first` or depth first, in pieces of at most `decomposition`
    rows and columns after dilation.
    """

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
    """Rows and columns around the input. They count as zero in convolutions; pools ignore them."""

    top: int = 0
    left: int = 0
    bottom: int = 0
    right: int = 0


@dataclass(frozen=True, slots=True)
class ScaleFactor:
    """A factor, `scale` / 2 ** `shift`."""

    scale: int = 1
    shift: int = 0


@dataclass(frozen=True, slots=True)
class ActivationRange:
    """Clamping of the output, followed by a table lookup if `table` is not None. `clip_range` is
    the range of a type that replaces the output's."""

    lower: int
    upper: int
    table: int | None
    clip_range: int


@dataclass(frozen=True, slots=True)
class Second:
    """The second input of an element-wise operation: a feature map or a scalar, minus `zero_point`.

    `first` is True if it is the left operand. Either both operands are scaled, by `a` and `b`, or
    only operand `scaled` is, by a 32-bit `a`, while the other is shifted by the same number of
    bits.
    """

    map: FeatureMap | None
    scalar: int
    zero_point: int
    first: bool


@dataclass(frozen=True, slots=True)
class Operands:
    """Scaling of the operands of sums and differences: "both" by `a` and `b`; or only operand "a"
    or "b", by `a`, while the other is shifted."""

    scaled: str = "both"
    a: ScaleFactor = ScaleFactor()
    b: ScaleFactor = ScaleFactor()
    rounding: str = "tfl"


@dataclass(frozen=True, slots=True)
class BlockOperation:
    """An operation that computes a feature map block by block.

    `kind` is conv, depthwise, or a pooling or element-wise mode. `height` and `width` are those of
    the input that the window reads: doubled if `upscale` is not none.
    """

    number: int
    word: int
    kind: str
    ifm: FeatureMap
    second: Second | None
    ofm: FeatureMap
    height: int
    width: int
    kernel: KernelWindow
    padding: WindowPadding
    upscale: str
    weights: ByteSpan | None
    scales: ByteSpan | None
    block: tuple[int, int, int]
    global_scale: bool
    scale: ScaleFactor
    rounding: str
    operands: Operands
    activation: ActivationRange
    accumulator_bits: int
    blockdep: int

    @property
    def inputs(self) -> tuple[FeatureMap, ...]:
        """The feature maps that it reads."""
        second = self.second.map if self.second else None
        return (self.ifm, second) if second else (self.ifm,)

    @property
    def where(self) -> str:
        """Its position in the stream, for messages."""
        return f"operation {self.number} ({self.kind}), word {self.word}"


@dataclass(frozen=True, slots=True)
class DmaOperation:
    """A copy of bytes."""

    number: int
    word: int
    source: ByteSpan
    target: ByteSpan
    kind: str = "dma"

    @property
    def where(self) -> str:
        """Its position in the stream, for messages."""
        return f"operation {self.number} (dma), word {self.word}"


Operation = BlockOperation | DmaOperation
