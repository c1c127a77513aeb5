"""Explanation of the engine of a node: which pattern claims it, or why each pattern does not."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from penstock.backends.accelerator import Accelerator
from penstock.backends.offload import claimed, prepared
from penstock.backends.partition import choose, dissolve, partition
from penstock.backends.partitioned import check_engines
from penstock.backends.pattern_mismatch import mismatch
from penstock.errors import UsageError, did_you_mean
from penstock.hardware.target import Target
from penstock.ir.composite import Composite
from penstock.ir.graph import Graph


def explain(
    graph: Graph, accelerators: Sequence[Accelerator], target: Target, name: str
) -> tuple[str, ...]:
    """Return lines that explain which engine runs a node, and why.

    For each pattern of each accelerator, a line states that a match ends with the node, or why none
    does.  The last line states the engine.

    graph: the simplified network.
    name: the name of the node.

    Raises UsageError if there is no such node or no accelerator."""
    names = [node.name for node in graph.nodes]
    if not accelerators or name not in names:
        raise UsageError(
            "usage-063",
            f'there is no node "{name}"' if accelerators else "patterns belong to accelerators",
            where="--explain-pattern",
            why="" if accelerators else "the command names no accelerator",
            help=(did_you_mean(name, names) or f"state a name, for example {names[0]}; ")
            + "`penstock show MODEL --nodes` lists the nodes"
            if accelerators
            else "add --accelerator NAME",
        )
    check_engines(graph, [accelerator.name for accelerator in accelerators])
    lines: list[str] = []
    reasons: list[str] = []
    for k, accelerator in enumerate(accelerators):
        lines += [f"{accelerator.name}:", *_patterns(graph, accelerator, name)]
        graph, refusals = claimed(graph, accelerator)
        if k == len(accelerators) - 1:  # earlier ones release nodes for later ones
            graph = dissolve(graph, _other_composites(graph, accelerator, name))
        graph, fallbacks = choose(graph, accelerator, lambda node: 0, refusals)
        reasons += [item.reason for item in fallbacks if item.node.name == name]
    return (*lines, _outcome(graph, target, name, reasons))


def _other_composites(graph: Graph, accelerator: Accelerator, name: str) -> frozenset[str]:
    """Return the names of the accelerator's composites that do not contain the node `name`.

    `explain` dissolves them, because it only needs the kernels of the node's own composite."""
    return frozenset(
        node.name
        for node in graph.nodes
        if isinstance(node.op, Composite)
        and node.op.engine == accelerator.name
        and name not in {inner.name for inner in node.op.nodes}
    )


def _patterns(graph: Graph, accelerator: Accelerator, name: str) -> Iterator[str]:
    """Yield a line for each pattern of an accelerator: that it matches the node, or why not.

    If a composite contains the node already, or a graph pass removes it, no pattern is tried, and
    there is a single line with this reason.

    graph: the graph after earlier accelerators have claimed their nodes.
    name: the name of the node."""
    graph = prepared(graph, accelerator)
    node = next((node for node in graph.nodes if node.name == name), None)
    if node is None or isinstance(node.op, Composite):
        yield "  no pattern is tried: the node is part of a composite, or a graph pass removed it"
        return
    producers = graph.producers()
    for named in accelerator.patterns:
        found = mismatch(named.pattern, node, producers)
        if found is not None:
            yield f'  pattern "{named.name}": {found}'
            continue
        alone = partition(graph, (named,), accelerator.constraints, accelerator.name)
        refusal = alone[1].get(name)
        yield f"  {refusal}" if refusal else f'  pattern "{named.name}" matches'


def _outcome(graph: Graph, target: Target, name: str, reasons: Sequence[str]) -> str:
    """Return a line that states the engine of the node `name`, and the reasons for the processor.

    graph: the graph with the composites of all accelerators.
    target: the chip; its first engine is the processor.
    reasons: why each accelerator does not run the node."""
    for node in graph.nodes:
        if isinstance(node.op, Composite) and name in {inner.name for inner in node.op.nodes}:
            return f'engine: {node.op.engine}, in composite "{node.name}" of "{node.op.name}"'
    reason = f": {'; '.join(reasons)}" if reasons else ""
    return f"engine: {target.engines[0].name}{reason}"
