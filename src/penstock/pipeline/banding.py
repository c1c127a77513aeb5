"""Cascades in bands of columns: their graphs, kernels, schedules and scratch memory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from penstock.backends.accelerator import Accelerator
from penstock.backends.kernel_choice import with_accelerator_kernels
from penstock.backends.processor_parts import single_node_part
from penstock.hardware.target import Target
from penstock.ir.columns import COLUMNS
from penstock.ir.composite import Composite
from penstock.ir.graph import Node
from penstock.ir.op import Op, Site
from penstock.passes.column_bands import BandGraph, column_bands, column_bytes, single_node_band
from penstock.pipeline.fusing import fused_part
from penstock.scheduling.bands.band_schedule import kept_tensors, planned, planned_chain
from penstock.scheduling.bands.chain_costs import with_chain_costs
from penstock.scheduling.bands.columns import PartColumnReads
from penstock.scheduling.bands.conditions import computes_columns
from penstock.scheduling.bands.variant import BandedCascade
from penstock.scheduling.cascades.candidate import Candidate, Chain
from penstock.scheduling.model.bands import Band, Bands, TensorSection, column_stripes
from penstock.scheduling.model.cost import CostModel
from penstock.scheduling.model.fused_parts import FusedPart
from penstock.scheduling.model.memories import MemorySystem
from penstock.scheduling.model.part import Part
from penstock.scheduling.model.parts import ColumnSection, Parts
from penstock.scheduling.model.schedule import Schedule
from penstock.scheduling.simulate.walk import WHOLE


@dataclass(frozen=True, slots=True)
class TargetBands:
    """Creates bands of columns of graphs, for a target.

    accelerators: those that run composites of the network.
    reads: the columns that parts read.
    _known: parts with the kernels of each operator, by its operands.  Most bands differ in their
        position only.
    """

    target: Target
    model: CostModel
    memories: MemorySystem
    accelerators: tuple[Accelerator, ...] = ()
    reads: PartColumnReads = field(default_factory=PartColumnReads)
    _known: dict[tuple[Op, Site], Part] = field(default_factory=dict[tuple[Op, Site], Part])

    def bands(
        self, parts: Parts, cascade: Sequence[int], candidate: Candidate
    ) -> tuple[BandedCascade, ...] | None:
        """Return the bands in which a cascade or its chains run (see `BandSource`)."""
        if candidate.band_columns is not None:
            found = [self._cascade(parts, cascade, candidate.band_columns, candidate)]
        else:
            found = [self._chain(parts, chain, candidate) for chain in candidate.chains]
        every = tuple(banded for banded in found if banded is not None)
        return every if len(every) == len(found) else None

    def fused(self, parts: Parts, members: Sequence[int]) -> FusedPart | None:
        """Return the part that runs some parts tile by tile (see `FusionSource`)."""
        return fused_part(parts, members, self.target, self.accelerators)

    def costed(self, schedule: Schedule) -> Schedule:
        """Return a schedule with the costs of its chains, which depend on their calls."""
        return with_chain_costs(schedule, self.model, self.memories, {})

    def row_cycles(self, part: Part) -> float:
        """Return the cycles for a row of a part's output that do not depend on its columns.

        They are derived from the cycles of the whole part, and of one that computes one column.
        """
        node, columns = part.nodes[-1], part.output.type.shape[COLUMNS]
        middle = columns // 2
        graph = single_node_band(node, (middle, middle + 1)) if columns > 1 else None
        graph = None if graph is None else self._band_with_kernels(graph)
        if graph is None:
            return 0.0
        (narrow,) = self._band_parts(graph).parts
        whole, one = self.model.work_cycles(part), self.model.work_cycles(narrow)
        rows = part.output.type.shape[COLUMNS - 1]
        return max(0.0, (one - (whole - one) / (columns - 1)) / rows)

    def _cascade(
        self, parts: Parts, cascade: Sequence[int], width: int, candidate: Candidate
    ) -> BandedCascade | None:
        """Return the bands of a whole cascade, each of which computes all its rows."""
        rows = None if candidate.stripe == WHOLE else candidate.stripe
        scratch = candidate.scratch_bytes
        nodes = _nodes(parts, cascade)
        graphs = self._with_kernels(column_bands(parts.graph.name, nodes, width, parts.names))
        if graphs is None:
            return None
        found: list[Band] = []
        for one in graphs:
            inner = self._band_parts(one)
            plan, offsets, call_scratch = planned(inner, rows, scratch, self.model, self.memories)
            found.append(Band(inner, plan, tuple(_sections(one)), offsets, call_scratch))
        return BandedCascade(tuple(cascade), Bands(nodes[-1].name, width, scratch, tuple(found)))

    def _chain(self, parts: Parts, chain: Chain, candidate: Candidate) -> BandedCascade | None:
        """Return the bands of a chain, without costs."""
        rows, scratch = candidate.stripe, candidate.scratch_bytes
        nodes, keeps = _nodes(parts, chain.parts), chain.keeps_halos
        bands = column_bands(parts.graph.name, nodes, chain.columns, parts.names, keeps_halos=keeps)
        graphs = self._with_kernels(bands)
        if graphs is None:
            return None
        found: list[Band] = []
        values = list(map(_kept_values, graphs))
        for one, some in zip(graphs, values, strict=True):
            inner = self._band_parts(one)
            plan, offsets, slots, call_scratch = planned_chain(inner, rows, scratch, self.memories)
            firsts = {value: first_byte for value, (_, first_byte) in some.items()}
            sections = tuple(_sections(one))
            found.append(Band(inner, plan, sections, offsets, call_scratch, slots, firsts))
        with_values = [(band.parts, some) for band, some in zip(found, values, strict=True)]
        end = max(band.call_scratch_bytes for band in found)
        kept = kept_tensors(with_values, rows, self.memories, end)
        if kept is None or keeps != bool(kept):
            return None
        bands = Bands(nodes[-1].name, chain.columns, scratch, tuple(found), rows, kept)
        return BandedCascade(chain.parts, bands)

    def _with_kernels(self, graphs: Sequence[BandGraph] | None) -> Sequence[BandGraph] | None:
        """Return bands whose composites have kernels for their columns.

        None if there are no bands, if an accelerator cannot run one of the composites, or if a
        kernel cannot access columns.
        """
        found = [self._band_with_kernels(one) for one in graphs or ()]
        bands = [one for one in found if one is not None]
        return bands if bands and len(bands) == len(found) else None

    def _band_with_kernels(self, band: BandGraph) -> BandGraph | None:
        if not any(isinstance(node.op, Composite) for node in band.graph.nodes):
            return band
        nodes: list[Node] = []
        for node in band.graph.nodes:
            found = node
            if isinstance(node.op, Composite):
                found = with_accelerator_kernels(node, self.accelerators)
                if found is None or not computes_columns(
                    single_node_part(found, self.target.engines[0])
                ):
                    return None
            nodes.append(found)
        return replace(band, graph=band.graph.with_nodes(tuple(nodes)))

    def _band_parts(self, band: BandGraph) -> Parts:
        """Return the parts of a band's graph."""
        graph = band.graph
        types = {value.name: value.type for value in graph.variables()}
        computed = (node for node in graph.nodes if node.name not in band.uncomputed)
        ends = frozenset(value.name for value in (*band.inputs, *graph.outputs))
        return Parts(
            graph,
            tuple(map(self._part, computed)),
            sections=tuple(
                ColumnSection(name, columns.tensor, columns.first * column_bytes(types[name]))
                for name, columns in sorted(band.in_place.items())
            ),
            outside=ends | band.kept.keys(),
        )

    def _part(self, node: Node) -> Part:
        """Return a node as a part, with its kernels."""
        key = node.op, node.site
        if key not in self._known:
            self._known[key] = single_node_part(node, self.target.engines[0])
        return replace(self._known[key], nodes=(node,))


def _nodes(parts: Parts, cascade: Sequence[int]) -> Sequence[Node]:
    """Return the nodes of parts, given by their indices in execution order."""
    return [node for k in cascade for node in parts.parts[k].nodes]


def _kept_values(band: BandGraph) -> Mapping[str, tuple[str, int]]:
    """Return the values of a band in memory that all bands share: for each, by name, its tensor and
    the offset of its rows in those of the memory in bytes."""
    types = {value.name: value.type for value in band.graph.variables()}
    return {
        name: (columns.tensor, columns.first * column_bytes(types[name]))
        for name, columns in band.kept.items()
    }


def _sections(band: BandGraph) -> Iterator[TensorSection]:
    rows = zip(band.graph.variables(), band.tensors, band.first_columns, band.steps, strict=True)
    for value, tensor, first, step in rows:
        shapes = value.type.shape, tensor.type.shape
        stripes = column_stripes(*shapes, first, step, band.count)
        yield TensorSection(value.name, tensor.name, stripes)
