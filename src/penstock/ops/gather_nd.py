"""GatherNd: slices of a tensor at computed positions.

    x        any shape, any type
    indices  (.., K)  int32    each last-axis vector is a position along the first K axes of x
    y        indices.shape[:-1] + x.shape[K:]

The reference fails if an index is outside of x; penstock clamps it.

Source: TFLite GATHER_ND, `micro/kernels/gather_nd.cc`; GATHER with computed indices.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from penstock.ir.affine import Affine, Number
from penstock.ir.foreign import ForeignNode, Made
from penstock.ir.op import Kernel, OperatorDefaults, Site, Table
from penstock.ir.operator_facts import relay
from penstock.ir.region import Region
from penstock.ir.tensor import Array, DType, TensorType
from penstock.opkit.checks import require, require_dtype
from penstock.opkit.samples import int8, integers, reals, sample


@dataclass(frozen=True, slots=True)
class GatherNd(OperatorDefaults):
    """Slices of the first input at the positions in the second."""

    TFLITE = ("GATHER_ND",)
    RELAY = relay("gather_nd")

    def result_type(self, inputs: tuple[TensorType, ...]) -> TensorType:
        require(len(inputs) == 2, f"GatherNd has {len(inputs)} inputs, must have 2")
        x, indices = inputs
        require_dtype(indices, (DType.INT32,), "indices")
        require(indices.rank > 0, "indices are a scalar, must have a last axis")
        depth = indices.shape[-1]
        require(
            0 < depth <= x.rank,
            f"positions have {depth} indices, must have 1 to {x.rank}, the rank of the input",
        )
        return TensorType((*indices.shape[:-1], *x.shape[depth:]), x.dtype)

    def evaluate(self, site: Site, inputs: tuple[Array, ...], out: Region) -> Array:
        x, (_, read) = inputs[0], self.needs(site, out)
        positions = inputs[1][read.slices].astype(np.int64)
        most = np.array(x.shape[: positions.shape[-1]]) - 1
        found = x[tuple(np.moveaxis(np.clip(positions, 0, most), -1, 0))]
        return found[_inner(site, out)]

    def needs(self, site: Site, out: Region) -> tuple[Region, ...]:
        x, indices = site.inputs
        outer = indices.rank - 1
        positions = Region.of(*out.intervals[:outer], (0, 0 if out.empty else indices.shape[-1]))
        whole = Region.whole(tuple(0 if out.empty else extent for extent in x.shape))
        inner = zip(range(indices.shape[-1], x.rank), out.intervals[outer:], strict=True)
        for axis, interval in inner:
            whole = whole.replace(axis, interval)
        return (whole, positions)

    def affine(self, site: Site) -> tuple[Affine, ...]:
        x, indices = site.inputs
        rank, depth, outer = site.output.rank, indices.shape[-1], indices.rank - 1

        def constant(extent: int) -> tuple[Number, ...]:
            return (*(0,) * rank, extent)

        def identity(axis: int) -> tuple[Number, ...]:
            return (*(int(axis == j) for j in range(rank)), 0)

        rows = [constant(extent) for extent in x.shape[:depth]]
        rows += [identity(outer + axis) for axis in range(x.rank - depth)]
        positions = (*(identity(axis) for axis in range(outer)), constant(depth))
        return (
            Affine(tuple(rows), (0,) * x.rank),
            Affine(positions, (0,) * indices.rank),
        )

    def kernel(self, site: Site) -> Kernel:
        x, indices = site.inputs
        depth = indices.shape[-1]
        strides = [math.prod(x.shape[k + 1 :]) * x.dtype.size_bytes for k in range(depth)]
        return Kernel(
            "gather_nd",
            params=(
                ("count", indices.elements // depth),
                ("depth", depth),
                ("slice_bytes", math.prod(x.shape[depth:]) * x.dtype.size_bytes),
            ),
            tables=(
                ("extents", Table.of(np.array(x.shape[:depth], np.int32))),
                ("strides", Table.of(np.array(strides, np.int32))),
            ),
        )


def _inner(site: Site, out: Region) -> tuple[slice, ...]:
    """The part of the slices that lies in region `out`."""
    outer = site.inputs[1].rank - 1
    return (*(slice(None),) * outer, *out.slices[outer:])


def from_foreign(node: ForeignNode) -> Iterable[Made]:
    """TFLite GATHER_ND."""
    yield Made(GatherNd(), (node.input(0), node.input(1)), node.output())


SAMPLES = (
    sample(GatherNd(), int8(2, 4, 3, 5), integers(1, 7, 4), scale=0.05, zero=-3),
    sample(GatherNd(), int8(4, 3, 5), integers(6, 1), scale=0.05, zero=-3),
    sample(GatherNd(), reals(4, 3, 5), integers(2, 3, 2)),
)
