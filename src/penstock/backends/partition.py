"""Partitioning of a graph between an accelerator and the processor: the nodes of each match of a
pattern become one node, a composite, which the accelerator runs.

    partition   replaces each match of a pattern by one node, a composite
    choose      selects the kernel of each composite, and dissolves composites without a kernel
    dissolve    replaces composites by the nodes inside them

The outputs of the graph do not change.

>>> from penstock.backends.pattern import is_op, wildcard
>>> from penstock.frontends.builder import GraphBuilder
>>> net = GraphBuilder("net")
>>> x = net.conv2d(net.input((1, 8, 8, 3)), channels=4, kernel=3, activation="relu", name="conv")
>>> graph = net.build(net.softmax(net.fully_connected(x, 10, name="dense"), name="scores"))
>>> layers = is_op("nn.conv2d")(wildcard(), wildcard()) | is_op("nn.dense")(wildcard(), wildcard())
>>> found, refusals = partition(graph, [NamedPattern("layer", layers)], [], "npu")
>>> [(node.kind, node.name) for node in found.nodes]
[('layer', 'conv'), ('layer', 'dense'), ('Softmax', 'scores')]
>>> refusals
{'scores': 'no pattern of npu matches this node'}
>>> [node.kind for node in dissolve(found, {"dense"}).nodes]
['layer', 'FullyConnected', 'Softmax']
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import cast

from penstock.backends.accelerator import Accelerator, CpuFallback, NamedPattern
from penstock.backends.author import Rule, broken_rule
from penstock.backends.kernel_choice import strategies_for, with_chosen_kernels
from penstock.backends.offloaded import main_node
from penstock.backends.operator_names import node_kinds
from penstock.backends.pattern import Operator, last_operators
from penstock.backends.pattern_matching import matches
from penstock.backends.processor_parts import element_type_problem
from penstock.errors import BackendError
from penstock.ir.composite import FUSED, Composite
from penstock.ir.element_types import other_types
from penstock.ir.graph import Graph, Node, Values
from penstock.ir.verify import verify
from penstock.opkit.layers import has_wide_weights

# Compiler regions: adjacent composites (sub-graphs as single nodes) of one accelerator that share
# a region number.
#
# The number is stored in the attribute `region` of each composite.  Each region can run as one
# unit: the graph in which a single node replaces each region has no cycles. Source: TVM,
# MergeCompilerRegions (UMA's `merge_compiler_regions`).


REGION = "region"


def with_regions(graph: Graph, engine: str, *, merge: bool) -> Graph:
    """Return the graph with a region number on every composite of the accelerator `engine`.

    merge: True to let adjacent composites share a region if no path leaves the region and returns
        to it; False to make each composite a region of its own."""
    # Regions are numbered from 0 in node order.
    groups = _Groups(graph)
    composites = (n for n in graph.nodes if isinstance(n.op, Composite) and n.op.engine == engine)
    ours = {node.name: node.op for node in composites}
    if merge:
        for name in ours:
            for before in groups.sources[name]:
                if before in ours:
                    groups.join(before, name)
    roots = dict.fromkeys(groups.group_of[name] for name in ours)
    numbers = {root: k for k, root in enumerate(roots)}
    nodes = tuple(
        replace(n, op=_numbered(n.op, numbers[groups.group_of[n.name]]))
        if isinstance(n.op, Composite) and n.op.engine == engine
        else n
        for n in graph.nodes
    )
    return graph.with_nodes(nodes)


def _numbered(composite: Composite, number: int) -> Composite:
    others = tuple(pair for pair in composite.attributes if pair[0] != REGION)
    return replace(composite, attributes=((REGION, number), *others))


class _Groups:
    """A partition of the nodes of a graph into groups, from which compiler regions are made.

    Initially, each node is a group of its own.  A group has the name of one of its nodes.  The
    graph that has one node for each group never contains a cycle.

    sources: for each node, by name, the names of the nodes whose outputs it reads.
    group_of: for each node, by name, the name of its group.
    members: for each group, by name, the names of its nodes.
    """

    def __init__(self, graph: Graph) -> None:
        made = {node.name for node in graph.nodes}
        self.sources = {
            node.name: tuple(dict.fromkeys(v.name for v in node.inputs if v.name in made))
            for node in graph.nodes
        }
        self.group_of = {node.name: node.name for node in graph.nodes}
        self.members = {node.name: [node.name] for node in graph.nodes}

    def join(self, first: str, second: str) -> None:
        # Does nothing if a path between the two groups passes through a third group, because
        # merging would then create a cycle.
        upper, lower = self.group_of[first], self.group_of[second]
        if upper == lower or self._reaches(upper, lower):
            return
        for name in self.members.pop(lower):
            self.group_of[name] = upper
            self.members[upper].append(name)

    def _reaches(self, upper: str, lower: str) -> bool:
        """Whether a path from group `upper` to `lower` passes through a third group."""
        seen = {lower}
        waiting = [g for g in self._predecessors(lower) if g != upper]
        while waiting:
            group = waiting.pop()
            if group == upper:
                return True
            if group not in seen:
                seen.add(group)
                waiting += self._predecessors(group)
        return False

    def _predecessors(self, group: str) -> list[str]:
        return [self.group_of[s] for name in self.members[group] for s in self.sources[name]]


# Partitioned graphs: graphs from `UMABackend.partition`, which the compiler accepts as models.
#
# A graph is partitioned for an accelerator if it contains composites (matched sub-graphs as single
# nodes) of this accelerator.  The compiler takes these composites as they are: it neither runs the
# graph passes of the accelerator again nor matches its patterns.


# Attribute of a composite: the attribute values of the accelerator when it was partitioned.
PARTITIONED_WITH = "partitioned_with"


def with_settings(graph: Graph, accelerator: Accelerator) -> Graph:
    """Return the graph with the accelerator's attribute values stored in each of its composites."""
    # `is_partitioned` compares them with the attribute values for which the graph is compiled.
    values = tuple(accelerator.target.attrs.items())

    def stated(node: Node) -> Node:
        if not isinstance(node.op, Composite) or node.op.engine != accelerator.name:
            return node
        others = (pair for pair in node.op.attributes if pair[0] != PARTITIONED_WITH)
        return replace(node, op=replace(node.op, attributes=(*others, (PARTITIONED_WITH, values))))

    return graph.with_nodes(tuple(map(stated, graph.nodes)))


