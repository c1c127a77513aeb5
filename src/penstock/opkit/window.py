"""Window: a sliding window along one axis.

An output index o reads the input indices o * stride - before + k * dilation, k in [0, size).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from penstock.ir.foreign import ForeignNode
from penstock.ir.region import Interval
from penstock.ir.stated_attribute import StatedAttribute

MOST_STEP = 2**15
"""Strides, dilations and paddings of TFLite are smaller.

Source: TensorFlow Lite, kernels/internal/types.h: `ConvParams`, `DepthwiseParams` and
`PaddingValues` hold them as int16."""


@dataclass(frozen=True, slots=True)
class Window:
    """Size, stride, dilation and padding, in elements; `before` and `after` pad the two ends."""

    size: int
    stride: int = 1
    dilation: int = 1
    before: int = 0
    after: int = 0

    @staticmethod
    def same(extent: int, size: int, stride: int = 1, dilation: int = 1) -> Window:
        """The window with SAME padding on an axis of `extent`: one output per `stride` elements.

        The larger pad is at the end.

        Source: TFLite, `ComputePaddingHeightWidth` (padding.h).
        """
        reach = (size - 1) * dilation + 1
        total = max(0, (-(-extent // stride) - 1) * stride + reach - extent)
        return Window(size, stride, dilation, total // 2, total - total // 2)

    @property
    def extent(self) -> int:
        """Number of elements from the first tap to the last, both included."""
        return (self.size - 1) * self.dilation + 1

    def outputs(self, extent: int) -> int:
        """Number of outputs over an axis of `extent`; 0 or less if the window does not fit."""
        return (extent + self.before + self.after - self.extent) // self.stride + 1

    def always_meets(self, extent: int) -> bool:
        """Whether every output over an axis of `extent` reads an element that is not padding."""
        outputs = self.outputs(extent)
        last = (outputs - 1) * self.stride - self.before
        # Where dilation skips no axis, the first window is the one that lies farthest outside.
        padded = -(-self.before // self.stride) if self.dilation > extent else min(self.before, 1)
        distances = (self.before - o * self.stride for o in range(min(padded, outputs)))
        return last < extent and all(
            -(-d // self.dilation) < self.size and -d % self.dilation < extent for d in distances
        )

    def taps_inside(self, out: int, extent: int) -> int:
        """Number of elements in [0, extent) that output `out` reads.

        >>> Window(3, dilation=2, before=2).taps_inside(0, extent=4)
        2
        """
        first = out * self.stride - self.before
        lower, upper = -(first // self.dilation), (extent - 1 - first) // self.dilation + 1
        return max(0, min(self.size, upper) - max(0, lower))

    def reads(self, out: Interval) -> Interval:
        """Input interval that the output interval reads, unclipped; it may include padding."""
        lower = out[0] * self.stride - self.before
        return lower, (out[1] - 1) * self.stride - self.before + self.extent

    def cropped(self, out: Interval, extent: int) -> Window:
        """The window that computes the output interval from the input interval `needs`, which is
        not empty.

        Only the padding differs: what the output interval reads outside that interval."""
        (lower, upper), (first, end) = self.reads(out), self.needs(out, extent)
        return replace(self, before=first - lower, after=max(0, upper - end))

    def needs(self, out: Interval, extent: int) -> Interval:
        """Input interval that the output interval reads, clipped to [0, extent).

        It is the hull of what the single outputs read: outputs that read padding alone, at either
        end, do not count.  If there are no others, it is empty."""
        first = max(out[0], -(-(self.before + 1 - self.extent) // self.stride))
        end = min(out[1], (extent - 1 + self.before) // self.stride + 1)
        lower, upper = self.reads((first, end)) if first < end else self.reads(out)
        lower = min(max(lower, 0), extent)
        return lower, max(lower, min(upper, extent)) if first < end else lower


def stated_windows(rows: Window, columns: Window) -> tuple[StatedAttribute, ...]:
    """The attributes of a window along rows and columns, rows first.

    >>> [one.words for one in stated_windows(Window(3, 2, after=1), Window(1))]
    ['3 × 1', '2 × 1', 'bottom 1']
    >>> stated_padding(1, 1, 1, 1).words
    '1 on each side'
    """
    return (
        StatedAttribute("kernel size", f"{rows.size} × {columns.size}"),
        StatedAttribute("stride", f"{rows.stride} × {columns.stride}"),
        *(
            [StatedAttribute("dilation", f"{rows.dilation} × {columns.dilation}")]
            if (rows.dilation, columns.dilation) != (1, 1)
            else []
        ),
        stated_padding(rows.before, rows.after, columns.before, columns.after),
    )


def stated_padding(top: int, bottom: int, left: int, right: int) -> StatedAttribute:
    """The padding of an image, without the sides that have none."""
    if top and top == bottom == left == right:
        return StatedAttribute("padding", f"{top} on each side")
    sides = {"top": top, "bottom": bottom, "left": left, "right": right}
    words = ", ".join(f"{side} {count}" for side, count in sides.items() if count)
    return StatedAttribute("padding", words or "none")


def foreign_windows(
    node: ForeignNode, input_hw: tuple[int, ...], size_hw: tuple[int, ...]
) -> tuple[Window, Window]:
    """Windows of a TFLite node along rows and columns, with SAME and VALID padding resolved."""
    padding = node.choice("padding", ("SAME", "VALID"))
    windows: list[Window] = []
    for axis, extent, size in zip("hw", input_hw, size_hw, strict=True):
        stride = node.integer(f"stride_{axis}")
        dilation = node.integer(f"dilation_{axis}_factor", 1)
        if min(stride, dilation, size) < 1:
            raise node.unsupported(
                f"stride {stride}, dilation {dilation}, window {size} along {axis}, "
                "must each be at least 1"
            )
        if padding == "SAME":
            window = Window.same(extent, size, stride, dilation)
        else:
            window = Window(size, stride, dilation)
        if max(stride, dilation, window.before, window.after) >= MOST_STEP:
            raise node.unsupported(
                f"stride {stride}, dilation {dilation}, padding {window.before} and {window.after} "
                f"along {axis}, must each be below {MOST_STEP}: the reference holds 16 bits of them"
            )
        windows.append(window)
    return windows[0], windows[1]
