"""Matching of patterns against the nodes of a graph."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace

import numpy as np

from penstock.backends.operator_names import BATCH_NORM, Fused, Kind, has_attributes, meanings
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
    last_operators,
    type_problem,
)
from penstock.frozen import frozen
from penstock.ir.graph import Node, Value, Values
from penstock.ir.tensor import Array, DType
from penstock.opkit.activation import UNLIMITED, Activation
from penstock.opkit.layers import PlainLayer
from penstock.ops.plain import PlainRelu
from penstock.ops.reshape import keeps_extents
from penstock.ops.slice import Slice, item_of_split
from penstock.ops.unary import Relu
from penstock.passes.folding import clamped


def matches(
    pattern: Pattern, node: Node, producers: Mapping[str, Node]
) -> tuple[frozenset[str], ...]:
    """Return the matches of a pattern that end with `node`, each as the set of its nodes' names."""
    # Larger matches come first; matches of the same size are in the order of the alternatives in
    # the pattern.
    search = Search.of(pattern, producers, node.name)
    found = search.match(pattern, Term.of(node.output), frozenset())
    claims = dict.fromkeys(one.claimed for one in found if node.name in one.claimed)
    return tuple(sorted(claims, key=len, reverse=True))


@frozen
class Term:
    """What a pattern can match: a value of the graph, an intermediate result within a node, or a
    scale or zero point by which a node requantises.

    For patterns, a layer is a sequence of operators: for example, convolution, bias addition,
    requantisation and clamp.  The results of all but the last one are intermediate results.

    name: the name of the value; for an intermediate result, the name of the node's output; empty
        for a scale or zero point.
    depth: for an intermediate result, the number of operators that follow it within the node: 3
        for the result of the convolution in the example; 0 for all other terms.
    constant: whether the value is a constant.
    value: the value of the graph; for an intermediate result, the output of its node; None for a
        scale or zero point."""

    name: str
    depth: int = 0
    constant: bool = False
    value: Value | None = field(default=None, compare=False)

    @staticmethod
    def of(value: Value) -> Term:
        """Return a value of the graph as a term, which is what a pattern can match."""
        return Term(value.name, constant=value.data is not None, value=value)

    @property
    def whole(self) -> bool:
        """Whether wildcards match the term: a value or a constant, but no intermediate result."""
        return self.depth == 0


# A scale or a zero point, which is an operand in Relay but not in penstock.
_NUMBER = Term("", constant=True)

# The patterns that occur repeatedly, each with the term that it has matched.
_Bindings = frozenset[tuple[Pattern, Term]]


@frozen
class FusedOperator:
    """One of the operators that a node computes in sequence, such as convolution, bias and clamp.

    kind: the operator's class, or the Relay operator that penstock fuses into layers.
    arguments: the permitted lists of operands, for example with and without a bias."""

    kind: Kind
    arguments: tuple[tuple[Term, ...], ...]


@frozen
class _Match:
    """A match of a pattern or of part of a pattern.

    claimed: the names of the matched nodes.
    bindings: (pattern, term) for each repeated pattern: the term (value or intermediate result)
        that one occurrence has matched, and that the others must match, too."""

    claimed: frozenset[str]
    bindings: _Bindings


