"""Processor parts: assigns the nodes of a graph to the processor, with kernels of its core family.

Also the model of the processor's cycles."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from penstock.backends.cores.registry import core_family
from penstock.backends.cores.selection import select_kernels
from penstock.backends.operator_types import check_element_types
from penstock.backends.queue_access import with_queue_access
from penstock.hardware.target import CALLER, Engine, Target
from penstock.ir.composite import Composite
from penstock.ir.graph import Graph, Node, whole_work
from penstock.ir.op import row_count
from penstock.scheduling.model.memory_assignment import MemoryAssignment
from penstock.scheduling.model.part import PULL, Part
from penstock.scheduling.model.parts import Parts


@dataclass(frozen=True, slots=True)
class Processor:
    """The cycle model of a processor, without stalls for memory accesses.

    The class `MemorySystem` computes stalls; the `memory` arguments of the methods are unused.

    engine: the processor and its cycles per operation."""

    engine: Engine

    def work_cycles(self, part: Part, memory: MemoryAssignment | None = None) -> int:
        """Return the cycles of computing a whole output, without the constant cost of each call.

        They are `Kernel.work_cycles` if known.  Otherwise, they are a weighted sum of the numbers
        of multiply-accumulates, of other operations on elements, and of executions of the
        innermost loop.

        part: the node that computes the output, and its kernels.
        memory: unused."""
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

    def call_cycles(self, part: Part, memory: MemoryAssignment | None = None) -> int:
        """Return an upper bound on the constant cost of a call, in cycles.

        The constant cost consists of the cycles that are not proportional to the number of rows.
        Kernels that compute pixels in pairs may take `Kernel.odd_cycles` longer for an odd number
        of rows.  The result includes these cycles, although calls for an even number of rows do not
        take them.

        part: the called node, and its kernels.
        memory: unused."""
        return self._call_cycles(part) + part.kernel.odd_cycles

    def cycles(
        self, part: Part, stripes: Sequence[int], memory: MemoryAssignment | None = None
    ) -> int:
        """Return the total cycles of the calls that compute a node's output in stripes.

        part: the node, and its kernels.
        stripes: for each call, its number of output rows; rows that several calls compute count for
            each of them.
        memory: unused."""
        odd = sum(rows % 2 for rows in stripes) * part.kernel.odd_cycles
        work = self.work_cycles(part)
        if part.nodes:
            work = work * sum(stripes) // row_count(part.output.type.shape)
        return work + len(stripes) * self._call_cycles(part) + odd

    def cold_start_cycles(
        self, part: Part, rows: int, memory: MemoryAssignment | None = None
    ) -> int:
        """Return 0: a call takes no longer after a command of another engine.

        part, rows, memory: unused."""
        return 0

    def _call_cycles(self, part: Part) -> int:
        """Return the cycles that each call of a part takes, whatever its number of rows.

        A call for an odd number of rows takes `Kernel.odd_cycles` in addition."""
        known = part.kernel.call_cycles
        return round(self.engine.cycles_per_call) if known is None else known


def assign(
    graph: Graph,
    target: Target,
    *,
    stream_input: bool = False,
    make_part: Callable[[Node, Engine], Part] | None = None,
) -> Parts:
    """Return the parts of a graph: each node that computes something, with its engine and kernels.

    A composite (nodes that an accelerator runs as one) gets its accelerator as engine; all other
    nodes get the target's first engine.  Nodes without computation do not become parts: reshapes
    and other aliases, and nodes whose output is already in the ring buffer of a queue, which keeps
    the last rows of a sequence from run to run.

    stream_input: True to add a part for each graph input, before all others.  Such a part stands
        for the application, which supplies the input row by row while the network runs.
    make_part: returns a node as a part, given the target's first engine; None: `single_node_part`.
    """
    engine = target.engines[0]
    pulled = graph.inputs if stream_input else ()
    streamed = frozenset(value.name for value in pulled)
    make = make_part or single_node_part
    graph = with_queue_access(graph, lambda node: make(node, engine), streamed)
    views = {value.name for queue in graph.queues for value in queue.views}
    computed = (n for n in graph.nodes if not n.op.ALIAS and n.name not in views)
    parts = [make(node, engine) for node in computed]
    return Parts(
        graph,
        (*(Part((), CALLER, PULL, value) for value in pulled), *parts),
        updates=tuple(single_node_part(state.update, engine) for state in graph.states),
    )


def single_node_part(node: Node, processor: Engine) -> Part:
    """Return the part that consists of a node, with its kernels and its engine.

    processor: the engine of a node that is not a composite; a composite names its own engine.

    Raises ModelError if no kernel supports the node's element types."""
    op, site = node.op, node.site
    if isinstance(op, Composite):
        kernel = op.kernel(site)
        return Part((node,), op.engine, kernel, fallback=op.fallback, prefetching=op.prefetching)
    check_element_types(node)
    selected = select_kernels(op, site, core_family(processor.kernels))
    return Part((node,), processor.name, selected.kernel, fallback=selected.fallback)


def portable_part(node: Node, processor: Engine) -> Part:
    """Return a node as a part with its portable kernel.

    This function is faster than `single_node_part`, which selects the kernels of the core family.
    The portable kernel suffices to determine which input rows each output row depends on.

    processor: the engine that runs the node.
    """
    return Part((node,), processor.name, node.op.kernel(node.site))
