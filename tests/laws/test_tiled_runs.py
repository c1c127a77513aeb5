"""Law: tiles of an operator compute it.

The layer that an operator is contains what it needs; a tiled run that sees only what each step
holds, and poison elsewhere, computes what a whole run does; and sums taken in parts are what the
operator says they are.
"""

from __future__ import annotations

from math import prod

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.small_tensors import Sample
from found import SAMPLES, every_computing_sample, every_sample, few, inputs_of
from penstock.errors import CapacityError
from penstock.ir.op import Reducing
from penstock.ir.tensor import Array, Region
from penstock.tiling.layer import Layer, Scratchpads, layer_of
from penstock.tiling.least_traffic import LeastTraffic
from penstock.tiling.nest import Box
from strategies import regions, seeds

WIDER = {
    "AverageLast", "BatchToSpace", "Cumsum", "DepthToSpace", "Gather", "GatherNd", "Gru", "Lstm",
    "MirrorPad", "PackChannels", "PackView", "PlainCumsum", "PlainGru", "PlainLstm",
    "PlainResample", "PlainRnn", "RealLstm", "RequantiseLast",
    "RunningProduct", "Shape", "Slice", "SpaceToBatch", "SpaceToDepth", "Tile", "UnpackChannels",
}  # fmt: skip
"""Operators whose affine form is wider than what they need: mixed axes, turned borders."""
WIDER_SAMPLES = ("convolutions-1", "convolutions-2", "convolutions-6", "resize-4", "resize-7")
"""Further such samples: groups, and corners that are aligned."""


def held(layer: Layer, box: Box) -> list[Region]:
    """By input, what the layer says that a box reads."""
    return [
        Region.of(*(d.needs(box[d.axis]) if d.axis else (0, d.size) for d in operand.dimensions))
        for operand in layer.inputs
    ]


def input_regions(sample: Sample, box: Box) -> list[Region]:
    """By input, what the operator needs to compute a box, restricted to it along what it sums."""
    op, site = sample.op, sample.site
    points = list(box.values())
    found = list(op.needs(site, Region.of(*points[: site.output.rank])))
    summed = op.reduced(site) if isinstance(op, Reducing) else ()
    for axis, interval in zip(summed, points[site.output.rank :], strict=True):
        for k, dimension in axis:
            found[k] = found[k].replace(dimension, interval)
    return found


def box_of(layer: Layer, region: Region) -> Box:
    return {axis.name: i for axis, i in zip(layer.axes, region.intervals, strict=True)}


@every_sample
@given(data=st.data())
@few
def test_a_layer_s_boxes_contain_the_needed_regions(sample: Sample, data: st.DataObject) -> None:
    layer = layer_of(sample.op, sample.site)
    box = box_of(layer, data.draw(regions(tuple(axis.extent for axis in layer.axes))))
    needed = input_regions(sample, box)
    for said, exact in zip(held(layer, box), needed, strict=True):
        assert said.contains(exact)


EXACT = [
    pytest.param(sample, id=name)
    for name, sample in SAMPLES
    if type(sample.op).__name__ not in WIDER and name not in WIDER_SAMPLES
]


@pytest.mark.parametrize("sample", EXACT)
@given(data=st.data())
@few
def test_most_layers_boxes_equal_the_needed_regions(sample: Sample, data: st.DataObject) -> None:
    layer = layer_of(sample.op, sample.site)
    box = box_of(layer, data.draw(regions(tuple(axis.extent for axis in layer.axes))))
    needed = input_regions(sample, box)
    for said, exact in zip(held(layer, box), needed, strict=True):
        assert said == exact or (said.empty and exact.empty)


@every_computing_sample
@given(seed=seeds, part=st.floats(0.3, 0.9))
@few
def test_a_tiled_run_equals_a_whole_run(sample: Sample, seed: int, part: float) -> None:
    op, site = sample.op, sample.site
    if op.kernel(site).recurrent:
        pytest.skip("it goes on from its own output, row by row, and cannot be cut otherwise")
    layer = layer_of(op, site)
    whole = sum(prod(o.shape) * o.unfinished_bytes for o in layer.operands)
    summed = {axis.name for axis in layer.reduced}
    tiler = LeastTraffic(frozenset(axis.name for axis in layer.axes) - summed)
    try:
        tiling = tiler.tile(layer, Scratchpads.shared(max(1, int(whole * part))))
    except CapacityError:
        tiling = tiler.tile(layer, Scratchpads.shared(whole))
    inputs = inputs_of(site, seed)
    expected = op.evaluate(site, inputs, Region.whole(site.output.shape))
    found = np.zeros_like(expected)
    seen = [np.full_like(x, 77) for x in inputs]
    for step in tiling.steps():
        for copy in step.loads:
            k = layer.inputs.index(copy.operand)
            seen[k] = poisoned(inputs[k], copy.region)
        out = Region.of(*(step.box[axis.name] for axis in layer.axes if axis.name not in summed))
        found[out.slices] = op.evaluate(site, tuple(seen), out)
    np.testing.assert_array_equal(found, expected)


def poisoned(array: Array, region: Region) -> Array:
    """The array where the region is, other numbers elsewhere."""
    result = np.full_like(array, 77)
    result[region.slices] = array[region.slices]
    return result


REDUCING = [
    pytest.param(sample, id=name)
    for name, sample in SAMPLES
    if isinstance(sample.op, Reducing) and sample.op.reduced(sample.site)
]


def test_there_are_operators_whose_sums_are_taken_in_parts() -> None:
    assert len(REDUCING) >= 4


@pytest.mark.parametrize("sample", REDUCING)
@given(seed=seeds, data=st.data())
@few
def test_along_a_sum_an_index_of_one_input_meets_only_that_of_the_others(
    sample: Sample, seed: int, data: st.DataObject
) -> None:
    """Where one input is zero at all indices but some, the others do not matter at those; each
    output reads all indices."""
    op, site = sample.op, sample.site
    assert isinstance(op, Reducing)
    read = op.needs(site, Region.of(*((0, 1) for _ in site.output.shape)))
    for axis in op.reduced(site):
        (first, along), *others = axis
        extent = site.inputs[first].shape[along]
        assert {site.inputs[k].shape[d] for k, d in others} == {extent}
        assert {read[k].intervals[d] for k, d in axis} == {(0, extent)}
        kept = data.draw(st.sets(st.integers(0, extent - 1)))
        inputs = list(inputs_of(site, seed))
        out = [i for i in range(extent) if i not in kept]
        for k, d in others:
            inputs[k] = inputs[k].copy()
            np.moveaxis(inputs[k], d, 0)[out] = site.inputs[k].zero_point
        before = op.evaluate(site, tuple(inputs), Region.whole(site.output.shape))
        inputs[first] = inputs[first].copy()
        np.moveaxis(inputs[first], along, 0)[out] = 77
        after = op.evaluate(site, tuple(inputs), Region.whole(site.output.shape))
        assert (before == after).all()