@frozen
class Search:
    """Search for matches, with memoisation because nested alternatives repeat sub-searches.

    producers: the node that computes a value, by the value's name.
    repeated: patterns that occur more than once and must match the same value or intermediate
        result (term) each time.
    root: the name of the last node of the matches.
    known: the memoised results of `match`."""

    producers: Mapping[str, Node]
    repeated: frozenset[Pattern]
    root: str = ""
    known: dict[tuple[Pattern, Term, _Bindings], tuple[_Match, ...]] = field(default_factory=dict)

    @staticmethod
    def of(pattern: Pattern, producers: Mapping[str, Node], root: str = "") -> Search:
        """Return a search for matches of `pattern`; `producers` and `root` as in `Search`."""
        return Search(producers, _repeated_patterns(pattern), root)

    def match(self, pattern: Pattern, term: Term, bindings: _Bindings) -> tuple[_Match, ...]:
        """Return the distinct matches of `pattern` whose result is `term`; () if there are none.

        bindings: for each repeated pattern matched so far, its term, which it must match again."""
        # The matches are in the order in which the pattern lists its alternatives.
        key = pattern, term, bindings
        if key not in self.known:
            bound = dict(bindings).get(pattern)
            if bound is None:
                found = self._first_match(pattern, term, bindings)
            elif bound == term:
                found = iter((_Match(frozenset(), bindings),))
            else:
                found = iter(())
            self.known[key] = tuple(dict.fromkeys(found))
        return self.known[key]

    def _first_match(self, pattern: Pattern, term: Term, bindings: _Bindings) -> Iterator[_Match]:
        """The matches of `pattern` whose result is `term`; `pattern` has not matched before."""
        # If `pattern` occurs more than once, each match adds (pattern, term) to its bindings, so
        # that the other occurrences must match the same term.
        binding: _Bindings = frozenset({(pattern, term)} if pattern in self.repeated else ())
        for found in self._matches(pattern, term, bindings):
            yield replace(found, bindings=found.bindings | binding)

    def _matches(self, pattern: Pattern, term: Term, bindings: _Bindings) -> Iterator[_Match]:
        match pattern:
            case Wildcard() if term.whole:
                yield _Match(frozenset(), bindings)
            case Constant(test) if term.constant and (test is None or test.accepts(elements(term))):
                yield _Match(frozenset(), bindings)
            case AllPaths():
                yield from self._path_matches(pattern, term, bindings)
            case Either(first, second):
                yield from self.match(first, term, bindings)
                yield from self.match(second, term, bindings)
            case Having(inner) | Typed(inner):
                if self.holds(pattern, term):
                    yield from self.match(inner, term, bindings)
            case Operator():
                yield from self._operator_matches(pattern, term, bindings)
            case TupleItem(inner, index) if index is None or self.item(pattern, term) == index:
                yield from self._matches(inner, term, bindings)
            case _:
                return

    def item(self, pattern: TupleItem, term: Term) -> int | None:
        """Return which item of a tuple `term` is; 0 for the result of an operator with one."""
        node = self.producers.get(term.name)
        if node is None or not any(isinstance(p, Operator) for p in last_operators(pattern)):
            return None
        return item_of_split(node, self.producers.values()) if isinstance(node.op, Slice) else 0

    def holds(self, pattern: Having | Typed, term: Term) -> bool:
        """Return whether `term` has the attributes (`Having`) or type (`Typed`) of `pattern`."""
        if isinstance(pattern, Typed):
            found = term.value
            return found is not None and not type_problem(pattern.dtype, pattern.shape, found.type)
        node = self.producers.get(term.name)
        return node is not None and has_attributes(node, pattern.attributes)

    def _operator_matches(
        self, pattern: Operator, term: Term, bindings: _Bindings
    ) -> Iterator[_Match]:
        # A node may compute several operators in sequence, such as a convolution and a clamp, and a
        # pattern need not name the last of them.  The search therefore tries the operator whose
        # result is `term`, and all operators of the node before it.
        node = self.producers.get(term.name)
        if node is None:
            return
        node, found = with_clamp(node), _Match(frozenset({node.name}), bindings)
        meaning = meanings()[pattern.name]
        for stage in stages(node)[term.depth :]:
            if not meaning.fits(node, stage.kind):
                continue
            if pattern.arguments is None:
                yield found
                continue
            for operands in stage.arguments:
                yield from self._argument_matches(pattern, operands, found)
        # Between two operators, a reshape that only adds or drops axes of extent 1 is looked
        # through: importers put such reshapes around convolutions of one axis.
        if node.name != self.root and keeps_extents(node):
            for inner in self._operator_matches(pattern, Term.of(node.inputs[0]), bindings):
                yield replace(inner, claimed=inner.claimed | {node.name})

    def _argument_matches(
        self, pattern: Operator, operands: tuple[Term, ...], found: _Match
    ) -> Iterable[_Match]:
        """The extensions of `found` in which `operands` match the arguments of `pattern`."""
        # Relay's quantised operators ("qnn.") take scales and zero points as their last arguments.
        # penstock stores these in tensor types, not as operands.  If `pattern` is such an operator,
        # a placeholder constant therefore stands for each argument without an operand.  The same
        # holds for the mean and the variance of a batch normalisation.
        patterns = pattern.arguments or ()
        if len(patterns) == 1:
            patterns = tuple_fields(patterns[0], len(operands)) or patterns
        if pattern.name.startswith("qnn.") or pattern.name == BATCH_NORM:
            operands += (_NUMBER,) * (len(patterns) - len(operands))
        if len(patterns) != len(operands):
            return ()
        partial = {found: None}
        for wanted, operand in zip(patterns, operands, strict=True):
            partial = {
                _Match(before.claimed | more.claimed, more.bindings): None
                for before in partial
                for more in self.match(wanted, operand, before.bindings)
            }
        return partial

    def _path_matches(self, pattern: AllPaths, term: Term, bindings: _Bindings) -> Iterator[_Match]:
        """The matches of `pattern` whose result is `term`."""
        # Each match consists of the nodes that `pattern.child` matches, the nodes further upstream
        # that its dominator `pattern.parent` matches, and all nodes between child and dominator.
        for child in self.match(pattern.child, term, bindings):
            begin = self.read_by(child.claimed)
            for value in self.reachable(begin, pattern.path, child.bindings):
                for parent in self.match(pattern.parent, Term.of(value), child.bindings):
                    between = self._between(begin, value, pattern.path, parent.bindings)
                    if parent.claimed and between is not None:
                        claimed = child.claimed | parent.claimed | between
                        yield _Match(claimed, parent.bindings)

    def read_by(self, claimed: frozenset[str]) -> Values:
        """Return the inputs of a sub-graph, except constants: it reads but does not compute them.

        claimed: the names of the nodes of the sub-graph."""
        read = (v for name in sorted(claimed) for v in self.producers[name].variable_inputs)
        return tuple({v.name: v for v in read if v.name not in claimed}.values())

    def _path_node_match(self, value: Value, path: Pattern, bindings: _Bindings) -> frozenset[str]:
        """The names of the nodes by which a path can reach `value`; empty if there are none."""
        # They are the nodes of the first match of `path` whose result is `value`.  If `path` is a
        # wildcard, this is only the node that computes `value`.
        if value.name not in self.producers:
            return frozenset()
        if isinstance(path, Wildcard):
            return frozenset({value.name})
        return next((m.claimed for m in self.match(path, Term.of(value), bindings)), frozenset())

    def reachable(
        self, begin: Sequence[Value], path: Pattern, bindings: _Bindings
    ) -> Iterator[Value]:
        """Yield the values of `begin` and those upstream: candidates for a dominator's output.

        bindings: pairs (pattern, term): what repeated patterns matched and must match again."""
        # Upstream is towards the network's inputs.  All nodes on the way must match `path`.  The
        # order is breadth-first, so the values nearest to `begin` come first.
        waiting, seen = deque(begin), {value.name for value in begin}
        while waiting:
            value = waiting.popleft()
            yield value
            for other in self.read_by(self._path_node_match(value, path, bindings)):
                if other.name not in seen:
                    seen.add(other.name)
                    waiting.append(other)

    def _between(
        self, begin: Sequence[Value], parent: Value, path: Pattern, bindings: _Bindings
    ) -> frozenset[str] | None:
        # The nodes that compute the values of `begin` are included; the node that computes `parent`
        # is not.  The result is empty if `parent` is the only value of `begin`.
        #
        # Returns None if `parent` does not dominate `begin`: a path from a network input to a value
        # of `begin` bypasses `parent`, or a node on the way does not match the pattern `path`.
        waiting, found = [value for value in begin if value.name != parent.name], set[str]()
        while waiting:
            value = waiting.pop()
            if value.name in found:
                continue
            names = self._path_node_match(value, path, bindings)
            if not names:
                return None
            found |= names
            waiting += [other for other in self.read_by(names) if other.name != parent.name]
        return frozenset(found)


