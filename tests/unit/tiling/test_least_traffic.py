"""The default tiler: as good as a walk through every tiling, and fast where no walk is possible."""

from __future__ import annotations

from time import process_time

import pytest
from drawn_layers import drawn

from penstock.errors import CapacityError, UsageError
from penstock.tiling.layer import Layer, Scratchpads
from penstock.tiling.least_traffic import LeastTraffic
from penstock.tiling.nest import Cut, Dims, Nest, TileShape, Tiling, choose
from tile_layers import convolution
from tiling_judge import least

SMAUG_SIZED = Scratchpads.separate(32768, 32768, 32768, alignment=8)
"""Bytes of elements of 2 bytes, as SMAUG's engine has them."""
VGG = (
    (224, 3, 64), (224, 64, 64), (112, 64, 128), (112, 128, 128), (56, 128, 256), (56, 256, 256),
    (56, 256, 256), (28, 256, 512), (28, 512, 512), (28, 512, 512), (14, 512, 512), (14, 512, 512),
    (14, 512, 512),
)  # fmt: skip
"""Rows and columns, channels, outputs of VGG-16's layers of 3 x 3."""


def found(layer: Layer, scratchpads: Scratchpads) -> Tiling | None:
    try:
        return LeastTraffic().tile(layer, scratchpads)
    except CapacityError:
        return None


@pytest.mark.parametrize(
    "first",
    [*range(0, 100, 25), *(pytest.param(n, marks=pytest.mark.long) for n in range(100, 200, 25))],
)
def test_nothing_is_better_than_what_it_finds_for_25_layers(first: int) -> None:
    cut = 0
    for seed in range(first, first + 25):
        layer, scratchpads = drawn(seed)
        tiling = found(layer, scratchpads)
        ours = None if tiling is None else (tiling.bytes, tiling.cycles)
        assert ours == least(layer, scratchpads), f"seed {seed}"
        cut += tiling is not None and tiling.count > 1
    assert cut > 10, "hardly any layer is cut"


def test_a_layer_that_smaug_cannot_tile_is_tiled_at_once() -> None:
    layer = convolution((1, 224, 224, 64), 64, (3, 3))
    LeastTraffic().tile(convolution((1, 4, 4, 4), 4, (3, 3)), SMAUG_SIZED)  # compiled by now
    begun = process_time()
    tiling = LeastTraffic().tile(layer, SMAUG_SIZED)
    assert process_time() - begun < 1
    assert not tiling.faults
    lower = sum(m.operand.element_bytes * size for m, size in zip(
        tiling.moved, (224 * 224 * 64, 64 * 64 * 9, 224 * 224 * 64), strict=True
    ))  # fmt: skip
    assert lower < tiling.bytes < 3 * lower


def test_all_of_vgg_takes_seconds() -> None:
    begun = process_time()
    for extent, channels, outputs in VGG:
        layer = convolution((1, extent, extent, channels), outputs, (3, 3))
        assert not LeastTraffic().tile(layer, SMAUG_SIZED).faults
    assert process_time() - begun < 10


def test_many_small_output_channels_move_less_than_half_of_what_smaug_moves() -> None:
    tiling = LeastTraffic().tile(convolution((1, 32, 64, 32), 1024, (2, 2)), SMAUG_SIZED)
    assert tiling.elements <= 2_830_000


@pytest.mark.parametrize("shared_bytes", [20_000, 98_304])
@pytest.mark.parametrize("double_buffered", [False, True])
def test_a_larger_or_shared_memory_never_moves_more(
    shared_bytes: int, double_buffered: bool
) -> None:
    layer = convolution((1, 56, 56, 64), 64, (3, 3))
    small = Scratchpads.shared(shared_bytes, double_buffered=double_buffered)
    large = Scratchpads.shared(2 * shared_bytes, double_buffered=double_buffered)
    tilings = [LeastTraffic().tile(layer, memories) for memories in (small, large)]
    assert not any(tiling.faults for tiling in tilings)
    assert tilings[1].bytes <= tilings[0].bytes


def test_choosing_by_the_protocol_is_as_good_as_one_search() -> None:
    for seed in range(20):
        layer, scratchpads = drawn(seed)
        tiling = found(layer, scratchpads)
        if tiling is not None:
            chosen = choose(LeastTraffic(), layer, scratchpads)
            assert (chosen.bytes, chosen.cycles) == (tiling.bytes, tiling.cycles)


def test_only_the_axes_that_it_may_cut_are_cut() -> None:
    layer = convolution((1, 56, 56, 64), 64, (3, 3))
    tiling = LeastTraffic(frozenset("hkc")).tile(layer, SMAUG_SIZED)
    assert {name for name, tiles in tiling.tiles.items() if len(tiles) > 1} <= set("hkc")


def test_least_extents_and_steps_are_kept() -> None:
    layer = convolution((1, 30, 30, 48), 60, (3, 3))
    layer = layer.with_axis("k", least=8, step=8).with_axis("c", least=16, step=16)
    tiling = LeastTraffic().tile(layer, Scratchpads.shared(12_000))
    assert {upper - lower for lower, upper in tiling.tiles["k"][:-1]} <= set(range(8, 64, 8))
    assert {upper - lower for lower, upper in tiling.tiles["c"]} <= {16, 32, 48}


def test_sums_stay_where_they_may_not_leave_the_scratchpad() -> None:
    layer = convolution((1, 1, 1, 64), 64, (1, 1))
    tiling = LeastTraffic().tile(layer, Scratchpads.separate(16, 64, 64, spills=False))
    assert not tiling.spilled


def test_a_layer_that_fits_nowhere_is_said() -> None:
    with pytest.raises(CapacityError, match="no tile fits") as caught:
        LeastTraffic().tile(convolution((1, 8, 8, 8), 8, (3, 3)), Scratchpads.shared(8))
    assert caught.value.code == "tiling-003"


class Stated(LeastTraffic):
    """Tries tiles of 64 rows, of 4 and of 32, of which only the second ones fit."""

    def shapes(self, layer: Layer, scratchpads: Scratchpads, dims: Dims) -> tuple[TileShape, ...]:
        extents = {axis.name: axis.extent for axis in layer.axes}
        return tuple(TileShape((*(extents | {"h": rows}).values(),)) for rows in (64, 4, 32))


def test_stated_shapes_that_do_not_fit_are_skipped() -> None:
    layer = convolution((1, 64, 16, 8), 8, (3, 3))
    assert len(choose(Stated(), layer, Scratchpads.shared(6000)).tiles["h"]) == 16
    with pytest.raises(CapacityError, match="too large in every loop order") as caught:
        choose(Stated(), layer, Scratchpads.shared(1000))
    assert caught.value.code == "tiling-003"


class Overlapping(LeastTraffic):
    """Cuts in tiles that do not join."""

    def cut(self, layer: Layer, shape: TileShape) -> tuple[Cut, ...]:
        return tuple((0, axis.extent + 1) for axis in layer.axes)


class Disordered(LeastTraffic):
    """Forgets a loop."""

    def nest(self, layer: Layer, scratchpads: Scratchpads, cuts: object) -> Nest:
        return ("n", "h"), (0, 0, 0)


@pytest.mark.parametrize(("tiler", "words"), [(Overlapping(), "cuts"), (Disordered(), "orders")])
def test_tiles_that_do_not_join_are_refused(tiler: LeastTraffic, words: str) -> None:
    with pytest.raises(UsageError, match=words) as caught:
        choose(tiler, convolution((1, 8, 8, 8), 8, (3, 3)), SMAUG_SIZED)
    assert caught.value.code == "tiling-004"
