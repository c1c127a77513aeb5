"""Windows along the axes behind the first two, as definitions select the elements under them.

Source: ONNX operator specification, Conv and MaxPool.
"""

from __future__ import annotations

from itertools import product

from penstock.frontends.onnx.definitions import Definition
from penstock.frontends.onnx.folding import whole
from penstock.frozen import frozen
from penstock.opkit.sliding import AUTO_PADS

MOST_TAPS = 256
"""Largest number of elements under a window: each is a node that selects elements."""


@frozen
class Windows:
    """`counts` windows of `sizes` elements along each axis, after padding."""

    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    starts: tuple[int, ...]
    ends: tuple[int, ...]
    counts: tuple[int, ...]

    def padded(self, new: Definition, x: str, *fill: str) -> str:
        """The tensor with the padding of the windows."""
        if not any((*self.starts, *self.ends)):
            return x
        return new.made("Pad", x, (0, 0, *self.starts, 0, 0, *self.ends), *fill)

    def places(self) -> list[tuple[int, ...]]:
        """The element of each tap of a window, row by row, from the window's first element."""
        return [
            tuple(k * d for k, d in zip(at, self.dilations, strict=True))
            for at in product(*map(range, self.sizes))
        ]

    def taps(self, new: Definition, padded: str) -> list[str]:
        """The elements of each tap under all windows, (batch, channels, *counts)."""
        axes = new.integers(*(a + 2 for a in range(len(self.sizes))))
        strides, found = new.integers(*self.strides), list[str]()
        for first in self.places():
            last = [
                lower + (count - 1) * stride + 1
                for lower, count, stride in zip(first, self.counts, self.strides, strict=True)
            ]
            bounds = new.integers(*first), new.integers(*last)
            found.append(new.made("Slice", padded, *bounds, axes, strides))
        return found


def spans(sizes: tuple[int, ...], dilations: tuple[int, ...]) -> tuple[int, ...]:
    """The extents that windows cover."""
    return tuple((n - 1) * d + 1 for n, d in zip(sizes, dilations, strict=True))


def listed(new: Definition, name: str, default: tuple[int, ...]) -> tuple[int, ...]:
    """An attribute that lists integers."""
    found = new.node.attributes.get(name, default)
    return tuple(x for x in found if isinstance(x, int)) if isinstance(found, tuple) else ()


def steps(new: Definition, axes: int) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
    """Strides and dilations of the defined node; None if they are wrong."""
    found = listed(new, "strides", (1,) * axes), listed(new, "dilations", (1,) * axes)
    fits = all(len(x) == axes and min(x) > 0 for x in found)
    return found if fits else None


def padding(new: Definition, axes: int) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
    """The padding before and after each axis that the defined node states, none if `auto_pad` says
    how to pad; None if it is wrong."""
    how = new.node.attributes.get("auto_pad", "NOTSET")
    pads = listed(new, "pads", (0,) * 2 * axes) if how == "NOTSET" else (0,) * 2 * axes
    return (pads[:axes], pads[axes:]) if len(pads) == 2 * axes and how in AUTO_PADS else None


def is_same(new: Definition) -> bool:
    """Whether outputs have the extents of inputs, over strides."""
    return str(new.node.attributes.get("auto_pad", "")).startswith("SAME")


def halves(new: Definition, total: int) -> tuple[int, int]:
    """The padding before and after an axis of which `auto_pad` states the sum."""
    small, large = total // 2, total - total // 2
    is_upper = new.node.attributes.get("auto_pad") == "SAME_UPPER"
    return (small, large) if is_upper else (large, small)


def windows(new: Definition, extents: tuple[int, ...], sizes: tuple[int, ...]) -> Windows | None:
    """The windows of the defined node, a convolution or a pool; None if its attributes are wrong,
    or if windows do not fit or are too large."""
    axes, count = len(extents), 1
    stated, pads = steps(new, axes), padding(new, axes)
    for size in sizes:
        count *= size
    if len(sizes) != axes or stated is None or pads is None or not 0 < count <= MOST_TAPS:
        return None
    starts, ends, counts = list(pads[0]), list(pads[1]), list[int]()
    for a, (extent, span) in enumerate(zip(extents, spans(sizes, stated[1]), strict=True)):
        stride = stated[0][a]
        if is_same(new):
            starts[a], ends[a] = halves(
                new, max(0, (-(-extent // stride) - 1) * stride + span - extent)
            )
        rest = extent + starts[a] + ends[a] - span
        if rest < 0:
            return None
        outputs = rest // stride + 1
        if (
            whole(new.node, "ceil_mode", 0)
            and rest % stride
            and outputs * stride < extent + starts[a]
        ):
            outputs += 1
            ends[a] += outputs * stride - stride - rest
        counts.append(outputs)
    return Windows(sizes, *stated, tuple(starts), tuple(ends), tuple(counts))
