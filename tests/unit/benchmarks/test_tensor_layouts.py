"""Layout: its affine forms against the stored index of every element."""

from __future__ import annotations

from itertools import product

from hypothesis import given
from hypothesis import strategies as st

from benchmarks.tensor_layouts import NHCWB16, NHWC, between
from penstock.ir.affine import Affine
from penstock.ir.tensor import Region
from strategies import regions

SHAPE = (2, 3, 2, 37)
STORED = (2, 3, 3, 2, 16)


def stored_index(n: int, h: int, w: int, c: int) -> tuple[int, ...]:
    return (n, h, c // 16, w, c % 16)


def hull(indices: list[tuple[int, ...]]) -> Region:
    axes = list(zip(*indices, strict=True))
    return Region(tuple(map(min, axes)), tuple(max(axis) + 1 for axis in axes))


def elements(box: Region) -> list[tuple[int, ...]]:
    return list(product(*(range(*interval) for interval in box.intervals)))


@given(box=regions(SHAPE))
def test_a_box_is_packed_into_the_smallest_box_of_whole_blocks(box: Region) -> None:
    stored = hull([stored_index(*index) for index in elements(box)])
    assert NHCWB16.pack.apply(box) == stored.replace(4, (0, 16))


@given(box=regions(STORED))
def test_unpacking_contains_every_element_that_is_stored_there(box: Region) -> None:
    every = elements(Region.whole(SHAPE))
    held = [index for index in every if stored_index(*index) in set(elements(box))]
    named = NHCWB16.unpack.apply(box).meet(Region.whole(SHAPE))
    assert not held or named.contains(hull(held))
    whole = box.replace(4, (0, 16))
    assert NHCWB16.unpack.apply(whole) == NHCWB16.unpack.apply(box)


@given(channels=st.integers(1, 70), blocks=st.integers(0, 4))
def test_unpacking_the_end_of_a_tensor_ends_with_the_tensor(channels: int, blocks: int) -> None:
    shape = (1, 3, 5, channels)
    stored = Region.whole(NHCWB16.stored_shape(shape))
    first = min(blocks, stored.upper[2] - 1)
    tail = stored.replace(2, (first, stored.upper[2]))
    expected = Region.whole(shape).replace(3, (first * 16, channels))
    assert NHCWB16.unpack_whole(shape).apply(tail) == expected


def test_a_box_that_ends_before_the_last_block_is_named_too_small() -> None:
    box = Region((0, 0, 0, 0, 0), (2, 3, 1, 2, 16))
    assert NHCWB16.unpack_whole(SHAPE).apply(box).intervals[3] == (0, 5)
    assert NHCWB16.unpack.apply(box).intervals[3] == (0, 16)


@given(box=regions(SHAPE))
def test_packed_and_unpacked_again_a_box_is_still_there(box: Region) -> None:
    assert (NHCWB16.unpack @ NHCWB16.pack).apply(box).contains(box)
    assert NHWC.pack.apply(box) == NHWC.unpack.apply(box) == box


def test_layouts_on_both_sides_leave_whole_tensors_whole() -> None:
    conv = Affine.diagonal((1, 1, 1, 0), extra=(0, 2, 2, 57))
    shape = (1, 10, 13, 20)
    for x, y in product((NHWC, NHCWB16), repeat=2):
        form = between(conv, x, y, shape)
        assert form.extents(y.stored_shape(shape)) == x.stored_shape((1, 12, 15, 57))
