"""work: an operation as the performance model sees it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

from penstock.accelerators.ethos_u.configurations import EthosUConfiguration, MapShape


class ComputeKind(IntEnum):
    """How the multipliers compute; element-wise operations do not use them."""

    CONVOLUTION = 0
    DEPTHWISE = 1
    POOLING = 2
    ELEMENTWISE = 3


class Extent(NamedTuple):
    """The rows and columns of a window, or its strides or dilations."""

    height: int
    width: int


ONE = Extent(1, 1)


@dataclass(frozen=True, slots=True)
class NpuWork:
    """An operation on int8 elements.

    `upscale` inserts `upscale - 1` zeros after each row and column of the input.  `rate` is the
    number of cycles for each element in the output unit.  If `binary`, a second tensor is read;
    `second_elements` of its elements lie in the memory of tensors, by default as many as the output
    has.  If `part_kernel`, weights are ordered by parts of the window with few channels, instead of
    by taps with many channels.  `packed_input` and `packed_output` select the layout NHCWB16.
    `constant_bytes` counts encoded weights and biases; `biases_near` states that the biases lie in
    the memory of tensors."""

    chip: EthosUConfiguration
    kind: ComputeKind
    input: MapShape
    output: MapShape
    rate: float
    window: Extent = ONE
    stride: Extent = ONE
    dilation: Extent = ONE
    upscale: int = 1
    binary: bool = False
    second_elements: int | None = None
    lookup: bool = False
    part_kernel: bool = False
    packed_input: bool = False
    packed_output: bool = False
    constant_bytes: int = 0
    biases_near: bool = False

    @property
    def reach(self) -> Extent:
        """Rows and columns that a window spans."""
        return Extent(
            (self.window.height - 1) * self.dilation.height + 1,
            (self.window.width - 1) * self.dilation.width + 1,
        )

    @property
    def equal_depth(self) -> bool:
        """Whether each output channel depends only on the input channel of the same number."""
        return self.kind is not ComputeKind.CONVOLUTION
