"""work: an operation of the NPU as its buffers and multipliers see it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

from penstock.accelerators.ethos_u.configurations import Configuration, Shape


class Kind(IntEnum):
    """What the multipliers do; element by element they do nothing."""

    CONVOLUTION = 0
    DEPTHWISE = 1
    POOLING = 2
    ELEMENTWISE = 3


class Extent(NamedTuple):
    """Of a window, its strides or its dilations: rows and columns."""

    height: int
    width: int


ONE = Extent(1, 1)


@dataclass(frozen=True, slots=True)
class Work:
    """An operation on int8 elements.

    `upscale`: each row and column of the input stands for so many; `rate`: cycles for each element
    behind the multipliers; `binary`: a second tensor is read, of which `second_elements` lie in the
    memory of tensors, as many as the output has unless said.
    `part_kernel`: weights of four taps and few channels come together, instead of one tap's of many
    channels.  `packed_input`, `packed_output`: the layout is NHCWB16, otherwise NHWC.
    `constant_bytes`: of encoded weights and biases; `biases_near`: these lie where features do."""

    chip: Configuration
    kind: Kind
    input: Shape
    output: Shape
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
        """Rows and columns from the first to the last tap of a window."""
        return Extent(
            (self.window.height - 1) * self.dilation.height + 1,
            (self.window.width - 1) * self.dilation.width + 1,
        )

    @property
    def equal_depth(self) -> bool:
        """Whether a channel of the output depends on the same channel of the input alone."""
        return self.kind is not Kind.CONVOLUTION
