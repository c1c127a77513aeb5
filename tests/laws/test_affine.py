"""Law: the affine form of a propagator contains the exact one, and is it where it can say so.

What an affine form declares is read from its matrix, one input axis at a time:

- a row of whole numbers that are not all zero (convolutions, pools, element-wise operators, slices,
  concatenations, pads, transposes) is *exact*: unclipped, it names the interval that `needs` names,
  and the first and last elements of that interval really matter;
- a row with a fraction (up-scaling, several output channels for one of the input) rounds, and may
  be wider;
- a row of zeros answers "all of these, whatever the output" (the weights of a layer, the axis of a
  softmax, a reshape that mixes axes, an index list) and only promises to contain.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from found import elements, every_sample, inputs_of
from penstock.ir.affine import Affine
from penstock.ir.op import Sample
from penstock.ir.region import Region
from penstock.ir.tensor import Array, DType, TensorType
from strategies import regions, seeds

TRIES = 8
"""Random inputs in which an element at the edge of a needed region gets its chance to matter."""


def exact_axes(affine: Affine) -> tuple[int, ...]:
    """Input axes that the affine form declares to be exact."""
    return tuple(
        axis
        for axis, row in enumerate(affine.matrix)
        if any(row[:-1])
        and all(x == int(x) for x in row)
        and affine.offset[axis] == int(affine.offset[axis])
    )


def edges(need: Region, axis: int, extent: int) -> Iterator[Region]:
    """The first and the last elements of a needed region along an axis, where it ends inside."""
    lower, upper = need.intervals[axis]
    if lower > 0:
        yield need.replace(axis, (lower, lower + 1))
    if upper < extent:
        yield need.replace(axis, (upper - 1, upper))


@every_sample
@given(data=st.data())
def test_the_affine_region_contains_the_exact_one(sample: Sample, data: st.DataObject) -> None:
    op, site = sample.op, sample.site
    out = data.draw(regions(site.output.shape))
    triples = zip(op.affine(site), op.needs(site, out), site.inputs, strict=True)
    for affine, need, type in triples:
        assert affine.apply(out).meet(Region.whole(type.shape)).contains(need)


@every_sample
@given(data=st.data())
def test_an_unclipped_affine_region_is_the_exact_one(sample: Sample, data: st.DataObject) -> None:
    op, site = sample.op, sample.site
    out = data.draw(regions(site.output.shape))
    triples = zip(op.affine(site), op.needs(site, out), site.inputs, strict=True)
    for affine, need, type in triples:
        region = affine.apply(out)
        if Region.whole(type.shape).contains(region):
            for axis in exact_axes(affine):
                assert region.intervals[axis] == need.intervals[axis]


@every_sample
@given(data=st.data(), seed=seeds)
def test_the_edges_of_an_exact_region_matter(
    sample: Sample, data: st.DataObject, seed: int
) -> None:
    op, site = sample.op, sample.site
    out = data.draw(regions(site.output.shape))
    k = data.draw(st.integers(0, len(site.inputs) - 1))
    affine, need, type = op.affine(site)[k], op.needs(site, out)[k], site.inputs[k]
    if not Region.whole(type.shape).contains(affine.apply(out)):
        return
    for axis in exact_axes(affine):
        for edge in edges(need, axis, type.shape[axis]):
            assert any(matters(sample, out, k, edge, seed + n) for n in range(TRIES)), (k, edge)


def matters(sample: Sample, out: Region, k: int, edge: Region, seed: int) -> bool:
    """Whether the output changes with the elements of input k in a region."""
    inputs = list(inputs_of(sample.site, seed))
    results: list[Array] = []
    for values in extremes(sample.site.inputs[k], seed):
        inputs[k] = np.array(inputs[k])
        inputs[k][edge.slices] = values[edge.slices]
        results.append(sample.op.evaluate(sample.site, tuple(inputs), out))
    return any(not np.array_equal(results[0], other) for other in results[1:])


def extremes(type: TensorType, seed: int) -> Iterator[Array]:
    """Elements as different as can be."""
    bits = type.dtype in (DType.BOOL, DType.FLOAT32)
    bounds = (0, 1) if bits else (type.dtype.lower, type.dtype.upper - 1)
    yield from (np.full(type.shape, bound, type.dtype.value) for bound in bounds)
    yield elements(type, seed)
