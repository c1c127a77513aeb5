"""ProgramContext: the objects that the text of a program refers to by name."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from penstock.ir.graph import Value
from penstock.ir.op import Kernel
from penstock.ir.text.labels import Labels
from penstock.program.band_loops import first_column
from penstock.program.expr import Expr
from penstock.program.program import Call, View
from penstock.scheduling.model.bands import Band, Bands
from penstock.scheduling.model.part import Part
from penstock.scheduling.model.parts import Parts, update_name
from penstock.scheduling.model.schedule import Schedule

PREFERRED, FALLBACK, PREFETCHING = "preferred", "fallback", "prefetching"


@dataclass(frozen=True)
class ProgramContext:
    """The parts that a program runs.

    parts: those of the stage `assign`.
    bands: the cascades that run in bands of columns; their calls are not those of `parts`."""

    parts: Parts
    bands: tuple[Bands, ...] = ()

    @staticmethod
    def of(schedule: Schedule) -> ProgramContext:
        """The context of a schedule's program."""
        return ProgramContext(schedule.assigned_parts, schedule.bands)

    @cached_property
    def values(self) -> Mapping[str, Value]:
        """Values of the graph by name, constants included."""
        graph = self.parts.graph
        every = (*graph.constants(), *graph.variables(), *graph.results)
        return {value.name: value for value in every}

    @cached_property
    def labels(self) -> Labels:
        """The labels by which texts refer to the graph's values."""
        return Labels.of(self.parts.graph)

    @cached_property
    def _parts(self) -> Mapping[str, Part]:
        updates = {update_name(self.parts, part.output): part for part in self.parts.updates}
        return {part.name: part for part in self.parts.parts if part.nodes} | updates

    def part(self, name: str) -> Part | None:
        """The part that computes a tensor, or None."""
        return self._parts.get(name)

    @cached_property
    def _band_parts(self) -> Mapping[tuple[str, int], Mapping[tuple[str, Expr | None], Part]]:
        return {
            (bands.name, k): _parts_by_columns(band)
            for bands in self.bands
            for k, band in enumerate(bands.bands)
        }

    def parts_in_bands(self, view: View) -> Iterator[tuple[str, int, Part]]:
        """The parts that compute the columns of a tensor that a view shows, each with the name and
        index of its band."""
        for (name, k), parts in self._band_parts.items():
            part = parts.get((view.tensor, view.first_column))
            if part is not None:
                yield name, k, part

    def whole_view(self, name: str) -> View | None:
        """The view of a graph tensor that fills the buffer of the same name, or None."""
        value = self.values.get(name)
        return None if value is None else View.whole(name, value.type, name)


def _parts_by_columns(band: Band) -> Mapping[tuple[str, Expr | None], Part]:
    """The parts of a band by the tensor of the network of which they compute columns, and the first
    of these."""
    sections = {section.value: section for section in band.sections}
    return {
        (section.tensor, first_column(band, section)): part
        for part in band.parts.parts
        for section in [sections[part.name]]
    }


def kernels(part: Part) -> Iterable[tuple[str, Kernel]]:
    """The kernels of a part, each with its name in texts."""
    yield PREFERRED, part.kernel
    if part.fallback is not None:
        yield FALLBACK, part.fallback
    for k, kernel in enumerate(part.prefetching):
        yield f"{PREFETCHING}{k}", kernel


def kernel_role(part: Part, call: Call) -> str | None:
    """The name in texts of a call's kernel; None if the kernel is not one of the part's."""
    node = part.nodes[-1]
    mine = (node.op, node.site, node.origin, part.engine)
    if (call.op, call.site, call.origin, call.engine) != mine:
        return None
    return next((role for role, kernel in kernels(part) if kernel == call.kernel), None)
