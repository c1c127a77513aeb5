"""Law: the work of a whole is the sum of the work of its parts."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from benchmarks.small_tensors import Sample
from found import every_sample, few
from penstock.ir.tensor import Region
from strategies import partitions


@every_sample
@few
@given(data=st.data())
def test_work_over_a_partition_sums_to_the_work_of_the_whole(
    sample: Sample, data: st.DataObject
) -> None:
    op, site = sample.op, sample.site
    whole = op.work(site, Region.whole(site.output.shape))
    parts = [op.work(site, part) for part in data.draw(partitions(site.output.shape))]
    assert sum(part.macs for part in parts) == whole.macs
    assert sum(part.elements for part in parts) == whole.elements


@every_sample
def test_work_is_some_arithmetic_unless_the_output_is_a_view(sample: Sample) -> None:
    work = sample.op.work(sample.site, Region.whole(sample.site.output.shape))
    assert (work.macs + work.elements > 0) is not sample.op.ALIAS
