"""Processor parts: assigns the nodes of a graph to the processor, with kernels of its core family.

Also what the assignment needs: checks of element types, copies for kernels that cannot access
rings, and the model of the cycles of all engines.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import field, replace

from penstock.backends.author import cost_of
from penstock.backends.cores.family import core_family, select_kernels
from penstock.errors import ModelError
from penstock.frozen import frozen
from penstock.hardware.target import CALLER, Engine, Target
from penstock.ir.breakdown import Breakdown
from penstock.ir.composite import Composite
from penstock.ir.graph import Graph, Node, Queue, Value, free_name, whole_work
from penstock.ir.tensor import row_count
from penstock.opkit.checks import require_dtype
from penstock.ops.registry import COPY
from penstock.scheduling.model.memories import MemoryAssignment
from penstock.scheduling.model.part import PULL, Part
from penstock.scheduling.model.parts import Parts

# Checks that an operator supports the element types of a node.


def check_element_types(node: Node) -> None:
    """Raise ModelError unless the operator supports the element types of the node."""
    # `Op.result_type` must accept the types of the inputs and return the element type of the
    # output.  Portable kernels and `Op.evaluate` support exactly these types.
    problem = element_type_problem(node)
    if problem is not None:
        raise problem.at(node.origin or node.name)


def element_type_problem(node: Node) -> ModelError | None:
    """Return the error for unsupported element types of a node; None if they are supported."""
    try:
        computed = node.op.result_type(node.site.inputs)
        require_dtype(node.output.type, "output", computed.dtype)
    except ModelError as error:
        return error
    return None


# Queue access: copies for kernels that cannot access the ring buffer of a queue, which keeps the
# last rows of a sequence from run to run.
#
# A queue keeps the last rows of a sequence in a ring; each run replaces the oldest rows by new
# ones. The kept rows and the new ones together are the window of the queue, and a slice of the
# window is a section.  The slot of the window's first row changes from run to run.  Processor
# kernels that compute row by row can read and write rings.  Other kernels, including those of
# accelerators, need a contiguous copy, and so do nodes that reshape the window.


def with_queue_access(
    graph: Graph, part: Callable[[Node], Part], streamed: Collection[str]
) -> Graph:
    """Return the graph with copies wherever a node cannot access the ring buffer of a queue."""
    for queue in graph.queues:
        access = _Access(graph, queue, part, streamed)
        graph = access.with_new_rows_in_ring()
        graph = replace(access, graph=graph).with_copies_for_others()
    return graph


@frozen
class _Access:
    """Inserts copies for one queue, which keeps the last rows of a sequence in a ring buffer.
    The kept rows and the new rows of a run together are the queue's window; a slice of the window
    is a section.

    graph, queue: the graph so far, and the queue.
    part: returns the part of a node, with its kernels.
    streamed: names of the inputs whose rows the application supplies during the run."""

    graph: Graph
    queue: Queue
    part: Callable[[Node], Part]
    streamed: Collection[str]

    def with_new_rows_in_ring(self) -> Graph:
        """The graph in which the new rows of this run are written into the ring."""
        # If the producer of the new rows cannot write them there directly, a new node copies them
        # into the ring.
        append = self.graph.producers()[self.queue.window.name]
        new = append.inputs[1]
        if self._is_written_into_ring(new):
            return self.graph
        copy = self._copy(new, append.origin)
        appended = replace(append, inputs=(append.inputs[0], copy.output))
        nodes = (
            made
            for node in self.graph.nodes
            for made in ((copy, appended) if node is append else (node,))
        )
        return self.graph.with_nodes(tuple(nodes))

    def with_copies_for_others(self) -> Graph:
        """The graph with contiguous copies of the queue's window and of sections of it."""
        # The window or a section is copied only if some node that reads it cannot read the ring.
        # Such nodes read the copy; all others still read the ring.
        graph = self.graph
        for value in self.queue.views:
            graph = replace(self, graph=graph)._with_copy(value)
        return graph

    def _with_copy(self, value: Value) -> Graph:
        """The graph in which the nodes that cannot read the ring read a copy of `value`."""
        # A new node makes the copy, which is contiguous.  If every node that reads `value` can read
        # the ring, the graph is unchanged.
        readers = self.graph.consumers().get(value.name, ())
        unable = {node.name for node in readers if not self._accesses_rings(node)}
        if not unable:
            return self.graph
        copy = self._copy(value, self.graph.producers()[value.name].origin)
        nodes: list[Node] = []
        for node in self.graph.nodes:
            nodes.append(
                replace(node, inputs=tuple(copy.output if v == value else v for v in node.inputs))
                if node.name in unable
                else node
            )
            if node.name == value.name:
                nodes.append(copy)
        return self.graph.with_nodes(tuple(nodes))

    def _is_written_into_ring(self, new: Value) -> bool:
        # The producer must be a node that can write ring buffers, or the application, which
        # supplies the rows of a streamed input.  The rows are then stored only in this ring.  So
        # all other nodes that read `new` must be able to read ring buffers, and none may append it
        # to another queue.
        windows = {queue.window.name for queue in self.graph.queues}
        views = {value.name for queue in self.graph.queues for value in queue.views}
        readers = self.graph.consumers()[new.name]
        others = [node for node in readers if node.name not in windows]
        maker = self.graph.producers().get(new.name)
        if maker is None:
            written = new.name in self.streamed
        else:
            written = maker.name not in views and self._accesses_rings(maker)
        return (
            written and len(readers) == len(others) + 1 and all(map(self._accesses_rings, others))
        )

    def _accesses_rings(self, node: Node) -> bool:
        """Whether all kernels of a node can access ring buffers.

        The result is False for reshapes and other aliases, which need contiguous bytes.  It is True
        for the nodes that define the window or a section of the queue, because no kernel runs for
        them."""
        if node.op.ALIAS:
            return False
        if node.name in (value.name for value in self.queue.views):
            return True
        part = self.part(node)
        kernels = (part.kernel, *((part.fallback,) if part.fallback is not None else ()))
        return all(
            kernel.by_rows and kernel.body is None and kernel.alignment_bytes == 1
            for kernel in kernels
        )

    def _copy(self, value: Value, origin: str) -> Node:
        """A node that copies `value` to a new contiguous tensor."""
        name = free_name(f"{value.name}/copy", self.graph.names())
        return Node(COPY, (value,), Value(name, value.type), origin)


