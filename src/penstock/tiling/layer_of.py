"""Derives the layer of an operator from its propagators.

The axes are those of the output and the reduction axes of the operator (`Reducing` in `ir/op.py`).
A row of the affine propagator (`ir/affine.py`) that depends on one axis becomes a dimension indexed
by that axis. A row that depends on none or on several is read whole, which is conservative. The
boxes of a layer therefore contain what the operator needs; the regions that are finally moved come
from the exact propagator.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from penstock.ir.affine import Affine
from penstock.ir.op import Op, Reducing, Site
from penstock.ir.region import Region
from penstock.tiling.layer import INPUT, OUTPUT, WEIGHTS, Axis, Dimension, Layer, LayerOperand
from penstock.tiling.tiling import Box

NAMES = {1: "c", 2: "nc", 3: "hwc", 4: "nhwc"}
"""Names of the output's axes by rank; for other ranks, axes are numbered."""
SUM_BYTES = 4
"""Bytes of an incomplete sum: an int32 accumulator."""


@dataclass(frozen=True, slots=True)
class _Summed:
    """A reduction axis: its name, and the dimension that it indexes, by index of the input."""

    name: str
    dimensions: Mapping[int, int]


def layer_of(op: Op, site: Site, name: str = "layer") -> Layer:
    """Return the layer of an operator. Element sizes follow the types; `cycles_per_point` is the
    work per point (`Op.work`)."""
    names = _names(site.output.rank)
    axes = [Axis(a, n) for a, n in zip(names, site.output.shape, strict=True)]
    summed = _summed(op, site)
    for axis in summed:
        k, dimension = next(iter(axis.dimensions.items()))
        axes.append(Axis(axis.name, site.inputs[k].shape[dimension]))
    work = op.work(site, Region.whole(site.output.shape))
    points = 1
    for axis in axes:
        points *= axis.extent
    output = tuple(Dimension(n, a) for a, n in zip(names, site.output.shape, strict=True))
    return Layer(
        name,
        tuple(axes),
        tuple(_input(site, k, form, names, summed) for k, form in enumerate(op.affine(site))),
        LayerOperand(
            "output",
            OUTPUT,
            output,
            site.output.dtype.size_bytes,
            max(SUM_BYTES, site.output.dtype.size_bytes) if summed else None,
        ),
        max(1, -(-max(work.macs, work.elements) // points)),
    )


def input_regions(op: Op, site: Site, layer: Layer, box: Box) -> tuple[Region, ...]:
    """Return the exact region of each input that the operator needs to compute `box` of its layer,
    restricted to the box along reduction axes."""
    names = _names(site.output.rank)
    found = list(op.needs(site, Region.of(*(box[name] for name in names))))
    for axis in _summed(op, site):
        for k, dimension in axis.dimensions.items():
            found[k] = found[k].replace(dimension, box[axis.name])
    return tuple(found)


def _names(rank: int) -> tuple[str, ...]:
    return tuple(NAMES[rank]) if rank in NAMES else tuple(f"a{k}" for k in range(rank))


def _summed(op: Op, site: Site) -> tuple[_Summed, ...]:
    pairs = op.reduced(site) if isinstance(op, Reducing) else ()
    return tuple(_Summed(f"sum{k}" if k else "sum", dict(axis)) for k, axis in enumerate(pairs))


def _input(
    site: Site, k: int, form: Affine, names: tuple[str, ...], summed: tuple[_Summed, ...]
) -> LayerOperand:
    shape = site.inputs[k].shape
    dimensions: list[Dimension] = []
    for d, size in enumerate(shape):
        found = _dimension(form, d, size, names)
        found = next((Dimension(size, s.name) for s in summed if s.dimensions.get(k) == d), found)
        if found.axis in (other.axis for other in dimensions):
            found = Dimension(size)
        dimensions.append(found)
    role = INPUT if site.constants[k] is None else WEIGHTS
    return LayerOperand(f"input {k}", role, tuple(dimensions), site.inputs[k].dtype.size_bytes)


def _dimension(form: Affine, d: int, size: int, names: tuple[str, ...]) -> Dimension:
    """Return the dimension that a row of the affine form describes; a whole dimension if it does
    not depend on exactly one axis."""
    *factors, extra = form.matrix[d]
    spoken = [j for j, factor in enumerate(factors) if factor]
    if len(spoken) != 1:
        return Dimension(size)
    return Dimension(size, names[spoken[0]], factors[spoken[0]], extra, form.offset[d])
