"""Windows of ONNX convolutions and pooling, from the node's attributes.

Source: ONNX operator specification, Conv, MaxPool and AveragePool.
"""

from __future__ import annotations

from dataclasses import replace

from penstock.ir.onnx_node import OnnxNode
from penstock.opkit.checks import require
from penstock.opkit.window import Window

MOST = 2**31
AUTO_PADS = ("NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID")


def pair(
    node: OnnxNode, attribute: str, default: tuple[int, ...] = (1, 1), least: int = 1
) -> tuple[int, int]:
    """An attribute as (rows, columns); 1-D operators have the default for columns."""
    values = node.integers(attribute, default)
    require(
        len(values) in (1, 2) and all(least <= value < MOST for value in values),
        f"attribute {attribute} is {list(values)}, must be one or two numbers of at least {least}",
    )
    return values[0], values[1] if len(values) == 2 else default[1]


def windows(node: OnnxNode, size: tuple[int, int]) -> tuple[Window, Window]:
    """Windows of `size` along rows and columns of input 0, (N, H, W, C).  Resolves SAME padding."""
    x = node.input(0).type
    strides, dilations = pair(node, "strides"), pair(node, "dilations")
    plain = tuple(Window(size[a], strides[a], dilations[a]) for a in range(2))
    how = node.text("auto_pad", "NOTSET")
    if how not in AUTO_PADS:
        raise node.unsupported(f"auto_pad is {how}, must be one of {', '.join(AUTO_PADS)}")
    if how == "VALID":
        rows, columns = plain
    elif how == "NOTSET":
        rows, columns = _padded(node, plain)
    else:
        same = tuple(
            Window.same(x.shape[a + 1], size[a], strides[a], dilations[a]) for a in range(2)
        )
        rows, columns = same if how == "SAME_UPPER" else tuple(map(_odd_pad_first, same))
    if node.integer("ceil_mode"):
        rows, columns = _up(rows, x.shape[1]), _up(columns, x.shape[2])
    return rows, columns


def _padded(node: OnnxNode, plain: tuple[Window, ...]) -> tuple[Window, ...]:
    """Windows padded by the attribute `pads`, which lists starts of all axes, then ends."""
    pads = node.integers("pads", (0, 0, 0, 0))
    require(
        len(pads) in (2, 4) and all(0 <= pad < MOST for pad in pads),
        f"attribute pads is {list(pads)}, must be a number of at least 0 for each end of each axis",
    )
    axes = len(pads) // 2
    return tuple(
        replace(window, before=pads[a], after=pads[a + axes]) if a < axes else window
        for a, window in enumerate(plain)
    )


def _odd_pad_first(window: Window) -> Window:
    return replace(window, before=window.after, after=window.before)


def _up(window: Window, extent: int) -> Window:
    """The window with a partial last output (`ceil_mode`), unless it would start in padding."""
    total = extent + window.before + window.after - window.extent
    outputs = -(-total // window.stride) + 1
    if (outputs - 1) * window.stride >= extent + window.before:
        outputs -= 1
    missing = (outputs - 1) * window.stride - total
    return replace(window, after=window.after + max(0, missing))