def partitioned_for(graph: Graph) -> Mapping[str, Mapping[str, object]]:
    """Return the attribute values of each accelerator for which a graph is partitioned, by name."""
    composites = (node.op for node in graph.nodes if isinstance(node.op, Composite))
    values = ((op.engine, op.attribute(PARTITIONED_WITH, ())) for op in composites)
    return {engine: dict(cast(tuple[tuple[str, object], ...], found)) for engine, found in values}


def is_partitioned(graph: Graph, accelerator: Accelerator) -> bool:
    """Return whether a graph is partitioned for an accelerator, that is, has composites of it.

    Raises BackendError if the graph was partitioned for attribute values of the accelerator that
    differ from those in `accelerator`."""
    composites = [
        (node, node.op)
        for node in graph.nodes
        if isinstance(node.op, Composite) and node.op.engine == accelerator.name
    ]
    wanted = tuple(accelerator.target.attrs.items())
    for node, composite in composites:
        found = composite.attribute(PARTITIONED_WITH, wanted)
        if found != wanted:
            raise BackendError(
                "backend-060",
                f"the graph was partitioned for {accelerator.name} with other attribute values",
                where=f'graph {graph.name}, composite "{node.name}"',
                why=f"partitioned with {_listed(found)}, compiled with {_listed(wanted)}",
                help="pass the same values to `partition(graph, {..})` and to "
                f'accelerators=("{accelerator.name}:..",)',
            )
    return bool(composites)


def check_engines(graph: Graph, names: Collection[str]) -> None:
    """Raise BackendError if the graph has composites of an accelerator that is not in `names`."""
    for node in graph.nodes:
        if isinstance(node.op, Composite) and node.op.engine not in names:
            engine = node.op.engine
            raise BackendError(
                "backend-061",
                f"the graph is partitioned for {engine}, which the request does not name",
                where=f'graph {graph.name}, composite "{node.name}"',
                why=f"the accelerators of the request are {', '.join(names) or 'none'}",
                help=f'register the backend and add accelerators=("{engine}",), or compile the '
                "graph that was not partitioned",
            )


