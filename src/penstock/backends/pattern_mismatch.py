"""Why a pattern does not match: the part of the pattern that fails, and the reason.

The explanation follows the pattern from its last operator to its operands.  Of several
alternatives, it explains the one that matches furthest.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial

from penstock.backends.accelerator import Accelerator
from penstock.backends.description import name_of
from penstock.backends.offload import claimed, contested
from penstock.backends.operator_names import (
    Attributes,
    get_attribute,
    has_attribute,
    has_attributes,
    kind_name,
    meanings,
)
from penstock.backends.partition import check_engines, choose, dissolve, partition
from penstock.backends.pattern import (
    AllPaths,
    Constant,
    Either,
    Having,
    Operator,
    Pattern,
    TupleItem,
    TuplePattern,
    Typed,
    Wildcard,
    type_problem,
)
from penstock.backends.pattern_matching import Search, Term, stages, tuple_fields, with_clamp
from penstock.backends.processor_parts import processor_cycles
from penstock.errors import UsageError, denoting, did_you_mean
from penstock.frozen import frozen
from penstock.hardware.target import Target
from penstock.ir.composite import Composite
from penstock.ir.graph import Graph, Node


@frozen
class Mismatch:
    """The part of a pattern that does not match.

    depth: how far the match got, to select among alternatives: users see the mismatch of greatest
        depth.  A step in the pattern from an operator to its argument k adds 1 + k, because the
        arguments before k have matched.
    part: the part of the pattern, as text.
    reason: why it does not match."""

    depth: int
    part: str
    reason: str

    def __str__(self) -> str:
        return f"{self.part} does not match: {self.reason}"


def mismatch(pattern: Pattern, node: Node, producers: Mapping[str, Node]) -> Mismatch | None:
    """Return why no match of a pattern ends with `node`; None if there is one.

    producers: the node that computes a value, by the value's name."""
    search = Search.of(pattern, producers, node.name)
    term = Term.of(node.output)
    if search.match(pattern, term, frozenset()):
        return None
    found = _Explanation(search).of(pattern, term, 0)
    repeated = "a pattern object that occurs twice must match the same value both times"
    return found or Mismatch(0, str(pattern), repeated)


