"""Cases of special kernels: rows of a layer to compute, on views with arbitrary layouts."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from benchmarks.small_tensors import Sample
from c_kernels import Layout, View, ring_of, row_region, rows_as_bytes, rows_of, table_of
from c_kernels import whole as whole_layout
from found import elements
from penstock.ir.op import Kernel
from penstock.ir.tensor import Array, Region, TensorType, row_count
from strategies import intervals


def layout(style: str, type: TensorType, rows: set[int], rng: np.random.Generator) -> Layout:
    """A layout for `rows` of a tensor; gaps move rows to odd addresses."""
    match style:
        case "whole":
            return whole_layout(type)
        case "ring":
            return ring_of(type, sorted(rows), gap_bytes=int(rng.integers(0, 4)))
        case _:
            return table_of(type, sorted(rows), rng)


class Case:
    """A layer, its special kernel, the rows to compute, and the views."""

    def __init__(self, found: Sample, kernel: Kernel, data: st.DataObject, seed: int) -> None:
        site = found.site
        rng = np.random.default_rng(seed)
        unseen = {*kernel.folded, *(k for k, _ in kernel.constants)}
        seen = [k for k in range(len(site.inputs)) if k not in unseen]
        self.sample, self.kernel = found, kernel
        count = row_count(site.output.shape)
        self.rows = data.draw(intervals(count)) if kernel.by_rows else (0, count)
        styles = st.sampled_from(("whole", "ring", "table") if kernel.by_rows else ("whole",))
        values = {
            k: elements(site.inputs[k], seed + k) if constant is None else site.constant(k)
            for k, constant in enumerate(site.constants)
        }
        self.inputs: list[View] = []
        for k in seen:
            needed = self.needed(k)
            view = View(site.inputs[k], layout(data.draw(styles), site.inputs[k], needed, rng))
            view.write(values[k], needed)
            self.inputs.append(view)
        rows = set(range(*self.rows))
        self.output = View(site.output, layout(data.draw(styles), site.output, rows, rng))
        every: tuple[Array, ...] = tuple(values.values())
        result = found.op.evaluate(site, every, Region.whole(site.output.shape))
        self.expected = rows_as_bytes(result)

    def needed(self, k: int) -> set[int]:
        """Rows of input k that the output rows need."""
        site = self.sample.site
        regions = (row_region(site.output.shape, row) for row in range(*self.rows))
        needs = (self.sample.op.needs(site, region)[k] for region in regions)
        return set().union(*(rows_of(site.inputs[k].shape, need) for need in needs))

    def check(self) -> None:
        assert self.output.memory.intact
        for row in range(*self.rows):
            np.testing.assert_array_equal(self.output.row(row), self.expected[row], f"row {row}")