def _listed(values: object) -> str:
    pairs = values if isinstance(values, tuple) else ()
    return ", ".join(f"{name}={value}" for name, value in pairs) or "no attributes"


Refusals = Mapping[str, str]  # The reason why no composite contains a node, by the node's name.


def partition(
    graph: Graph,
    patterns: Sequence[NamedPattern],
    constraints: Sequence[Rule],
    engine: str,
    merge: bool = True,
    reserved: Refusals | None = None,
) -> tuple[Graph, Refusals]:
    """Return (graph, refusals), where composites replace the matches of patterns in the graph.

    merge: whether adjacent composites that can run as one unit share a region number.
    reserved: why the accelerator must leave nodes to others, by node name; None: there are none.

    Raises BackendError if a function of the backend fails."""
    # The refusals state, by node name, why a node is not in a composite.  Patterns are tried in
    # order, each at every node from the last to the first.  Of several matches that end with the
    # same node, the largest is tried first.  A match is refused for any of these reasons:
    #
    # - another composite contains one of its nodes, or another accelerator wins it;
    # - an intermediate value is used outside the match;
    # - an operator does not support its element types;
    # - the predicate of the pattern, or one of `constraints`, does not hold.
    search = _Search(graph, engine, reserved or {})
    for named in patterns:
        _check_pattern(named, engine)
        for node in reversed(graph.nodes):
            search.claim(node, named, constraints)
    found = with_regions(search.partitioned(), engine, merge=merge)
    verify(found)
    return found, search.refusals()


def dissolve(graph: Graph, refused: Collection[str]) -> Graph:
    """Return the graph in which the composites named in `refused` are replaced by their nodes."""
    nodes: list[Node] = []
    for node in graph.nodes:
        if node.name in refused and isinstance(node.op, Composite):
            nodes += node.op.nodes
        else:
            nodes.append(node)
    return graph.with_nodes(tuple(nodes))


def choose(
    graph: Graph,
    accelerator: Accelerator,
    processor_cycles: Callable[[Node], int],
    refusals: Refusals | None = None,
) -> tuple[Graph, tuple[CpuFallback, ...]]:
    """Select the kernels of each composite of the accelerator.

    Returns (graph, CPU fallbacks).  In the graph, each composite has kernels; composites that no
    kernel can run are replaced by the nodes inside them.  The CPU fallbacks are the nodes outside
    composites, except aliases, which compute nothing; each has its cycles and the reason.

    The strategies for the composite's main operator or pattern offer implementations.  A candidate
    is an implementation whose condition holds and that prefetches no constants.  All kernels are of
    the highest level that has a candidate and exceeds `CORE_LEVEL` (10), the level of the
    processor's kernels.  The composite gets several, among which the search for schedules chooses:

    - the fastest candidate;
    - if other candidates need less working memory, the fastest of those that need least (fallback);
    - each implementation that prefetches constants and whose condition holds.

    refusals: the refusals that `partition` returned for the graph; None for no refusals.

    Raises BackendError if all composites of a pattern lack a strategy, or if a strategy fails.

    >>> from penstock.zoo.registry import open_zoo
    >>> from penstock.backends.accelerator import AcceleratorTarget, Codegen, Implementation
    >>> from penstock.backends.accelerator import Strategy
    >>> from penstock.backends.pattern import is_op
    >>> from penstock.hardware.load import load_target
    >>> from penstock.ir.op import Kernel
    >>> fast = Implementation("fast", Kernel("npu_conv2d", cycles=lambda rows, memories: 10 * rows))
    >>> npu = Accelerator(
    ...     target=AcceleratorTarget("npu", {}, load_target("host")),
    ...     patterns=(NamedPattern("conv", is_op("nn.conv2d")),),
    ...     strategies=(Strategy("nn.conv2d", lambda node, composite, target: [fast], 11),),
    ...     graph_passes=(),
    ...     program_passes=(),
    ...     constraints=(),
    ...     codegen=Codegen(),
    ... )
    >>> graph, refusals = partition(open_zoo("lenet5"), npu.patterns, npu.constraints, npu.name)
    >>> graph, fallbacks = choose(graph, npu, lambda node: 1000, refusals)
    >>> [node.op.chosen.name for node in graph.nodes if isinstance(node.op, Composite)]
    ['npu_conv2d', 'npu_conv2d']
    >>> fallbacks[0].node.kind, fallbacks[0].reason, fallbacks[0].cycles
    ('MaxPool2D', 'no pattern of npu matches this node', 1000)
    """
    _check_strategies(graph, accelerator)
    reasons = dict(refusals or {})
    chosen: list[Node] = []
    refused: list[str] = []
    for node in graph.nodes:
        found = (
            with_chosen_kernels(node, accelerator)
            if isinstance(node.op, Composite) and node.op.engine == accelerator.name
            else node
        )
        chosen.append(node if isinstance(found, str) else found)
        if isinstance(found, str):
            assert isinstance(node.op, Composite)
            refused.append(node.name)
            reasons |= {inner.name: found for inner in node.op.nodes}
    result = dissolve(graph.with_nodes(tuple(chosen)), refused)
    # Nodes without a reason were not in the graph when it was partitioned.
    other = f"no pattern of {accelerator.name} matches this node"
    if refusals is not None:
        other = f"penstock inserted this node, beside the layers of {accelerator.name}"
    fallbacks = (
        CpuFallback(node, reasons.get(node.name, other), processor_cycles(node))
        for node in result.nodes
        if not node.op.ALIAS and not isinstance(node.op, Composite)
    )
    return result, tuple(fallbacks)


