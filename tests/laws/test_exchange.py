"""Law: an operator with exchanged operands computes the exchanged output, bit by bit.

Rows and columns of all operands and of the output are exchanged, as by `passes/exchange_axes.py`.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given

from benchmarks.small_tensors import Sample
from found import SAMPLES, few, inputs_of
from penstock.ir.exchange import (
    Exchangeable,
    exchanged_data,
    exchanged_elements,
    exchanged_shape,
    exchanged_type,
    is_image,
)
from penstock.ir.op import Op, Site
from penstock.ir.tensor import Region
from strategies import seeds


def images_only(site: Site) -> bool:
    """Whether the output and all inputs that are not constant are images of one rank."""
    pairs = zip(site.inputs, site.constants, strict=True)
    types = (site.output, *(type for type, data in pairs if data is None))
    one_rank = {type.rank for type in types} == {site.output.rank}
    matrix = any(type.rank == 2 for type in site.inputs)
    return one_rank and not matrix and all(is_image(type.shape) for type in types)


EXCHANGEABLE = [
    pytest.param(sample, id=name)
    for name, sample in SAMPLES
    if isinstance(sample.op, Exchangeable) and images_only(sample.site)
]


def exchanged(sample: Sample) -> tuple[Op, Site]:
    """The operator and its site with rows and columns exchanged."""
    op, site = sample.op, sample.site
    assert isinstance(op, Exchangeable)
    pairs = zip(site.inputs, site.constants, strict=True)
    constants = (None if data is None else exchanged_data(type, data) for type, data in pairs)
    inputs = tuple(map(exchanged_type, site.inputs))
    made = Site(inputs, exchanged_type(site.output), tuple(constants))
    return op.exchanged(site.output.rank), made


@pytest.mark.parametrize("sample", EXCHANGEABLE)
def test_the_result_has_the_exchanged_shape(sample: Sample) -> None:
    op, site = exchanged(sample)
    assert op.result_type(site.inputs).shape == exchanged_shape(sample.site.output.shape)


@pytest.mark.parametrize("sample", EXCHANGEABLE)
@few
@given(seed=seeds)
def test_the_exchanged_operator_computes_the_exchanged_output(sample: Sample, seed: int) -> None:
    inputs = inputs_of(sample.site, seed)
    whole = Region.whole(sample.site.output.shape)
    expected = exchanged_elements(sample.op.evaluate(sample.site, inputs, whole))
    op, site = exchanged(sample)
    found = op.evaluate(
        site, tuple(map(exchanged_elements, inputs)), Region.whole(site.output.shape)
    )
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("sample", EXCHANGEABLE)
def test_a_second_exchange_restores_the_operator(sample: Sample) -> None:
    op, _ = exchanged(sample)
    assert isinstance(op, Exchangeable)
    assert op.exchanged(sample.site.output.rank) == sample.op


def test_most_kinds_of_layers_are_exchangeable() -> None:
    kinds = {param.values[0].op.kind for param in EXCHANGEABLE}  # type: ignore[union-attr]
    assert {"Conv2D", "DepthwiseConv2D", "MaxPool2D", "AveragePool2D", "Add", "Mean"} <= kinds
    assert {"Pad", "Slice", "Concatenation", "ResizeBilinear", "TransposeConv"} <= kinds
