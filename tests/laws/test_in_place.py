"""Law: over an input that `in_place` names, the output may be written while the input is read.

Region by region in any order, each result goes into the bytes of that input before the next region
reads them; regions are single elements or the pieces of a partition.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.small_tensors import Sample
from found import SAMPLES, few, inputs_of
from penstock.ir.op import Site
from penstock.ir.tensor import Array, Region
from strategies import partitions, seeds

CASES = [
    pytest.param(sample, k, id=f"{name}-{k}")
    for name, sample in SAMPLES
    if not sample.op.ALIAS
    for k in sample.op.in_place(sample.site)
]


def single_elements(site: Site, rng: np.random.Generator) -> Sequence[Region]:
    """Every element of the output as a region, in random order."""
    indices = rng.permutation(list(np.ndindex(site.output.shape)))
    return [Region(tuple(map(int, i)), tuple(int(x) + 1 for x in i)) for i in indices]


def written_over(
    sample: Sample, k: int, inputs: tuple[Array, ...], order: Sequence[Region]
) -> Array:
    """The output, computed region by region into the bytes of input k."""
    site = sample.site
    shared = inputs[k].copy()
    output = shared.view(site.output.dtype.value)
    for region in order:
        now = (*inputs[:k], shared.copy(), *inputs[k + 1 :])
        output[region.slices] = sample.op.evaluate(site, now, region)
    return output


@pytest.mark.parametrize(("sample", "k"), CASES)
@few
@given(data=st.data(), seed=seeds)
def test_the_output_may_be_written_over_the_input(
    sample: Sample, k: int, data: st.DataObject, seed: int
) -> None:
    site = sample.site
    inputs = inputs_of(site, seed)
    expected = sample.op.evaluate(site, inputs, Region.whole(site.output.shape))
    singles = site.output.elements <= 200 and data.draw(st.booleans())
    rng = np.random.default_rng(seed)
    order = single_elements(site, rng) if singles else data.draw(partitions(site.output.shape))
    np.testing.assert_array_equal(written_over(sample, k, inputs, order), expected)


@pytest.mark.parametrize(("sample", "k"), CASES)
def test_input_and_output_in_place_have_equal_elements(sample: Sample, k: int) -> None:
    there, here = sample.site.inputs[k], sample.site.output
    assert (there.shape, there.dtype.size_bytes) == (here.shape, here.dtype.size_bytes)
    assert sample.site.constants[k] is None
    needed = sample.op.needs(sample.site, Region.whole(here.shape))
    assert needed[k] == Region.whole(there.shape)
