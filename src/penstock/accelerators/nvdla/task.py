"""task: an operator on the hardware, as whole numbers, which commands of a call can hold.

Of some rows of its output, whose tensors lie in lines evenly apart, it says the hardware layers.
"""

from __future__ import annotations

from dataclasses import dataclass

from penstock.accelerators.nvdla.configurations import CONFIGURATIONS, Configuration
from penstock.accelerators.nvdla.cut import Convolution, hardware_layers
from penstock.accelerators.nvdla.extension import (
    Elementwise,
    HardwareLayer,
    Post,
    Range,
    Scale,
    WindowKind,
    WindowLayer,
)
from penstock.accelerators.nvdla.layer import NOWHERE, ConvolutionLayer, Padding, Surface
from penstock.accelerators.nvdla.stream import Write, convolution_writes, window_writes
from penstock.accelerators.nvdla.traffic import Traffic, traffic_of

NUMBERS = tuple(CONFIGURATIONS)
"""Configurations by their numbers."""
CONVOLUTION = len(WindowKind)
"""The `kind` of what NVDLA's own core computes; others are those of the unit WINDOW."""


@dataclass(frozen=True, slots=True)
class Task:
    """Shapes and window; zero point and clamp; the element-wise input, see `extension.Post`."""

    configuration: int
    kind: int
    in_w: int
    in_h: int
    in_c: int
    out_w: int
    out_h: int
    out_c: int
    kernel_w: int = 1
    kernel_h: int = 1
    stride_w: int = 1
    stride_h: int = 1
    dilation_w: int = 1
    dilation_h: int = 1
    pad_left: int = 0
    pad_top: int = 0
    in_zero: int = 0
    multiplier_d: int = 1
    requantise: int = 0
    out_zero: int = 0
    least: int = -128
    most: int = 127
    elementwise: int = 0
    zero0: int = 0
    multiplier0: int = 0
    shift0: int = 0
    zero1: int = 0
    multiplier1: int = 0
    shift1: int = 0
    result_zero: int = 0
    out_multiplier: int = 0
    out_shift: int = 0
    result_least: int = -128
    result_most: int = 127

    @property
    def hardware(self) -> Configuration:
        """The configuration, with the extension."""
        return CONFIGURATIONS[NUMBERS[self.configuration]].extended(0, 0)

    @property
    def reach_h(self) -> int:
        """Rows from the first to the last tap of a window."""
        return (self.kernel_h - 1) * self.dilation_h + 1

    def row_bytes(self, width: int, channels: int) -> int:
        """Bytes of a row of a tensor."""
        atom = self.hardware.memory_atom_bytes
        return -(-channels // atom) * width * atom

    @property
    def in_row_bytes(self) -> int:
        return self.row_bytes(self.in_w, self.in_c)

    @property
    def out_row_bytes(self) -> int:
        return self.row_bytes(self.out_w, self.out_c)

    def reads(self, first: int, end: int) -> tuple[int, int]:
        """Rows of the input under the windows of rows [first, end) of the output."""
        lower = first * self.stride_h - self.pad_top
        upper = (end - 1) * self.stride_h - self.pad_top + self.reach_h
        return max(lower, 0), min(upper, self.in_h)

    def layers(
        self, first: int, end: int, in_lines: int, out_lines: int, second_lines: int = 0
    ) -> list[tuple[Write, ...]]:
        """The hardware layers of rows [first, end) of the output as writes; tensors' lines are so
        many bytes apart, addresses are counted from the first row of each tensor.

        Raises UnsupportedError or CapacityError where the hardware cannot."""
        post = self._post(Surface(second_lines, self.out_w * self.hardware.memory_atom_bytes))
        return [
            convolution_writes(layer, post)
            if isinstance(layer, ConvolutionLayer)
            else window_writes(layer, post)
            for layer in self.hardware_layers(first, end, in_lines, out_lines)
        ]

    def moved(self, first: int, end: int) -> tuple[tuple[HardwareLayer, Traffic], ...]:
        """The hardware layers of rows [first, end) of the output, which lie one behind the other as
        those of the other tensors do; and what each moves.  Raises as `layers`."""
        atom, post = self.hardware.memory_atom_bytes, self._post(NOWHERE)
        return tuple(
            (layer, traffic_of(layer, post, atom))
            for layer in self.hardware_layers(first, end, self.in_row_bytes, self.out_row_bytes)
        )

    def hardware_layers(
        self, first: int, end: int, in_lines: int, out_lines: int
    ) -> tuple[HardwareLayer, ...]:
        """The layers that compute rows [first, end) of the output.  Raises as `layers`."""
        lower, upper = self.reads(first, end)
        top = max(0, self.pad_top - first * self.stride_h)
        below = (end - 1) * self.stride_h - self.pad_top + self.reach_h - self.in_h
        reach_w = (self.kernel_w - 1) * self.dilation_w + 1
        right = (self.out_w - 1) * self.stride_w + reach_w - self.pad_left - self.in_w
        padding = Padding(self.pad_left, max(0, right), top, max(0, below))
        atom = self.hardware.memory_atom_bytes
        source = Surface(in_lines, self.in_w * atom)
        output = Surface(out_lines, self.out_w * atom)
        if self.kind != CONVOLUTION:
            return (self._window(upper - lower, source, output, padding),)
        return hardware_layers(self._convolution(upper - lower, source, output, padding))

    def _convolution(
        self, rows: int, source: Surface, output: Surface, padding: Padding
    ) -> Convolution:
        return Convolution(
            self.hardware,
            self.in_w,
            rows,
            self.in_c,
            self.out_c,
            self.kernel_w,
            self.kernel_h,
            source,
            output,
            weight_address=0,
            stride_x=self.stride_w,
            stride_y=self.stride_h,
            dilation_x=self.dilation_w,
            dilation_y=self.dilation_h,
            padding=padding,
            pad_value=self.in_zero,
        )

    def _window(self, rows: int, source: Surface, output: Surface, padding: Padding) -> WindowLayer:
        return WindowLayer(
            WindowKind(self.kind),
            self.in_w,
            rows,
            self.in_c,
            self.kernel_w,
            self.kernel_h,
            source,
            output,
            self.stride_w,
            self.stride_h,
            self.dilation_w,
            self.dilation_h,
            padding,
            self.in_zero,
            self.multiplier_d,
        )

    def _post(self, second: Surface) -> Post:
        return Post(
            requantise=bool(self.requantise),
            zero=self.out_zero,
            limits=Range(self.least, self.most),
            elementwise=Elementwise(self.elementwise),
            second=second,
            first=Scale(self.zero0, self.multiplier0, self.shift0),
            other=Scale(self.zero1, self.multiplier1, self.shift1),
            result=Scale(self.result_zero, self.out_multiplier, self.out_shift),
            result_limits=Range(self.result_least, self.result_most),
        )


def copies(task: Task) -> Task:
    """What copies rows of a task's input as they are."""
    size = (task.in_w, task.in_h, task.in_c)
    return Task(task.configuration, WindowKind.LARGEST, *size, *size)
