"""Law: a region of the output, computed from only the input regions that `needs` names, with poison
everywhere else (and, where the operator goes on from there, the row before), has the numbers of the
whole; and `needs` stays inside the tensors.

Rows of a region need what each of them needs, and no more: schedules are made of the needs of
single rows, and kernels are called for several."""

from __future__ import annotations

from functools import reduce

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.small_tensors import Sample
from found import every_sample, few, inputs_of, with_before
from penstock.ir.tensor import Array, Interval, Region, row_axis
from random_layers import random_layer
from strategies import intervals, regions, seeds

POISONS = (b"\x80", b"\x7f", b"\x00", b"\xff", b"\xa5")
"""Bytes that elements outside `needs` are made of; booleans hold one bit of them."""


def poisoned(array: Array, keep: Region, poison: bytes) -> Array:
    """The elements of region `keep`, and poison elsewhere."""
    if array.dtype == np.bool_:
        result = np.full(array.shape, poison[0] % 2 == 1)
    else:
        result = np.frombuffer(poison * array.nbytes, array.dtype).reshape(array.shape).copy()
    result[keep.slices] = array[keep.slices]
    return result


@every_sample
@few
@given(data=st.data(), seed=seeds)
def test_a_region_is_independent_of_elements_outside_its_needs(
    sample: Sample, data: st.DataObject, seed: int
) -> None:
    op, site = sample.op, sample.site
    inputs = inputs_of(site, seed)
    out = data.draw(regions(site.output.shape))
    whole = op.evaluate(site, inputs, Region.whole(site.output.shape))
    expected = whole[out.slices]
    needed = op.needs(site, out)
    for poison in POISONS:
        stripes = tuple(poisoned(x, need, poison) for x, need in zip(inputs, needed, strict=True))
        result = op.evaluate(site, with_before(sample, stripes, out, whole), out)
        assert (result.shape, result.dtype) == (expected.shape, expected.dtype)
        np.testing.assert_array_equal(result, expected)


@every_sample
@few
@given(data=st.data())
def test_needed_regions_are_clipped_and_monotonic(sample: Sample, data: st.DataObject) -> None:
    op, site = sample.op, sample.site
    out = data.draw(regions(site.output.shape))
    part = data.draw(regions(out.shape)).shift(out.lower)
    needed, needed_by_part = op.needs(site, out), op.needs(site, part)
    assert len(needed) == len(needed_by_part) == len(site.inputs)
    for need, part_need, type in zip(needed, needed_by_part, site.inputs, strict=True):
        assert len(need.lower) == type.rank
        assert Region.whole(type.shape).contains(need)
        assert need.contains(part_need)


def assert_rows_need_the_same_together(sample: Sample, axis: int, rows: Interval) -> None:
    """Along an axis of the output; outputs that read nothing do not count."""
    op, site = sample.op, sample.site
    whole = Region.whole(site.output.shape)
    together = op.needs(site, whole.replace(axis, rows))
    alone = [op.needs(site, whole.replace(axis, (row, row + 1))) for row in range(*rows)]
    for k, need in enumerate(together):
        parts = [each[k] for each in alone if not each[k].empty]
        hull = reduce(Region.hull, parts) if parts else None
        assert (None if need.empty else need) == hull, f"input {k}, axis {axis}, {rows}"


@every_sample
@few
@given(data=st.data())
def test_several_rows_need_what_each_of_them_needs(sample: Sample, data: st.DataObject) -> None:
    shape = sample.site.output.shape
    if len(shape) < 2:
        return
    axes = {row_axis(len(shape)), *((2,) if len(shape) == 4 else ())}
    for axis in sorted(axes):
        assert_rows_need_the_same_together(sample, axis, data.draw(intervals(shape[axis])))


@given(number=st.integers(0, 2**32 - 1), data=st.data())
def test_several_rows_of_random_layers_need_what_each_of_them_needs(
    number: int, data: st.DataObject
) -> None:
    """Also of windows that lie in padding alone."""
    sample = random_layer(number)
    shape = sample.site.output.shape
    if len(shape) == 4:
        for axis in (1, 2):
            assert_rows_need_the_same_together(sample, axis, data.draw(intervals(shape[axis])))
