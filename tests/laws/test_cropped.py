"""Law of cropped operators: they compute a region of the output from the regions that it needs."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.small_tensors import Sample
from found import SAMPLES, few, inputs_of
from penstock.ir.op import Croppable, Site
from penstock.ir.tensor import Data, Region
from strategies import intervals, seeds

CASES = [
    pytest.param(sample, id=name)
    for name, sample in SAMPLES
    if isinstance(sample.op, Croppable) and sample.site.output.rank == 4
]


@pytest.mark.parametrize("sample", CASES)
@few
@given(data=st.data(), seed=seeds)
def test_a_cropped_operator_computes_its_region(
    sample: Sample, data: st.DataObject, seed: int
) -> None:
    op, site = sample.op, sample.site
    n, height, width, channels = site.output.shape
    rows, columns = (data.draw(intervals(extent)) for extent in (height, width))
    out = Region.of((0, n), rows, columns, (0, channels))
    assert isinstance(op, Croppable)
    cropped = op.cropped(site, out)
    if out.empty or cropped is None:
        return
    needs = op.needs(site, out)
    whole = inputs_of(site, seed)
    inputs = tuple(x[need.slices] for x, need in zip(whole, needs, strict=True))
    types = tuple(t.with_shape(x.shape) for t, x in zip(site.inputs, inputs, strict=True))
    assert cropped.result_type(types).shape == out.shape
    constants = tuple(
        None if data is None else Data.of(np.ascontiguousarray(x))
        for data, x in zip(site.constants, inputs, strict=True)
    )
    small = Site(types, site.output.with_shape(out.shape), constants)
    found = cropped.evaluate(small, inputs, Region.whole(out.shape))
    np.testing.assert_array_equal(found, op.evaluate(site, whole, out))
    assert cropped.needs(small, Region.whole(out.shape)) == tuple(
        Region.whole(t.shape) for t in types
    )
