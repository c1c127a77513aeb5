"""Small layers and scratchpads, drawn at random."""

from __future__ import annotations

from fractions import Fraction
from random import Random

from penstock.tiling.layer import (
    Axis,
    Copies,
    Dimension,
    Layer,
    LayerOperand,
    Scratchpad,
    Scratchpads,
)


def drawn(seed: int) -> tuple[Layer, Scratchpads]:
    """A layer of at most a hundred points or so, and memories that hold it in part."""
    dice = Random(seed)
    layer = dice.choice((_products, _products, _products, _windows, _shares, _enlarged))(dice)
    for axis in layer.axes:
        if dice.random() < 0.3:
            layer = layer.with_axis(
                axis.name,
                least=dice.randint(1, axis.extent),
                step=dice.randint(1, 2),
                lanes=dice.randint(1, 3),
            )
    return layer, _memories(dice, layer)


def _memories(dice: Random, layer: Layer) -> Scratchpads:
    alignment = dice.choice((1, 1, 2, 4))
    whole = {"input": 0, "weights": 0, "output": 0}
    for operand in layer.operands:
        size = operand.unfinished_bytes
        for n in operand.shape:
            size *= n
        whole[operand.role] += size
    sizes = {r: max(4, int(n * dice.uniform(0.25, 1.3))) for r, n in whole.items()}
    copies = Copies(dice.randint(1, 8), dice.randint(0, 5), dice.randint(0, 20))
    if dice.random() < 0.5:
        total = max(8, int(sum(whole.values()) * dice.uniform(0.25, 1.1)))
        memories = (Scratchpad("local", total, ("input", "weights", "output"), alignment),)
    elif dice.random() < 0.5:
        memories = tuple(Scratchpad(r, n, (r,), alignment) for r, n in sizes.items())
    else:
        both = Scratchpad("first", sizes["input"] + sizes["weights"], ("weights", "input"))
        memories = (both, Scratchpad("second", sizes["output"], ("output",), alignment))
    return Scratchpads(memories, dice.random() < 0.5, dice.random() < 0.7, copies)


def _extents(dice: Random, names: str, most: int) -> dict[str, int]:
    """Extents whose product is at most `most`; a few axes, and not always the same, are long."""
    extents = dict.fromkeys(names, 1)
    for name in dice.sample(names, len(names)):
        room = most
        for n in extents.values():
            room //= n
        extents[name] = dice.randint(1, max(1, min(room, 7)))
    return extents


def _slid(dice: Random, axis: str, outputs: int) -> Dimension:
    """A dimension under a window that makes so many outputs, padded or not."""
    stride, window = dice.randint(1, 3), dice.randint(1, 4)
    before, after = dice.randint(0, window - 1), dice.randint(0, window - 1)
    size = (outputs - 1) * stride + window - before - after
    if size < 1:
        before, size = 0, size + before
    if size < 1:
        size += after
    unread = dice.randint(0, stride - 1) if dice.random() < 0.2 else 0
    return Dimension.sliding(size + unread, axis, window=window, stride=stride, before=before)


def _products(dice: Random) -> Layer:
    """Windows of weights, summed over c."""
    n = _extents(dice, "nhwkc", 60)
    axes = tuple(Axis(name, extent) for name, extent in n.items())
    rows, columns = _slid(dice, "h", n["h"]), _slid(dice, "w", n["w"])
    batch, deep = Dimension(n["n"], "n"), Dimension(n["c"], "c")
    size = dice.randint(1, 2)
    inputs = [
        LayerOperand("x", "input", (batch, rows, columns, deep), size),
        LayerOperand("w", "weights", (
            Dimension(n["k"], "k"), Dimension(rows.window), Dimension(columns.window), deep
        ), size),
    ]  # fmt: skip
    if dice.random() < 0.3:
        inputs.append(LayerOperand("b", "weights", (Dimension(n["k"], "k"),), 4))
    return Layer(
        "products",
        axes,
        tuple(inputs),
        LayerOperand("y", "output", _plain(n, "nhwk"), size, dice.choice((None, 4))),
        dice.randint(1, 9),
    )


def _windows(dice: Random) -> Layer:
    """Windows without weights; sometimes a whole dimension is summed over."""
    n = _extents(dice, "hwc", 70)
    axes = tuple(Axis(name, extent) for name, extent in n.items())
    rows, columns = _slid(dice, "h", n["h"]), _slid(dice, "w", n["w"])
    x = LayerOperand("x", "input", (rows, columns, Dimension(n["c"], "c")))
    follows = dice.choice(("hwc", "hw", "c"))
    y = LayerOperand("y", "output", _plain(n, follows), 1, dice.choice((None, 4)))
    return Layer("windows", axes, (x,), y)


def _shares(dice: Random) -> Layer:
    """Two inputs, the second stretched along some axes."""
    n = _extents(dice, "hwc", 70)
    axes = tuple(Axis(name, extent) for name, extent in n.items())
    other = tuple(
        Dimension(1) if dice.random() < 0.5 else Dimension(n[name], name) for name in "hwc"
    )
    role = dice.choice(("input", "weights"))
    inputs = (LayerOperand("a", "input", _plain(n, "hwc")), LayerOperand("b", role, other, 2))
    return Layer("shares", axes, inputs, LayerOperand("y", "output", _plain(n, "hwc")))


def _enlarged(dice: Random) -> Layer:
    """Each element of the input makes several of the output."""
    n = _extents(dice, "hc", 40)
    times = dice.randint(2, 3)
    rows = -(-n["h"] // times) + dice.randint(0, 1)
    x = LayerOperand("x", "input", (
        Dimension(rows, "h", Fraction(1, times), dice.choice((0, 1)), dice.choice((0, -1))),
        Dimension(n["c"], "c"),
    ))  # fmt: skip
    axes = tuple(Axis(name, extent) for name, extent in n.items())
    return Layer("enlarged", axes, (x,), LayerOperand("y", "output", _plain(n, "hc")))


def _plain(n: dict[str, int], names: str) -> tuple[Dimension, ...]:
    return tuple(Dimension(n[name], name) for name in names)
