"""OrderProblem: steps that read and write tensors, to be ordered such that peak memory is least.

Liveness, for every order:

    while a step runs, all tensors that it reads or writes and its scratch memory are live;
    a network input is live from the start to its last reader (to the end with `keep_inputs`);
    a network output is live from its writer to the end;
    any other tensor is live from its writer to its last reader;
    if a step may write tensor b over tensor a, and no later step reads a, the two tensors share
    memory while the step runs: together they count as the larger one.

So the bytes that are live while a step runs depend on the *set* of steps before it, not on their
order.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import Enum

import rustworkx as rx

from penstock.errors import InternalError
from penstock.frozen import frozen
from penstock.scheduling.model.part import Part
from penstock.scheduling.model.parts import Parts


@frozen
class OrderStep:
    """A step that reads and writes tensors, given by name.

    scratch_bytes: memory that is live only while the step runs.
    in_place: (read, written) pairs of tensors; `written` may overwrite `read`, so the two may share
        memory.
    """

    name: str
    reads: tuple[str, ...]
    writes: tuple[str, ...]
    scratch_bytes: int = 0
    in_place: tuple[tuple[str, str], ...] = ()


@frozen
class OrderProblem:
    """Steps that are to be ordered for least peak memory, with the sizes of their tensors.

    sizes: (tensor name, bytes) pairs.
    inputs, outputs: names of the network's input and output tensors.
    keep_inputs: whether the inputs must survive the run.

    Every tensor is an input or written by exactly one step.  Tensors that need no memory, such as
    constants, are left out.
    """

    steps: tuple[OrderStep, ...]
    sizes: tuple[tuple[str, int], ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    keep_inputs: bool = False

    def __post_init__(self) -> None:
        written = Counter(name for step in self.steps for name in set(step.writes))
        written.update(self.inputs)
        sized = dict(self.sizes)
        named = {name for step in self.steps for name in (*step.reads, *step.writes)}
        named |= {*self.inputs, *self.outputs}
        if wrong := sorted(name for name in named if name not in sized or written[name] != 1):
            what = "every tensor needs a size, and exactly one writer unless it is an input"
            raise InternalError("order-001", what, where=", ".join(wrong))
        pairs = ((step, read, write) for step in self.steps for read, write in step.in_place)
        if any(r not in step.reads or w not in step.writes for step, r, w in pairs):
            raise InternalError(
                "order-002",
                "an in-place pair must join a tensor that is read and one that is written",
            )
        if not rx.is_directed_acyclic_graph(dependence_graph(self)):
            raise InternalError("order-003", "the steps depend on each other in a cycle")


def dependence_graph(problem: OrderProblem) -> rx.PyDiGraph[int, str]:
    """Return the dependence graph: one node per step, edges from each writer to its readers.

    The node with index i represents step i, and its data is i.  There is one edge for each pair of
    a writer and a reader; its data is the name of a tensor that the two share.
    """
    graph: rx.PyDiGraph[int, str] = rx.PyDiGraph(multigraph=False)
    graph.add_nodes_from(list(range(len(problem.steps))))
    writer = {name: i for i, step in enumerate(problem.steps) for name in step.writes}
    for i, step in enumerate(problem.steps):
        for name in step.reads:
            if name in writer:
                graph.add_edge(writer[name], i, name)
    return graph


def shared_bytes(pairs: tuple[tuple[str, str, int], ...]) -> int:
    """Return the maximum number of bytes that in-place pairs can save together.

    pairs: (tensor read, tensor written, bytes saved if the two share memory).
    Each tensor can share memory in at most one pair, so this is a maximum weight matching.
    """
    reads, writes = {r for r, _, _ in pairs}, {w for _, w, _ in pairs}
    if len(reads) == len(writes) == len(pairs):
        return sum(saved for _, _, saved in pairs)
    if len(reads) == 1 or len(writes) == 1:
        return max(saved for _, _, saved in pairs)
    graph: rx.PyGraph[str, int] = rx.PyGraph()
    nodes = {key: graph.add_node(key[1]) for r, w, _ in pairs for key in (("r", r), ("w", w))}
    for r, w, saved in pairs:
        graph.add_edge(nodes["r", r], nodes["w", w], saved)
    matching = rx.max_weight_matching(graph, weight_fn=int)
    return sum(graph.get_edge_data(a, b) for a, b in matching)


def order_problem(parts: Parts, *, keep_inputs: bool) -> OrderProblem:
    """Return the problem of ordering parts (nodes that run as a unit) for least peak memory.

    Each part is a step.  The tensors of the problem are the storages: a storage is the memory of a
    tensor and its aliases.  Each step writes one storage.
    keep_inputs: whether the network's inputs must survive the run.
    """
    storages = parts.owners
    graph = parts.graph
    sizes = ((storage.name, storage.size_bytes) for storage in parts.rows.storages)
    outputs = (storages[v.name] for v in graph.results if v.data is None)
    in_rings = frozenset(name for queue in parts.queues for name in queue.inside)
    counters = tuple(queue.counter for queue in parts.queues)
    return OrderProblem(
        tuple(_step(part, storages, in_rings) for part in parts.parts),
        tuple(sizes),
        (*(v.name for v in parts.sources), *counters),
        tuple(dict.fromkeys((*outputs, *counters))),
        keep_inputs,
    )


def _step(part: Part, storages: Mapping[str, str], in_rings: frozenset[str]) -> OrderStep:
    """Return the step of a part.

    storages: name of the storage of each value, by value name.
    in_rings: names of the storages that hold the new rows of queues.  These storages are part of
        ring buffers, so they are in no in-place pair.
    """
    reads = tuple(dict.fromkeys(storages[v.name] for v in part.variable_inputs))
    written = storages[part.output.name]
    overwritten = (read for read in reads if _may_overwrite(part, read, storages))
    pairs = tuple((read, written) for read in overwritten if not {read, written} & in_rings)
    return OrderStep(part.name, reads, (written,), part.least_scratch_bytes, pairs)


def _may_overwrite(part: Part, storage: str, storages: Mapping[str, str]) -> bool:
    """Return whether a part may write its output over `storage`, the memory of an input tensor.

    This requires, for each input of the part in this memory, that output element i depends only on
    element i of the input.
    storages: name of the storage of each value, by value name.
    """
    allowed = part.in_place()
    return all(
        k in allowed
        for k, value in enumerate(part.inputs)
        if value.data is None and storages[value.name] == storage
    )


@frozen
class StepRead:
    """A tensor that a step reads.  It is live until all steps that read it have run.

    others: mask of the steps that read the tensor, without the step itself.
    """

    others: int
    size_bytes: int


@frozen
class InPlacePair:
    """Two tensors of a step: its output `written` may overwrite its input `read`.

    They share memory while the step runs if all other readers of `read` have run.
    others: mask of the other readers of `read`.
    read, written: names of the two tensors.
    saved_bytes: bytes saved by sharing.
    """

    others: int
    read: str
    written: str
    saved_bytes: int


@frozen
class StepRow:
    """The dependences and the memory of one step.

    before: mask of the steps that write an input of the step.
    after: indices of the steps that read an output of the step.
    ancestors: mask of all steps that run before the step in every order.
    descendants: mask of all steps that run after the step in every order.
    added_bytes: bytes of all outputs of the step, plus its scratch memory.
    lasting_bytes: bytes of the outputs that are live after the step: other steps read them, or they
        are network outputs.
    reads: the inputs of the step, without tensors that are kept to the end of the run.
    pairs: pairs of an input and an output that may share memory.
    has_one_output: whether the step writes one tensor.
    must_bytes: lower bound, over all orders, of the live bytes while the step runs.
    """

    before: int
    after: tuple[int, ...]
    ancestors: int
    descendants: int
    added_bytes: int
    lasting_bytes: int
    reads: tuple[StepRead, ...]
    pairs: tuple[InPlacePair, ...]
    has_one_output: bool
    must_bytes: int


@frozen
class StepTable:
    """The dependences and the memory of all steps, one row per step, in the problem's order.

    start_bytes: live bytes before the first step.
    graph: the dependence graph of the steps.
    """

    rows: tuple[StepRow, ...]
    start_bytes: int
    graph: rx.PyDiGraph[int, str]

    @property
    def everything(self) -> int:
        """The mask of all steps."""
        return (1 << len(self.rows)) - 1

    def run(self, done: int, live_bytes: int, step: int) -> tuple[int, int]:
        """Return the live bytes while a step runs, and the live bytes after it.

        done: mask of the steps completed before; live_bytes: live bytes before the step.
        """
        row = self.rows[step]
        during = live_bytes + row.added_bytes
        if row.pairs:
            during -= self._shared(done, row)
        live_bytes += row.lasting_bytes
        for read in row.reads:
            if not read.others & ~done:
                live_bytes -= read.size_bytes
        return during, live_bytes

    def ready_after(self, done: int, step: int) -> int:
        """Return the mask of the steps that become ready when `step` has run.

        done: mask of the completed steps, including `step`.
        """
        ready = 0
        for i in self.rows[step].after:
            if not self.rows[i].before & ~done:
                ready |= 1 << i
        return ready

    def peak(self, done: int, live_bytes: int, order: Iterable[int]) -> tuple[int, int]:
        """Return the live bytes at the peak of a sequence of steps, and the live bytes after it.

        done: mask of the steps completed before; live_bytes: live bytes before the sequence.
        """
        peak = live_bytes
        for step in order:
            during, live_bytes = self.run(done, live_bytes, step)
            done |= 1 << step
            peak = max(peak, during)
        return peak, live_bytes

    def _shared(self, done: int, row: StepRow) -> int:
        pairs = [pair for pair in row.pairs if not pair.others & ~done]
        if row.has_one_output:
            return max((pair.saved_bytes for pair in pairs), default=0)
        return shared_bytes(tuple((p.read, p.written, p.saved_bytes) for p in pairs))


def bits(mask: int) -> Iterator[int]:
    """Yield the indices of the bits that are set in a mask, in ascending order."""
    while mask:
        low = mask & -mask
        yield low.bit_length() - 1
        mask ^= low


def bit_mask(steps: Iterable[int]) -> int:
    """Return the mask in which the bits with these indices are set."""
    mask = 0
    for step in steps:
        mask |= 1 << step
    return mask


def step_table(problem: OrderProblem) -> StepTable:
    """Compute the dependences and the memory of each step of an order problem."""
    graph = dependence_graph(problem)
    sizes = dict(problem.sizes)
    read_by = {name: 0 for name in sizes}
    for i, step in enumerate(problem.steps):
        for name in step.reads:
            read_by[name] |= 1 << i
    kept = set(problem.outputs) | (set(problem.inputs) if problem.keep_inputs else set[str]())
    lines = _Reachability(problem, graph, sizes, read_by, kept)
    start = sum(sizes[name] for name in set(problem.inputs) if read_by[name] or name in kept)
    return StepTable(tuple(lines.row(i) for i in range(len(problem.steps))), start, graph)


class _Reachability:
    """Computes the row of each step in a `StepTable`: its dependences and its memory (`row`).

    For each step, the constructor finds the steps that precede it in every order, and those that
    follow it in every order.  It also finds the tensors that are written before the step (network
    inputs included), and those that are read after it, whatever the order.
    """

    def __init__(
        self,
        problem: OrderProblem,
        graph: rx.PyDiGraph[int, str],
        sizes: dict[str, int],
        read_by: dict[str, int],
        kept: set[str],
    ) -> None:
        self.problem, self.graph = problem, graph
        self.sizes, self.read_by, self.kept = sizes, read_by, kept
        bit = {name: 1 << i for i, name in enumerate(sizes)}
        self.names = list(sizes)
        self.kept_mask = sum(bit[name] for name in kept)
        self.reads = [sum(bit[n] for n in set(step.reads)) for step in problem.steps]
        self.writes = [sum(bit[n] for n in set(step.writes)) for step in problem.steps]
        given = sum(bit[name] for name in set(problem.inputs))
        count = len(problem.steps)
        # ancestors[i], written[i]: masks of the steps, and of the tensors written, before step i
        self.ancestors, self.written = [0] * count, [given] * count
        # descendants[i], wanted[i]: masks of the steps, and of the tensors read, after step i
        self.descendants, self.wanted = [0] * count, [0] * count
        order = list(rx.topological_sort(graph))
        for i in order:
            for j in graph.successor_indices(i):
                self.ancestors[j] |= self.ancestors[i] | 1 << i
                self.written[j] |= self.written[i] | self.writes[i]
        for j in reversed(order):
            for i in graph.predecessor_indices(j):
                self.descendants[i] |= self.descendants[j] | 1 << j
                self.wanted[i] |= self.wanted[j] | self.reads[j]

    def row(self, i: int) -> StepRow:
        """Compute the dependences and the memory of step i."""
        step, sizes = self.problem.steps[i], self.sizes
        writes = tuple(dict.fromkeys(step.writes))
        lasting = [n for n in writes if self.read_by[n] or n in self.kept]
        dying = [n for n in dict.fromkeys(step.reads) if n not in self.kept]
        pairs = [
            InPlacePair(self.read_by[r] & ~(1 << i), r, w, min(sizes[r], sizes[w]))
            for r, w in dict.fromkeys(step.in_place)
            if r not in self.kept
        ]
        return StepRow(
            before=bit_mask(self.graph.predecessor_indices(i)),
            after=tuple(sorted(self.graph.successor_indices(i))),
            ancestors=self.ancestors[i],
            descendants=self.descendants[i],
            added_bytes=sum(sizes[n] for n in writes) + step.scratch_bytes,
            lasting_bytes=sum(sizes[n] for n in lasting),
            reads=tuple(StepRead(self.read_by[n] & ~(1 << i), sizes[n]) for n in dying),
            pairs=tuple(pairs),
            has_one_output=len(writes) == 1,
            must_bytes=self._must(i, pairs),
        )

    def _must(self, i: int, pairs: list[InPlacePair]) -> int:
        """Return a lower bound, over all orders, of the live bytes while step i runs.

        It counts the tensors that step i reads or writes, and those that must be live across it:
        written before it, and read after it or kept to the end.
        pairs: the pairs of an input and an output of step i that may share memory.
        """
        must = self.written[i] & (self.wanted[i] | self.kept_mask) | self.reads[i] | self.writes[i]
        possible = (p for p in pairs if not p.others & self.descendants[i])
        shared = shared_bytes(tuple((p.read, p.written, p.saved_bytes) for p in possible))
        live = sum(self.sizes[self.names[tensor]] for tensor in bits(must))
        return live + self.problem.steps[i].scratch_bytes - shared


_Pick = Callable[[list[int], int, int], int]  # (ready steps, state, live bytes) -> next step


class Heuristic(Enum):
    """A rule that determines a topological order of steps, such as depth first."""

    FILE = "file"  # the order of the problem
    DEPTH_FIRST = "depth first"  # the step that became ready last
    BREADTH_FIRST = "breadth first"  # the step that became ready first
    REVERSE = "reverse"  # depth first from the end
    EARLY = "early"  # in ascending order of the longest path from a first step
    LATE = "late"  # in descending order of the longest path to a last step
    LEAST_LIVE = "least live"  # the step that leaves the fewest live bytes


def heuristic_order(table: StepTable, heuristic: Heuristic) -> tuple[int, ...]:
    """Return the indices of all steps in the topological order that a heuristic determines.

    table: the dependences and the memory of the steps.
    """
    graph = table.graph
    match heuristic:
        case Heuristic.FILE:
            return tuple(rx.lexicographical_topological_sort(graph, key=lambda i: f"{i:09}"))
        case Heuristic.DEPTH_FIRST:
            return _order(table, lambda ready, _done, _live: ready[-1])
        case Heuristic.BREADTH_FIRST:
            return _order(table, lambda ready, _done, _live: ready[0])
        case Heuristic.REVERSE:
            return _from_the_end(graph)
        case Heuristic.EARLY:
            return tuple(i for level in rx.topological_generations(graph) for i in sorted(level))
        case Heuristic.LATE:
            levels = rx.topological_generations(_reversed(graph))
            return tuple(i for level in reversed(levels) for i in sorted(level))
        case Heuristic.LEAST_LIVE:
            return _order(table, lambda ready, done, live: _least_live(table, ready, done, live))


def _order(table: StepTable, pick: _Pick) -> tuple[int, ...]:
    ready = [i for i, row in enumerate(table.rows) if not row.before]
    done, live, order = 0, table.start_bytes, list[int]()
    while ready:
        step = pick(ready, done, live)
        _, live = table.run(done, live, step)
        done |= 1 << step
        order.append(step)
        ready.remove(step)
        ready += bits(table.ready_after(done, step))
    return tuple(order)


def _least_live(table: StepTable, ready: list[int], done: int, live: int) -> int:
    def rank(step: int) -> tuple[int, int, int]:
        during, after = table.run(done, live, step)
        return after, during, step

    return min(ready, key=rank)


def _from_the_end(graph: rx.PyDiGraph[int, str]) -> tuple[int, ...]:
    waiting = {i: graph.out_degree(i) for i in graph.node_indices()}
    ready = [i for i, readers in waiting.items() if not readers]
    order: list[int] = []
    while ready:
        step = ready.pop()
        order.append(step)
        for writer in sorted(graph.predecessor_indices(step)):
            waiting[writer] -= 1
            if not waiting[writer]:
                ready.append(writer)
    return tuple(reversed(order))


def _reversed(graph: rx.PyDiGraph[int, str]) -> rx.PyDiGraph[int, str]:
    copy = graph.copy()
    copy.reverse()
    return copy