@frozen
class _Explanation:
    """Explains why a pattern does not match, by matching its sub-patterns one by one.

    search: the search that found no match."""

    search: Search

    def of(self, pattern: Pattern, term: Term, depth: int) -> Mismatch | None:
        """Why a pattern does not match a term; None if it matches."""
        # If no alternative of the pattern matches, the result explains the one that matches
        # furthest.
        if self.search.match(pattern, term, frozenset()):
            return None
        match pattern:
            case Either(first, second):
                both = self.of(first, term, depth), self.of(second, term, depth)
                return max(filter(None, both), key=lambda found: found.depth, default=None)
            case Having(inner) | Typed(inner):
                found = self.of(inner, term, depth)
                return found or Mismatch(depth + 1, str(pattern), self._restriction(pattern, term))
            case Operator():
                return self._operator(pattern, term, depth)
            case TupleItem(inner, index):
                found = self.of(inner, term, depth)
                item = self.search.item(pattern, term)
                reason = f'"{term.name}" is item {item} of the split, must be item {index}'
                return found or Mismatch(depth + 1, str(pattern), reason)
            case AllPaths():
                return self._all_paths(pattern, term, depth)
            case _:
                return Mismatch(
                    depth, str(pattern), _leaf_problem(pattern, term, self._description(term))
                )

    def _restriction(self, pattern: Having | Typed, term: Term) -> str:
        if isinstance(pattern, Typed):
            assert term.value is not None
            return (
                f'of "{term.name}", {type_problem(pattern.dtype, pattern.shape, term.value.type)}'
            )
        return _attribute_problem(self.search.producers[term.name], pattern.attributes)

    def _operator(self, pattern: Operator, term: Term, depth: int) -> Mismatch:
        node = self.search.producers.get(term.name)
        if node is None:
            return Mismatch(
                depth, str(pattern), f"{self._description(term)}, not the result of a node"
            )
        clamped, meaning = with_clamp(node), meanings()[pattern.name]
        if meaning.rewritten:
            reason = f"no node is a {pattern.name}: importers make of it {meaning.rewritten}"
            return Mismatch(depth, str(pattern), reason)
        fitting = [s for s in stages(clamped)[term.depth :] if meaning.fits(clamped, s.kind)]
        found = [
            one
            for stage in fitting
            for operands in stage.arguments
            for one in self._argument_mismatches(pattern, operands, depth)
        ]
        if found:
            return max(found, key=lambda one: one.depth)
        for stage in stages(clamped)[term.depth :]:
            for sense in meaning.senses:
                if sense.kind is stage.kind and not has_attributes(clamped, sense.attributes):
                    problem = _attribute_problem(clamped, sense.attributes)
                    names = sorted(n for n, m in meanings().items() if m.fits(clamped, stage.kind))
                    reason = f"{problem}; names of this operator are {', '.join(names)}"
                    return Mismatch(depth, str(pattern), reason)
        has = " of ".join(kind_name(stage.kind) for stage in stages(node)[term.depth :])
        return Mismatch(depth, str(pattern), f'"{node.name}" is computed by {has}')

    def _argument_mismatches(
        self, pattern: Operator, operands: tuple[Term, ...], depth: int
    ) -> Iterator[Mismatch]:
        """One Mismatch if the arguments of `pattern` do not match `operands`, else nothing."""
        # If the numbers of arguments and operands differ, the Mismatch states both numbers.
        # Otherwise, it explains the first argument that does not match its operand.
        patterns = pattern.arguments or ()
        if len(patterns) == 1:
            patterns = tuple_fields(patterns[0], len(operands)) or _fields(patterns[0])
        if len(patterns) != len(operands):
            reason = f"the node has {len(operands)} operands here, the pattern {len(patterns)}"
            yield Mismatch(depth + 1, str(pattern), reason)
            return
        for k, (wanted, operand) in enumerate(zip(patterns, operands, strict=True)):
            found = self.of(wanted, operand, depth + 1 + k)
            if found is not None:
                part = f"argument {k} of {pattern.name}, {found.part},"
                nested = found.part.startswith("argument ")
                yield found if nested else Mismatch(found.depth, part, found.reason)
                return

    def _all_paths(self, pattern: AllPaths, term: Term, depth: int) -> Mismatch:
        child = self.of(pattern.child, term, depth)
        if child is not None:
            return child
        matched = self.search.match(pattern.child, term, frozenset())[0]
        begin = self.search.read_by(matched.claimed)
        values = tuple(self.search.reachable(begin, pattern.path, frozenset()))
        parents = [self.of(pattern.parent, Term.of(value), depth + 1) for value in values]
        if all(parents):
            found = max(filter(None, parents), key=lambda one: one.depth)
            return Mismatch(found.depth, f"dominator, {found.part},", found.reason)
        others = (v for v, found in zip(values, parents, strict=True) if found is not None)
        steps = (self.of(pattern.path, Term.of(value), depth + 1) for value in others)
        blocked = next((found.reason for found in steps if found), "a path begins elsewhere")
        reason = f'a path to "{term.name}" avoids the dominator {pattern.parent}: {blocked}'
        return Mismatch(depth + 1, f"path {pattern.path}", reason)

    def _description(self, term: Term) -> str:
        if term.constant:
            return f'"{term.name}" is a constant' if term.name else "it is a scale or zero point"
        node = self.search.producers.get(term.name)
        if node is None:
            return f'"{term.name}" is an input of the network'
        inside = ", and this is an intermediate result of it" if term.depth else ""
        return f'"{term.name}" is computed by {node.kind}{inside}'


def _attribute_problem(node: Node, attributes: Attributes) -> str:
    """The first of some attributes that a node lacks, and its value."""
    name, wanted = next((n, v) for n, v in attributes if not has_attribute(node.op, n, v))
    try:
        found = get_attribute(node.op, name)
    except KeyError:
        return f'{node.kind} "{node.name}" has no attribute {name}'
    text = getattr(found, "name", found)
    rule = f"which {name_of(wanted)} rejects" if callable(wanted) else f"must be {wanted}"
    return f'{name} of "{node.name}" is {text}, {rule}'