def tuple_fields(pattern: Pattern, count: int) -> tuple[Pattern, ...]:
    """Return the patterns of the `count` operands for which a tuple pattern stands.

    They are its fields, or `count` wildcards if it matches any operands.  If `pattern` has
    alternatives (`|`), the first tuple pattern for `count` operands applies.  The result is () if
    there is no tuple pattern for `count` operands."""
    match pattern:
        case Either(first, second):
            return tuple_fields(first, count) or tuple_fields(second, count)
        case TuplePattern(None):
            return tuple(Wildcard() for _ in range(count))
        case TuplePattern(fields) if fields is not None and len(fields) == count:
            return fields
        case _:
            return ()


def elements(term: Term) -> Array:
    """Return the elements of a constant that a pattern may match.

    The result is empty for a scale or zero point, since penstock has no tensor with its value."""
    if term.value is None or term.value.data is None:
        return np.zeros(0)
    return term.value.array


def _repeated_patterns(pattern: Pattern) -> frozenset[Pattern]:
    # A match uses only one of two alternatives (`|`), so one occurrence in each is not a
    # repetition.
    counts: dict[Pattern, Counter[Pattern]] = {}

    def count(one: Pattern) -> Counter[Pattern]:
        if one not in counts:
            match one:
                case Either(first, second):
                    inner = count(first) | count(second)
                case Having(wrapped) | Typed(wrapped):
                    inner = count(wrapped)
                case AllPaths(child, parent):
                    inner = count(child) + count(parent)
                case TuplePattern(fields) if fields:
                    inner = sum(map(count, fields), Counter[Pattern]())
                case TupleItem(wrapped):
                    # Items of one split are different values of the graph, so `wrapped` itself
                    # does not count, but its operands do.
                    inner = count(wrapped) - Counter((wrapped,))
                case Operator(_, arguments) if arguments:
                    inner = sum(map(count, arguments), Counter[Pattern]())
                case _:
                    inner = Counter[Pattern]()
            counts[one] = inner + Counter((one,))
        return counts[one]

    return frozenset(one for one, times in count(pattern).items() if times > 1)


