"""SMAUG's pieces under any stride, against its procedure written out step by step.

Source of the procedure: SMAUG (harvard-acc/smaug 8fd68e6),
`generateTiledTensorWithStrideAndPadding` and `generateRowwiseOutputTiledTensor`, in our own words.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

import pytest

from penstock.errors import CapacityError
from penstock.tiling.layer import Dimension, Layer, LayerOperand, Scratchpads
from penstock.tiling.least_traffic import LeastTraffic
from penstock.tiling.nest import Tiler, Tiling, choose
from penstock_smv.smaug import Smaug
from penstock_smv.smaug_shapes import Piece
from tile_layers import convolution

SIZED = Scratchpads.separate(32768, 32768, 32768, alignment=8)
DRAWN = 600


def input_rows(size: int, tile: int, window: int, stride: int, top: int) -> list[Piece]:
    """Take tiles until no row remains; two tiles share `window - stride` rows, or skip some."""
    found: list[Piece] = []
    start, remaining = 0, size
    while remaining > 0:
        rows = min(tile, remaining)
        moves = (rows + top - window) // stride
        if not found and remaining > tile and moves > 0:
            rows = window + stride * moves - top
        found.append((start, rows))
        start += rows - window + stride
        remaining -= rows
        if remaining > 0:
            remaining += window - stride
    return found


def output_rows(
    inputs: Sequence[int], window: int, stride: int, top: int, bottom: int
) -> list[int]:
    """The rows of output that each tile of the input makes; a last one that makes none is left."""
    count = len(inputs) - (inputs[-1] + bottom < window)
    padding = [0] * count
    padding[-1] = bottom
    padding[0] = top
    return [(inputs[k] + padding[k] - window) // stride + 1 for k in range(count)]


def pooling(shape: tuple[int, int, int, int], window: int, stride: int) -> Layer:
    """A pool of square windows without padding: a convolution less its weights and its sum."""
    whole = convolution(shape, shape[3], (window, window), (stride, stride), same=False)
    batch, rows, columns, _ = whole.inputs[0].dimensions
    x = LayerOperand("x", "input", (batch, rows, columns, Dimension(shape[3], "k")), 2)
    return Layer("pool", whole.axes[:4], (x,), whole.output, window * window)


def test_the_last_rows_that_no_window_reads_make_no_tile() -> None:
    """A projection shortcut of ResNet-50: a window of 1 x 1 that moves by 2."""
    layer = convolution((1, 56, 56, 256), 512, (1, 1), (2, 2))
    rows = Smaug().tensor_pieces(layer, SIZED)["input"][1]
    assert rows == tuple((row, 1) for row in range(0, 56, 2))


@pytest.mark.parametrize("same", [False, True])
def test_pieces_are_those_of_smaug_s_procedure_under_any_stride(same: bool) -> None:
    cut = beyond = 0
    for seed in range(DRAWN):
        dice = Random(seed)
        window, stride = dice.randint(1, 5), dice.randint(1, 6)
        shape = (1, dice.randint(8, 70), dice.randint(8, 70), dice.choice((32, 64, 256, 512)))
        layer = convolution(
            shape, dice.choice((8, 64, 256)), (window, 3), (stride, dice.randint(1, 6)), same=same
        )
        try:
            shapes = Smaug().tensor_shapes(layer, SIZED)
        except CapacityError:
            continue
        top = (window - 1) - (window - 1) // 2 if same else 0
        bottom = window - 1 - top if same else 0
        expected = input_rows(shape[1], shapes.tiles["input"][1], window, stride, top)
        pieces = Smaug().tensor_pieces(layer, SIZED)
        assert list(pieces["input"][1]) == expected, f"seed {seed}"
        if shapes.dims["output"].needs("H"):
            made = output_rows([n for _, n in expected], window, stride, top, bottom)
            assert [n for _, n in pieces["output"][1]] == made, f"seed {seed}"
            cut += 1
            beyond += stride > window
    assert cut > DRAWN // 4
    assert beyond > DRAWN // 20


def test_pools_whose_stride_exceeds_the_window_have_no_empty_tile() -> None:
    cut = 0
    for seed in range(200):
        dice = Random(seed)
        window = dice.randint(1, 3)
        stride, extent = window + dice.randint(1, 4), dice.randint(20, 90)
        shape = (1, extent, dice.randint(20, 90), dice.choice((8, 64, 128)))
        layer = pooling(shape, window, stride)
        shapes = Smaug().tensor_shapes(layer, SIZED)
        pieces = Smaug().tensor_pieces(layer, SIZED)["input"]
        for axis in (1, 2):
            tile = shapes.tiles["input"][axis]
            assert list(pieces[axis]) == input_rows(shape[axis], tile, window, stride, 0)
            cut += len(pieces[axis]) > 1
    assert cut > 100


@pytest.mark.parametrize("tiler", [Smaug(), LeastTraffic()], ids=["smaug", "least_traffic"])
def test_tiles_hold_what_windows_read_and_no_tile_is_empty(tiler: Tiler) -> None:
    """Each tile of the input begins and ends with an element that a window in the tile reads."""
    cut = 0
    for seed in range(150):
        dice = Random(seed)
        window = (dice.randint(1, 3), dice.randint(1, 3))
        stride = (window[0] + dice.randint(1, 3), window[1] + dice.randint(0, 3))
        shape = (1, dice.randint(8, 60), dice.randint(8, 60), dice.choice((3, 32, 128, 256)))
        outputs, same = dice.choice((8, 64, 512)), dice.random() < 0.5
        layer = convolution(shape, outputs, window, stride, same=same)
        try:
            tiling = choose(tiler, layer, SIZED)
        except CapacityError:
            continue
        assert_reads_exactly(tiling)
        cut += tiling.count > 1
    assert cut > 50


def assert_reads_exactly(tiling: Tiling) -> None:
    """Compare each tile with the elements of the input that the windows of its points read."""
    x = tiling.layer.inputs[0]
    for axis, d in (("h", x.dimensions[1]), ("w", x.dimensions[2])):
        stride, tiles = int(d.factor), tiling.tiles[axis]
        assert [lower for lower, _ in tiles] == [0, *(upper for _, upper in tiles[:-1])]
        assert tiles[-1][1] == tiling.layer.axis(axis).extent
        for lower, upper in tiles:
            read = [
                at
                for point in range(lower, upper)
                for at in range(point * stride - d.before, point * stride - d.before + d.window)
                if 0 <= at < d.size
            ]
            assert read, "a tile reads nothing"
            assert d.needs((lower, upper)) == (min(read), max(read) + 1)
    for step in tiling.steps():
        assert not any(copy.region.empty for copy in (*step.loads, *step.stores))
