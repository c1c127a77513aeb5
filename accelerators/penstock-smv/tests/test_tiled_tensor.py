"""Tiled tensors: halos and offsets, copies in and out, and computation tile by tile."""

from __future__ import annotations

import re
from random import Random

import numpy as np
import pytest

from benchmarks.small_tensors import bias, int8, sample, weights
from found import inputs_of
from penstock.errors import UsageError
from penstock.ir.tensor import Array, Region
from penstock.opkit.sliding import Window
from penstock.ops.convolutions import Conv2D
from penstock.tiling.layer import Scratchpads, layer_of
from penstock.tiling.least_traffic import LeastTraffic
from penstock_smv.tiled_tensor import SlidingWindow, TiledTensor


def numbered(*shape: int) -> Array:
    return np.arange(np.prod(shape), dtype=np.int32).reshape(shape)


def test_tiles_with_halos_are_untiled_to_the_original() -> None:
    window = SlidingWindow(3, before=1, after=1)
    tiled = TiledTensor.sliding((1, 14, 9, 20), (1, 6, 9, 8), (None, window, window, None))
    tensor = numbered(1, 14, 9, 20)
    pieces = tiled.copy_in(tensor)
    assert tiled.grid == (1, 3, 1, 3)
    assert [tile.offset[1] for tile in tiled.tiles()][::3] == [0, 4, 8]
    assert tiled.tile(0, 1, 0, 0).halo == ((0, 0), (2, 0), (0, 0), (0, 0))
    assert tiled.tile(0, 0, 0, 0).padding[1] == (1, 0)
    assert np.array_equal(pieces[3], tensor[:, 4:10, :, :8])
    assert np.array_equal(tiled.untiled(pieces), tensor)
    pieces[0][:] = 0
    assert not np.array_equal(tensor[tiled.tile(0, 0, 0, 0).region.slices], pieces[0])


@pytest.mark.parametrize("seed", range(40))
def test_tiles_of_any_window_hold_what_its_positions_read(seed: int) -> None:
    """Every position of the window, padding included, lies within one tile."""
    dice = Random(seed)
    size, stride, extent = dice.randint(1, 5), dice.randint(1, 3), dice.randint(8, 60)
    before = -(-(size - 1) // 2) if dice.random() < 0.5 else 0
    after = size - 1 - before if before else 0
    tile = dice.randint(size + stride, extent)
    window = SlidingWindow(size, stride, before, after)
    tiles = list(TiledTensor.sliding((extent,), (tile,), (window,)).tiles())
    held = [set(range(*t.region.intervals[0])) for t in tiles]
    assert all(len(each) <= tile for each in held)
    if stride <= size:
        assert set.union(*held) == set(range(extent))
        tiled = TiledTensor.sliding((extent,), (tile,), (window,))
        tensor = numbered(extent)
        assert np.array_equal(tiled.untiled(tiled.copy_in(tensor)), tensor)
    for start in range(-before, extent + after - size + 1, stride):
        read = {i for i in range(start, start + size) if 0 <= i < extent}
        assert any(read <= each for each in held), start


def test_a_row_of_elements_takes_a_tensor_of_any_shape() -> None:
    tensor = numbered(2, 5, 7)
    tiled = TiledTensor.row(tensor.shape, 32)
    assert [piece.shape for piece in tiled.copy_in(tensor)] == [(1, 32), (1, 32), (1, 6)]
    assert np.array_equal(tiled.untiled(tiled.copy_in(tensor)).reshape(2, 5, 7), tensor)


def test_a_convolution_is_computed_tile_by_tile() -> None:
    """From pieces of the input with halos to pieces of the output; all else is poison."""
    case = sample(
        Conv2D(Window(3, 2, 1, 1, 1), Window(3, 1, 1, 1, 1)),
        int8(1, 13, 10, 4),
        weights(8, 3, 3, 4),
        bias(8),
    )
    op, site = case.op, case.site
    layer = layer_of(op, site)
    tiler = LeastTraffic(frozenset({"n", "h", "w", "c"}))
    tiling = tiler.tile(layer, Scratchpads.shared(700))
    reads, writes = (TiledTensor.of(tiling, o) for o in (layer.inputs[0], layer.output))
    x, *constants = inputs_of(site, 1)
    pieces, made = reads.copy_in(x), list[Array]()
    tiles = {tile.index: piece for tile, piece in zip(reads.tiles(), pieces, strict=True)}
    for tile in writes.tiles():
        index = (*tile.index[:3], 0)
        seen = np.full_like(x, 77)
        seen[reads.tile(*index).region.slices] = tiles[index]
        made.append(op.evaluate(site, (seen, *constants), tile.region))
    assert len(made) > 3
    assert any(any(shared) for tile in reads.tiles() for shared in tile.halo)
    whole = op.evaluate(site, (x, *constants), Region.whole(site.output.shape))
    assert np.array_equal(writes.untiled(made), whole)
    assert np.array_equal(reads.untiled(pieces), x)


@pytest.mark.parametrize(
    ("pieces", "message"),
    [
        ([numbered(4)], "1 pieces of 3 tiles"),
        ([numbered(4), numbered(3), numbered(4)], "piece of tile [1] has shape [3]"),
        ([numbered(4), numbered(4), numbered(4)], "halo of tile [1] differs from other tiles"),
    ],
)
def test_pieces_that_do_not_fit_are_errors(pieces: list[Array], message: str) -> None:
    tiled = TiledTensor.sliding((8,), (4,), (SlidingWindow(3, before=1, after=1),))
    with pytest.raises(UsageError, match=re.escape(message)):
        tiled.untiled(pieces)


def test_elements_that_no_window_reads_cannot_be_untiled() -> None:
    tiled = TiledTensor.sliding((9,), (1,), (SlidingWindow(1, 3),))
    with pytest.raises(UsageError, match="no tile holds some elements"):
        tiled.untiled(tiled.copy_in(numbered(9)))


def test_tiles_smaller_than_a_window_are_errors() -> None:
    with pytest.raises(UsageError, match="smaller than a window of 3"):
        TiledTensor.sliding((9,), (2,), (SlidingWindow(3),))
    with pytest.raises(UsageError, match=re.escape("there is no tile [2] in a grid of [2]")):
        TiledTensor.split((9,), (5,)).tile(2)