@dataclass
class _Search:
    """State of `partition`: the composites that it has made, and the matches that it has refused.

    engine: the name of the accelerator.
    reserved: why the accelerator must leave nodes to others, by node name.
    found: the composites so far, by the name of their last node.
    claimed: names of the nodes inside these composites.
    refused: (rank, reason) by node name; the reason of the highest rank is kept.  Rank 1: an
        intermediate value is used outside the match.  Rank 2: a rule refuses the match.  Rank 3:
        another accelerator wins a node."""

    graph: Graph
    engine: str
    reserved: Refusals
    found: dict[str, Node] = field(default_factory=dict)
    claimed: set[str] = field(default_factory=set)
    refused: dict[str, tuple[int, str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.producers = self.graph.producers()
        self.consumers = self.graph.consumers()
        self.outputs = {value.name for value in self.graph.results}
        self.position = {node.name: k for k, node in enumerate(self.graph.nodes)}

    def claim(self, node: Node, named: NamedPattern, rules: Sequence[Rule]) -> None:
        # A match is not acceptable if it overlaps an earlier composite, if an intermediate value is
        # used outside the match, or if a rule does not hold.  In the last two cases, the reason is
        # recorded in `refused` for each node of the match.  If a node has a reason already, the new
        # one replaces it only if its rank is higher: a broken rule ranks above an outside use.
        for names in matches(named.pattern, node, self.producers):
            if names & self.claimed:
                continue
            reason = (
                self._reservation(names)
                or self._outside_use(names, node)
                or self._broken_rule(names, named, rules)
            )
            if reason is None:
                self.found[node.name] = self._composite(names, named.name)
                self.claimed |= names
                return
            for name in names:
                if reason[0] > self.refused.get(name, (0, ""))[0]:
                    self.refused[name] = reason[0], f'pattern "{named.name}" {reason[1]}'

    def partitioned(self) -> Graph:
        kept = (n for n in self.graph.nodes if n.name in self.found or n.name not in self.claimed)
        return self.graph.with_nodes(tuple(self.found.get(n.name, n) for n in kept))

    def refusals(self) -> Refusals:
        # Composites of earlier accelerators, which are nodes of the graph, have no entry.
        unmatched = 0, f"no pattern of {self.engine} matches this node"
        return {
            node.name: self.refused.get(node.name, unmatched)[1]
            for node in self.graph.nodes
            if node.name not in self.claimed and not isinstance(node.op, Composite)
        }

    def _reservation(self, names: frozenset[str]) -> tuple[int, str] | None:
        """(3, reason) if another accelerator wins a node of a match, else None; 3 is the rank."""
        lost = sorted(names & self.reserved.keys(), key=self.position.__getitem__)
        return (3, f"matches, but is refused: {self.reserved[lost[0]]}") if lost else None

    def _outside_use(self, names: frozenset[str], last: Node) -> tuple[int, str] | None:
        """(1, reason) if a value inside a match is used outside it, else None; 1 is the rank."""
        for name in sorted(names - {last.name}, key=self.position.__getitem__):
            if name in self.outputs:
                return 1, f'matches, but "{name}" within it is an output of the network'
            for reader in self.consumers[name]:
                if reader.name not in names:
                    return 1, f'matches, but "{name}" within it is read by "{reader.name}", too'
        return None

    def _broken_rule(
        self, names: frozenset[str], named: NamedPattern, rules: Sequence[Rule]
    ) -> tuple[int, str] | None:
        """(2, reason) if a match of the pattern `named` breaks a rule, else None; 2 is the rank."""
        # Users see one reason of the highest rank.
        node = self._composite(names, named.name)
        for name in sorted(names, key=self.position.__getitem__):
            inner = self.graph.nodes[self.position[name]]
            problem = element_type_problem(inner)
            if problem is not None:
                return 2, f"matches, but is refused: {problem.what}"
            if has_wide_weights(inner) and not named.wide_weights:
                return 2, "matches, but is refused: weights less their zero point exceed int8"
        inside = (self.graph.nodes[self.position[name]] for name in names)
        foreign = other_types(inside)
        for rule in (*((named.predicate,) if named.predicate else ()), *rules):
            try:
                reason = broken_rule(rule, node)
            except BackendError as error:
                if not foreign:
                    raise
                reason = f"{foreign}, for which a rule fails: {error.what}"
            if reason is not None:
                return 2, f"matches, but is refused: {reason}"
        return None

    def _composite(self, names: frozenset[str], pattern: str) -> Node:
        nodes = tuple(self.graph.nodes[k] for k in sorted(map(self.position.__getitem__, names)))
        outside = {v.name: v for node in nodes for v in node.inputs if v.name not in names}
        inputs: Values = tuple(outside.values())
        origins = dict.fromkeys(node.origin for node in nodes if node.origin)
        op = Composite(pattern, self.engine, nodes, tuple(outside))
        return Node(op, inputs, nodes[-1].output, ", ".join(origins))


def _check_pattern(named: NamedPattern, engine: str) -> None:
    """Raise BackendError unless the pattern can end with an operator."""
    # A pattern that ends with a wildcard or a constant claims no node.
    if any(isinstance(last, Operator) for last in last_operators(named.pattern)):
        return
    raise BackendError(
        "backend-010",
        f'pattern "{named.name}" does not end with an operator: {named.pattern}',
        where=engine,
        why="a pattern claims the nodes of its operators; wildcards and constants only bound them",
        help='begin it with is_op("..")',
    )


def _composites(graph: Graph, engine: str) -> Iterator[tuple[Node, Composite]]:
    for node in graph.nodes:
        if isinstance(node.op, Composite) and node.op.engine == engine:
            yield node, node.op


def _check_strategies(graph: Graph, accelerator: Accelerator) -> None:
    """Raise BackendError if the strategies do not suit the composites in the graph."""
    # Each strategy must be registered for a known operator or pattern.  For each pattern that has
    # composites in the graph, some strategy must apply to at least one of these composites.
    patterns = {FUSED, *(named.name for named in accelerator.patterns)}
    for strategy in accelerator.strategies:
        if strategy.op not in patterns:
            where = f'the strategy for "{strategy.op}" of {accelerator.name}'
            node_kinds(strategy.op, where, also=patterns)
    mains: dict[str, list[Node]] = {}
    served: set[str] = set()
    for _, composite in _composites(graph, accelerator.name):
        mains.setdefault(composite.name, []).append(main_node(composite))
        if strategies_for(composite, accelerator):
            served.add(composite.name)
    for name in mains:
        if name not in served:
            raise _no_strategy(name, mains[name], accelerator)


def _no_strategy(name: str, mains: Iterable[Node], accelerator: Accelerator) -> BackendError:
    kinds = ", ".join(dict.fromkeys(node.kind for node in mains))
    have = ", ".join(f'"{s.op}"' for s in accelerator.strategies) or "none"
    return BackendError(
        "backend-011",
        f'pattern "{name}" matches, but there is no strategy for it',
        where=f"{accelerator.name}, whose strategies are for: {have}",
        why=f"the main operator of its matches (the most multiply-accumulates) is {kinds}",
        help=f'register one: _register_operator_strategy("{kinds.split(", ")[0]}", strategy), or '
        f'for the pattern: _register_operator_strategy("{name}", strategy)',
    )
