"""Operation: what registers say when an operation begins.

A `BlockOperation` computes an output map from one or two input maps, block by block; a
`DmaOperation` copies bytes.
"""

from __future__ import annotations

from dataclasses import dataclass

from penstock.accelerators.ethos_u.interpreter.feature_map import FeatureMap
from penstock.accelerators.ethos_u.interpreter.memory import Span


@dataclass(frozen=True, slots=True)
class Kernel:
    """A window: taps, strides, and dilation in rows and columns; and in which order its weights
    lie: `part_kernel_first`, in pieces of `decomposition` rows and columns (dilated)."""

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
        """Rows from the first to the last tap, both counted."""
        return (self.height - 1) * self.dilation_y + 1

    @property
    def reach_x(self) -> int:
        """Columns from the first to the last tap, both counted."""
        return (self.width - 1) * self.dilation_x + 1


@dataclass(frozen=True, slots=True)
class Padding:
    """Rows and columns around the input that count as zero, or not at all where pooled."""

    top: int = 0
    left: int = 0
    bottom: int = 0
    right: int = 0


@dataclass(frozen=True, slots=True)
class Scale:
    """A factor, `scale` / 2 ** `shift`."""

    scale: int = 1
    shift: int = 0


@dataclass(frozen=True, slots=True)
class Activation:
    """Limits of the output, then a table by number, where `table` is one; `clip_range` says which
    type is limited, where it is not the output's."""

    lower: int
    upper: int
    table: int | None
    clip_range: int


@dataclass(frozen=True, slots=True)
class Second:
    """The second input of an element-wise operation: a map or a number, less `zero_point`.

    `first` says that it is the left operand.  Operands are scaled by `a` and `b`, or only one of
    them, `scaled`, by `a` with 32 bits, while the other is shifted as far."""

    map: FeatureMap | None
    scalar: int
    zero_point: int
    first: bool


@dataclass(frozen=True, slots=True)
class Operands:
    """How those of sums and differences are scaled: "both" by `a` and `b`, or one, "a" or "b", by
    `a`, the other shifted."""

    scaled: str = "both"
    a: Scale = Scale()
    b: Scale = Scale()
    rounding: str = "tfl"


@dataclass(frozen=True, slots=True)
class BlockOperation:
    """`kind` is conv, depthwise, or a pooling or element-wise mode; `height` and `width` are of
    the input as the window sees it: enlarged by two, where `upscale` is not none."""

    number: int
    word: int
    kind: str
    ifm: FeatureMap
    second: Second | None
    ofm: FeatureMap
    height: int
    width: int
    kernel: Kernel
    padding: Padding
    upscale: str
    weights: Span | None
    scales: Span | None
    block: tuple[int, int, int]
    global_scale: bool
    scale: Scale
    rounding: str
    operands: Operands
    activation: Activation
    accumulator_bits: int
    blockdep: int

    @property
    def inputs(self) -> tuple[FeatureMap, ...]:
        """The maps that it reads."""
        second = self.second.map if self.second else None
        return (self.ifm, second) if second else (self.ifm,)

    @property
    def where(self) -> str:
        """It, in messages."""
        return f"operation {self.number} ({self.kind}), word {self.word}"


@dataclass(frozen=True, slots=True)
class DmaOperation:
    """A copy of bytes."""

    number: int
    word: int
    source: Span
    target: Span
    kind: str = "dma"

    @property
    def where(self) -> str:
        """It, in messages."""
        return f"operation {self.number} (dma), word {self.word}"


Operation = BlockOperation | DmaOperation
