"""C kernels on a processor: portable ones take every operator; cycles by a linear model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from penstock.backends.cortex_m.variants import kernel_for
from penstock.hardware.target import Engine, Target
from penstock.ir.composite import Composite
from penstock.ir.graph import Graph, Node, whole_work
from penstock.ir.op import Kernel
from penstock.scheduling.part import PULL, Part, Parts

CALLER = "caller"
"""The engine of what the caller does."""


@dataclass(frozen=True, slots=True)
class Processor:
    """A processor's word on what its parts cost."""

    engine: Engine

    def work_cycles(self, part: Part) -> int:
        """Cycles of the part's whole output: linear in products, elements and loops."""
        if not part.nodes:
            return 0
        if part.kernel.work_cycles is not None:
            return part.kernel.work_cycles
        work = whole_work(part.nodes[-1])
        engine = self.engine
        return round(
            work.macs * engine.cycles_per_mac
            + work.elements * engine.cycles_per_element
            + work.loops * engine.cycles_per_loop
        )

    def call_cycles(self, part: Part) -> int:
        """Cycles that each call adds."""
        return round(self.engine.cycles_per_call)

    def cycles(self, part: Part, stripes: Sequence[int]) -> int:
        """Cycles of so many calls."""
        return self.work_cycles(part) + len(stripes) * self.call_cycles(part)


def kernel_of(node: Node, engine: Engine) -> Kernel:
    """The kernel that serves a node on an engine: a special one where the engine has one."""
    return kernel_for(node.op, node.site, engine.kernels)


def assign(graph: Graph, target: Target, *, stream_input: bool = False) -> Parts:
    """Every node that computes, as a part of its own, on the accelerator that claims it or on the
    target's first engine; and before them, with `stream_input`, the caller who hands over the
    inputs row by row."""
    engine = target.engines[0]
    pulled = graph.inputs if stream_input else ()
    return Parts(
        graph,
        (
            *(Part((), CALLER, PULL, value) for value in pulled),
            *(
                Part((node,), _engine(node, engine), kernel_of(node, engine))
                for node in graph.nodes
                if not node.op.ALIAS
            ),
        ),
    )


def _engine(node: Node, processor: Engine) -> str:
    """Who runs a node."""
    return node.op.engine if isinstance(node.op, Composite) else processor.name


def lean(parts: Parts) -> Parts:
    """The same parts, each with its portable kernel where a special one needs scratch."""
    return replace(parts, parts=tuple(map(_lean, parts.parts)))


def _lean(part: Part) -> Part:
    if not part.nodes or not part.kernel.scratch_bytes:
        return part
    node = part.nodes[-1]
    return replace(part, kernel=node.op.kernel(node.site))
