"""Law: an operator with ALIAS returns the bytes of its first input in the same order."""

from __future__ import annotations

import pytest
from hypothesis import given

from benchmarks.small_tensors import Sample
from found import SAMPLES, few, inputs_of
from penstock.ir.op import Work
from penstock.ir.tensor import Region
from strategies import seeds

every_alias = pytest.mark.parametrize(
    "sample", [pytest.param(sample, id=name) for name, sample in SAMPLES if sample.op.ALIAS]
)


@every_alias
@few
@given(seed=seeds)
def test_an_alias_is_the_bytes_of_its_input(sample: Sample, seed: int) -> None:
    inputs = inputs_of(sample.site, seed)
    whole = Region.whole(sample.site.output.shape)
    result = sample.op.evaluate(sample.site, inputs, whole)
    assert result.tobytes() == inputs[0].tobytes()


@every_alias
def test_an_alias_has_one_variable_input_and_takes_no_work(sample: Sample) -> None:
    whole = Region.whole(sample.site.output.shape)
    assert sample.op.work(sample.site, whole) == Work(0, 0)
    assert sample.site.constants[0] is None
    assert sample.op.in_place(sample.site) == (0,)
    assert sample.site.output.size_bytes == sample.site.inputs[0].size_bytes
