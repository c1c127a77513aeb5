"""Layers of known operators, written down by hand."""

from __future__ import annotations

from penstock.tiling.layer import Axis, Dimension, Layer, LayerOperand


def convolution(
    shape: tuple[int, int, int, int],
    outputs: int,
    window: tuple[int, int],
    stride: tuple[int, int] = (1, 1),
    *,
    same: bool = True,
    element_bytes: int = 2,
) -> Layer:
    """Of an input (N, H, W, C); `same`: padded by one less than the window, the odd one before."""
    n, *extents, c = shape
    slid: list[Dimension] = []
    axes = [Axis("n", n)]
    for name, extent, size, step in zip("hw", extents, window, stride, strict=True):
        padding = size - 1 if same else 0
        before = padding - padding // 2
        axes.append(Axis(name, (extent + padding - size) // step + 1))
        slid.append(Dimension.sliding(extent, name, window=size, stride=step, before=before))
    batch, deep, wide = Dimension(n, "n"), Dimension(c, "c"), Dimension(outputs, "k")
    plain = tuple(Dimension(axis.extent, axis.name) for axis in axes[1:])
    taps = (Dimension(window[0]), Dimension(window[1]))
    return Layer(
        "convolution",
        (*axes, Axis("k", outputs), Axis("c", c)),
        (
            LayerOperand("x", "input", (batch, *slid, deep), element_bytes),
            LayerOperand("w", "weights", (wide, *taps, deep), element_bytes),
        ),
        LayerOperand("y", "output", (batch, *plain, wide), element_bytes),
        window[0] * window[1],
    )
