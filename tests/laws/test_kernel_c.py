"""Law: the C kernel of an operator computes what its arithmetic says.

Any rows, where it says so, from only the rows that they need; through views of every layout; and in
place where that is allowed."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.small_tensors import Sample
from c_kernels import (
    Layout,
    Library,
    Memory,
    View,
    ring_of,
    row_region,
    rows_as_bytes,
    rows_of,
    table_of,
    whole,
)
from found import SAMPLES, every_computing_sample, few, inputs_of
from penstock.ir.tensor import Array, Region, TensorType, row_count
from strategies import intervals, seeds

IN_PLACE = [
    pytest.param(sample, k, id=f"{name}-{k}")
    for name, sample in SAMPLES
    if not sample.op.ALIAS
    for k in (
        *sample.op.in_place(sample.site),
        *sample.op.kernel(sample.site).whole_in_place,
    )
]

ACCUMULATING = [
    pytest.param(sample, id=name)
    for name, sample in SAMPLES
    if not sample.op.ALIAS and sample.op.kernel(sample.site).accumulates
]


@pytest.fixture(scope="module")
def library(host_compilers: tuple[str, ...], tmp_path_factory: pytest.TempPathFactory) -> Library:
    """Every kernel of every sample in one file: a model may use any of them together."""
    names = {s.op.kernel(s.site).name for _, s in SAMPLES if not s.op.ALIAS}
    return Library(names, host_compilers[0], tmp_path_factory.mktemp("kernels"))


def seen_inputs(sample: Sample) -> list[int]:
    """Inputs that the kernel sees through views."""
    constants = {k for k, _ in sample.op.kernel(sample.site).constants}
    return [k for k in range(len(sample.site.inputs)) if k not in constants]


def layout(style: str, type: TensorType, rows: set[int], rng: np.random.Generator) -> Layout:
    """A layout that has room for `rows` of a tensor."""
    match style:
        case "whole":
            return whole(type)
        case "ring":
            return ring_of(type, sorted(rows), gap_bytes=int(rng.integers(0, 4)))
        case _:
            return table_of(type, sorted(rows), rng)


def needed_rows(sample: Sample, k: int, rows: range) -> set[int]:
    """Rows of input k that rows of the output need."""
    site = sample.site
    needs = (sample.op.needs(site, row_region(site.output.shape, row))[k] for row in rows)
    return set().union(*(rows_of(site.inputs[k].shape, need) for need in needs))


def expected_rows(sample: Sample, inputs: tuple[Array, ...]) -> Array:
    return rows_as_bytes(
        sample.op.evaluate(sample.site, inputs, Region.whole(sample.site.output.shape))
    )


@every_computing_sample
@few
@given(data=st.data(), seed=seeds)
def test_a_kernel_computes_rows_through_views(
    library: Library, sample: Sample, data: st.DataObject, seed: int
) -> None:
    site, by_rows = sample.site, sample.op.kernel(sample.site).by_rows
    rng = np.random.default_rng(seed)
    inputs, count = inputs_of(site, seed), row_count(site.output.shape)
    rows = range(*data.draw(intervals(count))) if by_rows else range(count)
    styles = st.sampled_from(("whole", "ring", "table") if by_rows else ("whole",))
    views: list[View] = []
    for k in seen_inputs(sample):
        needed = needed_rows(sample, k, rows)
        views.append(View(site.inputs[k], layout(data.draw(styles), site.inputs[k], needed, rng)))
        views[-1].write(inputs[k], needed)
    expected = expected_rows(sample, inputs)
    goes_on = sample.op.kernel(site).recurrent and rows.start > 0
    there = set(rows) | ({rows.start - 1} if goes_on else set())
    output = View(site.output, layout(data.draw(styles), site.output, there, rng))
    untouched = output.memory.bytes[0] if output.memory.bytes.size else 0
    for row in there - set(rows):
        output.row(row)[:] = expected[row]
    before = output.memory.bytes.copy()
    library.run(sample, views, output, (rows.start, rows.stop))
    assert output.memory.intact
    for row in rows:
        np.testing.assert_array_equal(output.row(row), expected[row], f"row {row}")
        output.row(row)[:] = untouched
    np.testing.assert_array_equal(output.memory.bytes, before, "bytes outside the rows changed")


@pytest.mark.parametrize("sample", ACCUMULATING)
@few
@given(data=st.data(), seed=seeds)
def test_accumulating_rows_may_share_a_location(
    library: Library, sample: Sample, data: st.DataObject, seed: int
) -> None:
    site = sample.site
    inputs, count = inputs_of(site, seed), row_count(site.output.shape)
    views = [View(site.inputs[k], whole(site.inputs[k])) for k in seen_inputs(sample)]
    for k, view in zip(seen_inputs(sample), views, strict=True):
        view.write(inputs[k], set(range(row_count(site.inputs[k].shape))))
    output = View(site.output, ring_of(site.output, [0], gap_bytes=0))
    expected, first = expected_rows(sample, inputs), 0
    while first < count:
        end = data.draw(st.integers(first + 1, count))
        library.run(sample, views, output, (first, end))
        np.testing.assert_array_equal(output.row(end - 1), expected[end - 1])
        first = end
    assert output.memory.intact


@pytest.mark.parametrize(("sample", "k"), IN_PLACE)
@few
@given(seed=seeds)
def test_a_kernel_computes_in_place(library: Library, sample: Sample, k: int, seed: int) -> None:
    site = sample.site
    inputs = inputs_of(site, seed)
    views = {j: View(site.inputs[j], whole(site.inputs[j])) for j in seen_inputs(sample)}
    for j, view in views.items():
        view.write(inputs[j], set(range(row_count(site.inputs[j].shape))))
    memory: Memory = views[k].memory
    output = View(site.output, whole(site.output), memory)
    count = row_count(site.output.shape)
    library.run(sample, list(views.values()), output, (0, count))
    expected = expected_rows(sample, inputs)
    np.testing.assert_array_equal(memory.bytes, expected.ravel())
    assert memory.intact