def with_clamp(node: Node) -> Node:
    """Return a node with the clamp of negative numbers that quantisers leave out, because all
    elements of its output stand for numbers from 0 on."""
    type, op = node.output.type, clamped(node.op, Relu(Activation.RELU))
    if op is None or type.quantisation is None or type.dtype in (DType.FLOAT32, DType.BOOL):
        return node
    is_implied = set(type.quantisation.zero_points) == {type.dtype.lower}
    return replace(node, op=op) if is_implied else node


def stages(node: Node) -> tuple[FusedOperator, ...]:
    """Return the operators that a node computes in sequence, the last one first."""
    # For a layer, they are clamp, requantisation and bias, if present, then the layer's own
    # operator.
    found: list[FusedOperator] = []

    def wrap(kind: Kind, *others: Term) -> None:
        inner = Term(node.name, len(found) + 1, value=node.output)
        found.append(FusedOperator(kind, ((inner, *others),)))

    op = node.op
    activation = getattr(op, "activation", Activation.NONE)
    if activation is not Activation.NONE and not isinstance(op, Relu):
        wrap(Relu)
    limits = getattr(op, "limits", UNLIMITED)
    if limits.is_clamp and not isinstance(op, PlainRelu):
        wrap(PlainRelu)
    operands = tuple(map(Term.of, node.inputs))
    forms = [operands]
    bias = op.BIAS_INPUT
    if bias is not None:
        if not isinstance(op, PlainLayer):
            wrap(Fused.REQUANTISE)
        wrap(Fused.BIAS_ADD, operands[bias])
        forms.append(operands[:bias] + operands[bias + 1 :])
    if op.COMMUTATIVE:
        forms.append(operands[::-1])
    return (*found, FusedOperator(type(op), tuple(forms)))
