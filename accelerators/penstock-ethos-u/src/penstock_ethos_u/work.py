"""work: the properties of an operation that the performance model uses to estimate its cycles."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

from penstock_ethos_u.configurations import EthosUConfiguration, MapShape


class ComputeKind(IntEnum):
    """The kinds of operations that the performance model distinguishes. Look-ups and copies count
    as pooling. Element-wise operations do not use the multipliers."""

    CONVOLUTION = 0
    DEPTHWISE = 1
    POOLING = 2
    ELEMENTWISE = 3


class Extent(NamedTuple):
    """Rows and columns of a window, of its strides or of its dilations."""

    height: int
    width: int


ONE = Extent(1, 1)


@dataclass(frozen=True, slots=True)
class NpuWork:
    """An operation on int8 elements, or a stripe of it (an interval of output rows), as the input
    of the performance model.

    chip: hardware configuration.
    kind: kind of the computation, such as convolution or pooling.
    input, output: rows, columns and channels of the input and of the output.
    rate: cycles per output element in the output unit, which scales and writes results.
    window, stride, dilation: rows and columns.
    upscale: `upscale - 1` rows and columns of zeros are inserted after each input row and column; 1
        for none.
    binary: whether there is a second input that is a tensor, not a scalar.
    second_elements: number of elements of the second input that are read, if it is broadcast. 0 if
        it is a constant tensor, whose bytes count as `constant_bytes`. None if it has the shape of
        the output, is a scalar, or does not exist.
    lookup: whether a look-up table is applied to the output.
    part_kernel: True if weights are ordered part kernel first (several taps of few channels at a
        time), False if depth first (one tap of many channels at a time).
    packed_input, packed_output: whether the layout is NHCWB16 instead of NHWC.
    constant_bytes: size of encoded weights and biases, or of a constant second input.
    biases_in_tensor_memory: whether biases are read from the memory that holds tensors."""

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
    biases_in_tensor_memory: bool = False

    @property
    def reach(self) -> Extent:
        """Rows and columns that a window spans, including dilation."""
        return Extent(
            (self.window.height - 1) * self.dilation.height + 1,
            (self.window.width - 1) * self.dilation.width + 1,
        )

    @property
    def equal_depth(self) -> bool:
        """Whether each output channel depends only on the input channel with the same index."""
        return self.kind is not ComputeKind.CONVOLUTION
