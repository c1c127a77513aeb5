"""Cascades in bands of columns: their graphs, kernels, schedules and arenas."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from penstock.backends.accelerator import Accelerator
from penstock.backends.partition import with_kernels
from penstock.backends.portable import single_node_part
from penstock.hardware.target import Target
from penstock.ir.composite import Composite
from penstock.ir.graph import Node
from penstock.passes.column_bands import BandGraph, column_bands, first_byte
from penstock.scheduling.bands.band_schedule import planned, planned_chain
from penstock.scheduling.bands.chain_costs import with_chain_costs
from penstock.scheduling.bands.conditions import computes_columns
from penstock.scheduling.bands.variant import BandedCascade
from penstock.scheduling.cascades.candidate import Candidate, Chain
from penstock.scheduling.model.bands import Band, Bands, TensorSection, column_stripes
from penstock.scheduling.model.cost import CostModel
from penstock.scheduling.model.memories import MemorySystem
from penstock.scheduling.model.parts import ColumnSection, Parts
from penstock.scheduling.model.schedule import Schedule
from penstock.scheduling.simulate.execution import WHOLE


@dataclass(frozen=True, slots=True)
class TargetBands:
    """Creates bands of columns for a target.

    accelerators: those that run composites of the network.
    """

    target: Target
    model: CostModel
    memories: MemorySystem
    accelerators: tuple[Accelerator, ...] = ()

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

    def costed(self, schedule: Schedule) -> Schedule:
        """Return a schedule with the costs of its chains, which depend on their calls."""
        return with_chain_costs(schedule, self.model, self.memories)

    def _cascade(
        self, parts: Parts, cascade: Sequence[int], width: int, candidate: Candidate
    ) -> BandedCascade | None:
        """Return the bands of a whole cascade, each of which computes all its rows."""
        rows = None if candidate.stripe == WHOLE else candidate.stripe
        scratch = candidate.scratch_bytes

        def band(one: BandGraph) -> Band:
            inner = _band_parts(one, self.target)
            plan, offsets, arena = planned(inner, rows, scratch, self.model, self.memories)
            return Band(inner, plan, tuple(_sections(one)), offsets, arena)

        return self._banded(parts, cascade, width, scratch, band)

    def _chain(self, parts: Parts, chain: Chain, candidate: Candidate) -> BandedCascade | None:
        """Return the bands of a chain, without costs."""
        rows, scratch = candidate.stripe, candidate.scratch_bytes

        def band(one: BandGraph) -> Band:
            inner = _band_parts(one, self.target)
            plan, offsets, slots, arena = planned_chain(inner, rows, scratch, self.memories)
            return Band(inner, plan, tuple(_sections(one)), offsets, arena, slots)

        found = self._banded(parts, chain.parts, chain.columns, scratch, band)
        if found is None:
            return None
        return replace(found, bands=replace(found.bands, call_rows=rows))

    def _banded(
        self,
        parts: Parts,
        cascade: Sequence[int],
        width: int,
        scratch_bytes: int,
        band: Callable[[BandGraph], Band],
    ) -> BandedCascade | None:
        """Return the bands of parts that run as one; None if a part cannot compute some columns.

        cascade: indices of the parts, in execution order.
        scratch_bytes: scratch memory of the kernels, unless their fallbacks need more.
        band: plans consecutive bands that share a graph.
        """
        nodes = [node for k in cascade for node in parts.parts[k].nodes]
        graphs = column_bands(parts.graph.name, nodes, width, parts.names)
        if graphs is None:
            return None
        implemented = [self._with_kernels(one) for one in graphs]
        found = tuple(band(one) for one in implemented if one is not None)
        if len(found) < len(graphs):
            return None
        bands = Bands(nodes[-1].name, width, scratch_bytes, found)
        return BandedCascade(tuple(cascade), bands)

    def _with_kernels(self, band: BandGraph) -> BandGraph | None:
        """Return a band whose composites have kernels for its columns.

        None if an accelerator cannot run one of them, or if a kernel cannot access columns.
        """
        nodes: list[Node] = []
        for node in band.graph.nodes:
            found = node
            if isinstance(node.op, Composite):
                found = with_kernels(node, self.accelerators)
                if found is None or not computes_columns(
                    single_node_part(found, self.target.engines[0])
                ):
                    return None
            nodes.append(found)
        return replace(band, graph=band.graph.with_nodes(tuple(nodes)))


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
