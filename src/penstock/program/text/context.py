"""ProgramContext: what the text of a program refers to instead of repeating it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

from penstock.ir.graph import Value
from penstock.ir.op import Kernel
from penstock.ir.text.labels import Labels
from penstock.program.program import Call, Invoke, View
from penstock.scheduling.model.part import Part
from penstock.scheduling.model.parts import Parts

PREFERRED, FALLBACK, PREFETCHING = "preferred", "fallback", "prefetching"


@dataclass(frozen=True)
class ProgramContext:
    """The parts that a program runs, and examples of calls of each driver function.

    The arguments of a function are a record of the class of its example's, or positional."""

    parts: Parts
    invocations: tuple[Invoke, ...] = ()

    @cached_property
    def values(self) -> Mapping[str, Value]:
        """Values of the graph by name, constants included."""
        graph = self.parts.graph
        every = (*graph.constants(), *graph.variables(), *graph.outputs)
        return {value.name: value for value in every}

    @cached_property
    def labels(self) -> Labels:
        """How texts call the graph's values."""
        return Labels.of(self.parts.graph)

    @cached_property
    def _parts(self) -> Mapping[str, Part]:
        return {part.name: part for part in self.parts.parts if part.nodes}

    def part(self, name: str) -> Part | None:
        """The part that computes a tensor, if any does."""
        return self._parts.get(name)

    def whole_view(self, name: str) -> View | None:
        """The view of a tensor of the graph that fills a buffer of its name."""
        value = self.values.get(name)
        return None if value is None else View.whole(name, value.type, name)

    @cached_property
    def _invocations(self) -> Mapping[tuple[str, str], Invoke]:
        return {(i.driver.engine, i.driver.name): i for i in reversed(self.invocations)}

    def invocation(self, engine: str, name: str) -> Invoke | None:
        """An example of a call of a driver's function."""
        return self._invocations.get((engine, name))


def kernels(part: Part) -> Iterable[tuple[str, Kernel]]:
    """The kernels of a part by how texts call them."""
    yield PREFERRED, part.kernel
    if part.fallback is not None:
        yield FALLBACK, part.fallback
    for k, kernel in enumerate(part.prefetching):
        yield f"{PREFETCHING}{k}", kernel


def kernel_role(part: Part, call: Call) -> str | None:
    """How texts call the kernel of a call; None where the call is not one of the part."""
    node = part.nodes[-1]
    mine = (node.op, node.site, node.origin, part.engine)
    if (call.op, call.site, call.origin, call.engine) != mine:
        return None
    return next((role for role, kernel in kernels(part) if kernel == call.kernel), None)