def assign(
    graph: Graph,
    target: Target,
    *,
    stream_input: bool = False,
    make_part: Callable[[Node, Engine], Part] | None = None,
) -> Parts:
    """Return the parts of a graph: each node that computes something, with its engine and kernels.

    stream_input: True to add a part for each graph input, before all others.  Such a part stands
        for the application, which supplies the input row by row while the network runs.
    make_part: returns a node as a part, given the target's first engine; None: `single_node_part`.
    """
    # A composite (nodes that an accelerator runs as one) gets its accelerator as engine; all other
    # nodes get the target's first engine.  Nodes without computation do not become parts: reshapes
    # and other aliases, and nodes whose output is already in the ring buffer of a queue, which
    # keeps the last rows of a sequence from run to run.
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
        target=target,
    )


def single_node_part(node: Node, processor: Engine) -> Part:
    """Return the part that consists of a node, with its kernels and its engine.

    Raises ModelError if no kernel supports the node's element types."""
    op, site = node.op, node.site
    if isinstance(op, Composite):
        kernel = op.kernel(site)
        return Part((node,), op.engine, kernel, fallback=op.fallback, prefetching=op.prefetching)
    check_element_types(node)
    selected = select_kernels(op, site, core_family(processor.kernels))
    return Part((node,), processor.name, selected.kernel, fallback=selected.fallback)


def processor_cycles(node: Node, target: Target) -> int:
    """Return the cycles in which the processor of a chip computes the whole output of a node.

    Raises ModelError if no kernel supports the node's element types."""
    processor = target.engines[0]
    return Engines(processor).work_cycles(single_node_part(node, processor))


def portable_part(node: Node, processor: Engine) -> Part:
    """Return a node as a part with its portable kernel."""
    # This function is faster than `single_node_part`, which selects the kernels of the core family.
    # The portable kernel suffices to determine which input rows each output row depends on.
    return Part((node,), processor.name, node.op.kernel(node.site))


# Engines: the cycles of parts (nodes with their kernels) on the processor or an accelerator.


