"""RowVectors: base of operators on vectors along the last axis, such as Softmax.

An output element reads the whole vector that contains it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np

from penstock.ir.affine import Affine
from penstock.ir.op import OperatorDefaults, Site, Work, row_count
from penstock.ir.region import Region
from penstock.ir.tensor import Array, DType, TensorType
from penstock.opkit.checks import require, require_dtype, require_int8


@dataclass(frozen=True, slots=True)
class RowVectors(OperatorDefaults):
    """Region propagation and work of an operator on vectors along the last axis."""

    ELEMENTS = DType.INT8
    """Element type of input and output."""

    def result_type(self, inputs: tuple[TensorType, ...]) -> TensorType:
        require(len(inputs) == 1, f"{type(self).__name__} has {len(inputs)} inputs, must have 1")
        if self.ELEMENTS is DType.INT8:
            require_int8(inputs[0], "input")
        require_dtype(inputs[0], (self.ELEMENTS,), "input")
        require(inputs[0].rank > 0, "input is a scalar, must have a last axis")
        return TensorType(inputs[0].shape, self.ELEMENTS)

    def needs(self, site: Site, out: Region) -> tuple[Region, ...]:
        return (whole_vectors(site, out),)

    def affine(self, site: Site) -> tuple[Affine, ...]:
        before = site.output.rank - 1
        factors, extra = (*((1,) * before), 0), (*((0,) * before), site.output.shape[-1])
        # The vector starts at 0, whatever the position of the output element in it.
        return (Affine.diagonal(factors, extra),)

    def exchanged(self, rank: int) -> Self:
        return self

    def work(self, site: Site, out: Region) -> Work:
        return Work(0, 3 * out.elements)


def whole_vectors(site: Site, out: Region) -> Region:
    """The region, extended to whole vectors."""
    return out.replace(len(out.lower) - 1, (0, site.output.shape[-1]))


def params(site: Site) -> tuple[tuple[str, int], ...]:
    """Kernel parameters: vectors per row, elements per vector."""
    depth = site.output.shape[-1]
    width = site.output.elements // row_count(site.output.shape) // depth
    return (("width", width), ("depth", depth))


def total(x: Array) -> Array:
    """Sums of float32 vectors, with extent 1 along the last axis, rounded after each addition."""
    return np.add.accumulate(x, axis=-1)[..., -1:]
