"""Law: the type that an operator declares is the type that its arithmetic returns."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from found import every_sample, few, inputs_of
from penstock.ir.op import Sample
from penstock.ir.region import Region
from strategies import regions, seeds


@every_sample
@few
@given(seed=seeds)
def test_the_declared_type_is_that_of_the_arithmetic(sample: Sample, seed: int) -> None:
    site = sample.site
    declared = sample.op.result_type(site.inputs)
    assert (declared.shape, declared.dtype) == (site.output.shape, site.output.dtype)
    result = sample.op.evaluate(site, inputs_of(site, seed), Region.whole(declared.shape))
    assert (result.shape, result.dtype.name) == (declared.shape, declared.dtype.value)


@every_sample
@few
@given(data=st.data(), seed=seeds)
def test_a_region_of_the_output_has_the_shape_of_the_region(
    sample: Sample, data: st.DataObject, seed: int
) -> None:
    out = data.draw(regions(sample.site.output.shape))
    result = sample.op.evaluate(sample.site, inputs_of(sample.site, seed), out)
    assert (result.shape, result.dtype.name) == (out.shape, sample.site.output.dtype.value)


@every_sample
def test_the_quantisation_of_the_output_is_the_models_not_the_operators(sample: Sample) -> None:
    assert sample.op.result_type(sample.site.inputs).quantisation is None