@frozen
class Engines:
    """The cycle model of all engines: the processor and the accelerators.

    On an accelerator, the cycles of a call come from the cost function of its kernel.  The schedule
    search approximates them by a constant per call plus a constant per output row.  These two
    constants are chosen such that the approximation is exact for a call that computes one row, and
    for a call that computes all rows.  For example, if a call takes 30 cycles for one row and 120
    for all ten, the constants are 20 cycles per call and 10 per row.

    processor: the processor and its cycles per operation; `MemorySystem` computes the stalls of its
        memory accesses.
    _known: the cycles of calls, cached.  A key consists of the cost function and its arguments: the
        number of output rows, and the memory regions of inputs and output.
    _starts: the additional cycles of calls after a command of another engine (cold start), cached
        with the same keys."""

    processor: Engine
    _known: dict[tuple[object, int, tuple[str, ...]], int] = field(
        default_factory=dict,
        init=False,
        repr=False,
        compare=False,
    )
    _starts: dict[tuple[object, int, tuple[str, ...]], int] = field(
        default_factory=dict,
        init=False,
        repr=False,
        compare=False,
    )

    def work_cycles(self, part: Part, memory: MemoryAssignment | None = None) -> int:
        """Return the cycles of computing a whole output, without the constant cost of each call.

        memory: the memory region of each tensor; None if all are in the default region."""
        # On the processor, they are `Kernel.work_cycles` if known.  Otherwise, they are a weighted
        # sum of the numbers of multiply-accumulates, of other operations on elements, and of
        # executions of the innermost loop.
        if part.kernel.cycles is not None:
            rows = row_count(part.output.shape)
            return max(0, self._cycles(part, rows, memory) - self.call_cycles(part, memory))
        if not part.nodes:
            return 0
        if part.kernel.work_cycles is not None:
            return part.kernel.work_cycles
        work, engine = whole_work(part.nodes[-1]), self.processor
        return round(
            work.macs * engine.cycles_per_mac
            + work.elements * engine.cycles_per_element
            + work.loops * engine.cycles_per_loop
        )

    def call_cycles(self, part: Part, memory: MemoryAssignment | None = None) -> int:
        """Return the constant cost of a call: the cycles that do not depend on its number of rows.

        memory: the memory region of each tensor; None if all are in the default region."""
        # On the processor, an upper bound: kernels that compute pixels in pairs may take
        # `Kernel.odd_cycles` longer for an odd number of rows, and not for an even number.
        if part.kernel.cycles is None:
            return self._processor_call_cycles(part) + part.kernel.odd_cycles
        rows = row_count(part.output.shape)
        whole = self._cycles(part, rows, memory)
        if rows == 1:
            return whole
        return min(whole, max(0, (rows * self._cycles(part, 1, memory) - whole) // (rows - 1)))

    def cycles(
        self, part: Part, stripes: Sequence[int], memory: MemoryAssignment | None = None
    ) -> int:
        """Return the total cycles of the calls that compute a node's output in stripes.

        memory: the memory region of each tensor; None if all are in the default region."""
        if part.kernel.cycles is not None:
            known = {rows: self._cycles(part, rows, memory) for rows in set(stripes)}
            return sum(known[rows] for rows in stripes)
        odd = sum(rows % 2 for rows in stripes) * part.kernel.odd_cycles
        work = self.work_cycles(part)
        if part.nodes:
            work = work * sum(stripes) // row_count(part.output.shape)
        return work + len(stripes) * self._processor_call_cycles(part) + odd

    def cold_start_cycles(
        self, part: Part, rows: int, memory: MemoryAssignment | None = None
    ) -> int:
        """Return the cycles that a call takes longer if another engine ran the command before it.

        memory: the memory region of each tensor; None if all are in the default region."""
        asked = part.kernel.cycles
        if asked is None:
            return 0
        key = asked, rows, memory.operand_regions(part) if memory is not None else ()
        if key not in self._starts:
            found = asked(*key[1:])
            longer = found.cold_start if isinstance(found, Breakdown) else 0
            self._starts[key] = round(longer)
        return self._starts[key]

    def _processor_call_cycles(self, part: Part) -> int:
        # A call for an odd number of rows takes `Kernel.odd_cycles` in addition.
        known = part.kernel.call_cycles
        return round(self.processor.cycles_per_call) if known is None else known

    def _cycles(self, part: Part, rows: int, memory: MemoryAssignment | None) -> int:
        asked = part.kernel.cycles
        assert asked is not None
        regions = memory.operand_regions(part) if memory is not None else ()
        key = asked, rows, regions
        if key not in self._known:
            where = f'{part.engine}: the cost of "{part.kernel.name}", for "{part.name}"'
            self._known[key] = round(cost_of(asked, rows, regions, where))
        return self._known[key]
