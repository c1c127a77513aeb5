"""Law: a region of the output, computed from only the input regions that `needs` names, with poison
everywhere else (and, where the operator goes on from there, the row before), has the numbers of the
whole; and `needs` stays inside the tensors."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from found import every_sample, few, inputs_of, with_before
from penstock.ir.op import Sample
from penstock.ir.region import Region
from penstock.ir.tensor import Array
from strategies import regions, seeds

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