def _fields(pattern: Pattern) -> tuple[Pattern, ...]:
    # A tuple pattern with fields requires one operand per field, which must match the field.  Any
    # other pattern requires one operand, which must match it.
    fields = pattern.fields if isinstance(pattern, TuplePattern) else None
    return (pattern,) if fields is None else fields


def _leaf_problem(pattern: Pattern, term: Term, description: str) -> str:
    match pattern:
        case Constant() if term.constant:
            return f'the elements of "{term.name}" differ'
        case Wildcard():
            return f"{description}, not a value of the graph"
        case TuplePattern():
            return (
                f"{description}, a tuple stands for all operands of an operator with any number of "
                "them"
            )
        case _:
            return description


# Explanation of the engine of a node: which pattern claims it, or why each pattern does not.


def explain(
    graph: Graph, accelerators: Sequence[Accelerator], target: Target, name: str
) -> tuple[str, ...]:
    """Return lines that explain which engine runs a node, and why.

    Raises UsageError if there is no such node or no accelerator."""
    # For each pattern of each accelerator, a line states that a match ends with the node, or why
    # none does.  The last line states the engine.
    names = [node.name for node in graph.nodes]
    if not accelerators or name not in names:
        raise UsageError(
            "usage-063",
            f'there is no node "{name}"' if accelerators else "patterns belong to accelerators",
            where="--explain-pattern",
            why="" if accelerators else "the command names no accelerator",
            help=(did_you_mean(name, denoting(names)) or f"state a name, for example {names[0]}; ")
            + "`penstock show MODEL --nodes` lists the nodes"
            if accelerators
            else "add --accelerator NAME",
        )
    check_engines(graph, [accelerator.name for accelerator in accelerators])
    graph, lost = contested(graph, accelerators, partial(processor_cycles, target=target))
    lines: list[str] = []
    reasons: list[str] = []
    for k, accelerator in enumerate(accelerators):
        reserved = lost[accelerator.name]
        lines += [f"{accelerator.name}:", *_patterns(graph, accelerator, name, reserved)]
        graph, refusals = claimed(graph, accelerator, reserved)
        if k == len(accelerators) - 1:  # earlier ones release nodes for later ones
            graph = dissolve(graph, _other_composites(graph, accelerator, name))
        graph, fallbacks = choose(graph, accelerator, lambda node: 0, refusals)
        reasons += [item.reason for item in fallbacks if item.node.name == name]
    return (*lines, _outcome(graph, target, name, reasons))


def _other_composites(graph: Graph, accelerator: Accelerator, name: str) -> frozenset[str]:
    # `explain` dissolves them, because it only needs the kernels of the node's own composite.
    return frozenset(
        node.name
        for node in graph.nodes
        if isinstance(node.op, Composite)
        and node.op.engine == accelerator.name
        and name not in {inner.name for inner in node.op.nodes}
    )


def _patterns(
    graph: Graph, accelerator: Accelerator, name: str, reserved: Mapping[str, str]
) -> Iterator[str]:
    # If a composite contains the node already, or a graph pass removes it, no pattern is tried, and
    # there is a single line with this reason.
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
        alone = partition(
            graph, (named,), accelerator.constraints, accelerator.name, reserved=reserved
        )
        refusal = alone[1].get(name)
        yield f"  {refusal}" if refusal else f'  pattern "{named.name}" matches'


def _outcome(graph: Graph, target: Target, name: str, reasons: Sequence[str]) -> str:
    for node in graph.nodes:
        if isinstance(node.op, Composite) and name in {inner.name for inner in node.op.nodes}:
            return f'engine: {node.op.engine}, in composite "{node.name}" of "{node.op.name}"'
    reason = f": {'; '.join(reasons)}" if reasons else ""
    return f"engine: {target.engines[0].name}{reason}"
