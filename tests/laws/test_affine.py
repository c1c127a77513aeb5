"""Law: the affine form of a propagator contains the exact one, and is it where it can say so.

What an affine form declares is read from its matrix, one input axis at a time:

- a row of whole numbers that are not all zero (convolutions, pools, element-wise operators, slices,
  concatenations, pads, transposes) is *exact*: unclipped, it names the interval that `needs` names,
  and the first and last elements of that interval really matter.  This is promised for stripes: for
  regions that are whole along the output axes of which the row does not speak (that few channels of
  a space-to-depth read few rows of each block has no affine form);
- a row with a fraction (up-scaling, several output channels for one of the input) rounds, and may
  be wider;
- a row of zeros answers "all of these, whatever the output" (the weights of a layer, the axis of a
  softmax, a reshape that mixes axes, an index list) and only promises to contain.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.small_tensors import Sample
from found import SAMPLES, elements, every_sample, few, inputs_of, with_before
from penstock.ir.tensor import Array, DType, Region, TensorType
from strategies import regions, seeds

TRIES = 64
"""Random inputs in which an element at the edge of a needed region gets its chance to matter."""


@dataclass(frozen=True, slots=True)
class Exact:
    """An input axis whose affine form is exact for stripes along `out_axes`."""

    k: int
    axis: int
    out_axes: tuple[int, ...]


def exact_axes(sample: Sample) -> list[Exact]:
    """What the affine forms of the sample declare to be exact."""
    return [
        Exact(k, axis, tuple(j for j, factor in enumerate(row[:-1]) if factor))
        for k, affine in enumerate(sample.op.affine(sample.site))
        for axis, (row, offset) in enumerate(zip(affine.matrix, affine.offset, strict=True))
        if any(row[:-1]) and all(x == int(x) for x in (*row, offset))
    ]


EXACT = [
    pytest.param(sample, exact_axes(sample), id=name)
    for name, sample in SAMPLES
    if exact_axes(sample)
]


def stripe(out: Region, shape: tuple[int, ...], axes: tuple[int, ...]) -> Region:
    """The region, made whole along all other axes."""
    for axis, extent in enumerate(shape):
        out = out if axis in axes else out.replace(axis, (0, extent))
    return out


def edges(need: Region, axis: int, extent: int) -> Iterator[Region]:
    """The first and the last elements of a needed region along an axis, where it ends inside."""
    lower, upper = need.intervals[axis]
    if lower > 0:
        yield need.replace(axis, (lower, lower + 1))
    if upper < extent:
        yield need.replace(axis, (upper - 1, upper))


@every_sample
@few
@given(data=st.data())
def test_the_affine_region_contains_the_exact_one(sample: Sample, data: st.DataObject) -> None:
    op, site = sample.op, sample.site
    out = data.draw(regions(site.output.shape))
    triples = zip(op.affine(site), op.needs(site, out), site.inputs, strict=True)
    for affine, need, type in triples:
        assert affine.apply(out).meet(Region.whole(type.shape)).contains(need)


@every_sample
@few
@given(data=st.data())
def test_the_exact_region_depends_on_shapes_and_element_types_alone(
    sample: Sample, data: st.DataObject
) -> None:
    """The search shares what it knows of an operator between layers of the same shapes."""
    out = data.draw(regions(sample.site.output.shape))
    assert sample.op.needs(sample.site.bare, out) == sample.op.needs(sample.site, out)


@pytest.mark.parametrize(("sample", "exact"), EXACT)
@few
@given(data=st.data(), seed=seeds)
def test_an_unclipped_affine_stripe_is_exact_and_its_edges_matter(
    sample: Sample, exact: list[Exact], data: st.DataObject, seed: int
) -> None:
    out = data.draw(regions(sample.site.output.shape))
    for promise in exact:
        assert_exact(sample, promise, out, seed)


def assert_exact(sample: Sample, promise: Exact, out: Region, seed: int) -> None:
    op, site, extent = sample.op, sample.site, sample.site.inputs[promise.k].shape[promise.axis]
    out = stripe(out, site.output.shape, promise.out_axes)
    need = op.needs(site, out)[promise.k]
    lower, upper = op.affine(site)[promise.k].apply(out).intervals[promise.axis]
    if lower < 0 or upper > extent or need.empty:
        return
    assert need.intervals[promise.axis] == (lower, upper)
    for edge in edges(need, promise.axis, extent):
        assert any(matters(sample, out, promise.k, edge, seed + n) for n in range(TRIES)), edge


def matters(sample: Sample, out: Region, k: int, edge: Region, seed: int) -> bool:
    """Whether the output changes with the elements of input k in a region."""
    inputs = list(inputs_of(sample.site, seed))
    output = elements(sample.site.output, seed) % 8
    first: Array | None = None
    for values in extremes(sample.site.inputs[k], seed):
        inputs[k] = np.array(inputs[k])
        inputs[k][edge.slices] = values[edge.slices]
        given = with_before(sample, tuple(inputs), out, output)
        result = sample.op.evaluate(sample.site, given, out)
        if first is not None and not np.array_equal(first, result):
            return True
        first = result
    return False


def extremes(type: TensorType, seed: int) -> Iterator[Array]:
    """Elements as different as can be; then, of int8, every element there is (equality of two
    tensors changes at one of them only)."""
    small = (DType.BOOL, DType.FLOAT16, DType.FLOAT32)
    bounds = (0, 1) if type.dtype in small else (-(2**20), 2**20)
    if type.dtype.size_bytes <= 2 and type.dtype not in small:
        bounds = (type.dtype.lower, type.dtype.upper - 1)
    yield from (np.full(type.shape, bound, type.dtype.value) for bound in bounds)
    yield elements(type, seed)
    if type.dtype is DType.INT8:
        yield from (np.full(type.shape, x, np.int8) for x in range(-128, 128))
