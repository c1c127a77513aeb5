"""ProgramContext: the objects that the text of a program refers to by name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

from penstock.ir.graph import Value
from penstock.ir.op import Kernel
from penstock.ir.text.labels import Labels
from penstock.program.program import Call, Invoke, View
from penstock.scheduling.model.part import Part
from penstock.scheduling.model.parts import Parts, update_name

PREFERRED, FALLBACK, PREFETCHING = "preferred", "fallback", "prefetching"


@dataclass(frozen=True)
class ProgramContext:
    """The parts that a program runs, and an example call of each driver function.

    The arguments of a function are positional, or a record of the same class as in the example."""

    parts: Parts
    invocations: tuple[Invoke, ...] = ()

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

    def whole_view(self, name: str) -> View | None:
        """The view of a graph tensor that fills the buffer of the same name, or None."""
        value = self.values.get(name)
        return None if value is None else View.whole(name, value.type, name)

    @cached_property
    def _invocations(self) -> Mapping[tuple[str, str], Invoke]:
        return {(i.driver.engine, i.driver.name): i for i in reversed(self.invocations)}

    def invocation(self, engine: str, name: str) -> Invoke | None:
        """The example call of a driver function, or None."""
        return self._invocations.get((engine, name))


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
