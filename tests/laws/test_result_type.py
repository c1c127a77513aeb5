"""Law: the type that an operator declares is the type that its arithmetic returns.  (That a region
has the shape of the region, stripe by stripe, is asked with the stripe law.)"""

from __future__ import annotations

from hypothesis import given

from benchmarks.small_tensors import Sample
from found import every_sample, few, inputs_of
from penstock.ir.tensor import Region
from strategies import seeds


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
def test_the_quantisation_of_the_output_is_the_models_not_the_operators(sample: Sample) -> None:
    assert sample.op.result_type(sample.site.inputs).quantisation is None
