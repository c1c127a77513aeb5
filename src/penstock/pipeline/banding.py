"""Cascades in bands of columns: their graphs, kernels, schedules and arenas."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from penstock.backends.portable import single_node_part
from penstock.hardware.target import Target
from penstock.passes.column_bands import BandGraph, column_bands, first_byte
from penstock.scheduling.bands.band_schedule import planned
from penstock.scheduling.bands.variant import BandedCascade
from penstock.scheduling.cascades.candidate import Candidate
from penstock.scheduling.model.bands import Band, Bands, TensorSection, column_stripes
from penstock.scheduling.model.cost import CostModel
from penstock.scheduling.model.memories import MemorySystem
from penstock.scheduling.model.parts import ColumnSection, Parts
from penstock.scheduling.simulate.execution import WHOLE


def banded_cascade(
    target: Target,
    model: CostModel,
    memories: MemorySystem,
    parts: Parts,
    cascade: Sequence[int],
    candidate: Candidate,
) -> BandedCascade | None:
    """Return a cascade that runs in bands of columns; None if a part cannot compute some columns.

    cascade: indices of its parts, in execution order.
    candidate: states the width of the bands, the height of the stripes inside them, and the scratch
        memory of the kernels, unless their fallbacks need more.
    """
    width, stripe = candidate.band_columns, candidate.stripe
    rows = None if stripe == WHOLE else stripe
    assert width is not None
    nodes = [node for k in cascade for node in parts.parts[k].nodes]
    graphs = column_bands(parts.graph.name, nodes, width, parts.names)
    if graphs is None:
        return None
    found: list[Band] = []
    for one in graphs:
        inner = _band_parts(one, target)
        plan, offsets, arena = planned(inner, rows, candidate.scratch_bytes, model, memories)
        found.append(Band(inner, plan, tuple(_sections(one)), offsets, arena))
    bands = Bands(nodes[-1].name, width, candidate.scratch_bytes, tuple(found))
    return BandedCascade(tuple(cascade), bands)


def _band_parts(band: BandGraph, target: Target) -> Parts:
    """Return the parts of a band's graph."""
    engine = target.engines[0]
    graph = band.graph
    computed = (node for node in graph.nodes if node.name not in band.in_place)
    ends = frozenset(value.name for value in (*graph.inputs, *graph.outputs))
    return Parts(
        graph,
        tuple(single_node_part(node, engine) for node in computed),
        sections=tuple(
            ColumnSection(name, first_byte(band, name)) for name in sorted(band.in_place)
        ),
        outside=ends,
    )


def _sections(band: BandGraph) -> Iterator[TensorSection]:
    rows = zip(band.graph.variables(), band.tensors, band.first_columns, band.steps, strict=True)
    for value, tensor, first, step in rows:
        shapes = value.type.shape, tensor.type.shape
        stripes = column_stripes(*shapes, first, step, band.count)
        yield TensorSection(value.name, tensor.name, stripes)
