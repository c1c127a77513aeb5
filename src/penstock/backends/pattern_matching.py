"""Matching of patterns against the nodes of a graph."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from penstock.backends.operator_names import Fused, Kind, has_attributes, meanings
from penstock.backends.pattern import Constant, Either, Having, Operator, Pattern, Wildcard
from penstock.ir.graph import Node, Value
from penstock.opkit.activation import Activation
from penstock.ops.relu import Relu


def matches(
    pattern: Pattern, node: Node, producers: Mapping[str, Node]
) -> tuple[frozenset[str], ...]:
    """Return the matches of a pattern that end with `node`, each as the set of its nodes' names.

    Larger matches come first; matches of the same size are in the order of the alternatives in the
    pattern.

    producers: the node that computes a value, by the value's name.
    """
    search = _Search(producers, _repeated_patterns(pattern))
    found = search.match(pattern, _Term.of(node.output), frozenset())
    claims = dict.fromkeys(one.claimed for one in found if node.name in one.claimed)
    return tuple(sorted(claims, key=len, reverse=True))


@dataclass(frozen=True, slots=True)
class _Term:
    """What a pattern can match: a value of the graph, or an intermediate result within a node.

    name: the name of the value; for an intermediate result, the name of the node's output.
    depth: number of the node's final operators (bias, requantisation, clamp) that follow the
        intermediate result; 0 for a value of the graph.
    constant: whether the value is a constant."""

    name: str
    depth: int = 0
    constant: bool = False

    @staticmethod
    def of(value: Value) -> _Term:
        """Return a value of the graph as a term, which is what a pattern can match."""
        return _Term(value.name, constant=value.data is not None)

    @property
    def whole(self) -> bool:
        """Whether the term is a value of the graph, not an intermediate result within a node."""
        return self.depth == 0


_NUMBER = _Term("", constant=True)
"""A scale or a zero point, which is an operand in Relay but not in penstock."""

_Bindings = frozenset[tuple[Pattern, _Term]]
"""The patterns that occur repeatedly, each with the term that it has matched."""


@dataclass(frozen=True, slots=True)
class _Stage:
    """One of the operators that a node computes in sequence, such as convolution, bias and clamp.

    kind: the operator's class, or the Relay operator that penstock fuses into layers.
    arguments: the permitted lists of operands, for example with and without a bias."""

    kind: Kind
    arguments: tuple[tuple[_Term, ...], ...]


@dataclass(frozen=True, slots=True)
class _Match:
    """A match of a pattern or of part of a pattern.

    claimed: the names of the matched nodes.
    bindings: for each pattern that occurs repeatedly, the pair of this pattern and what it has
        matched: a value or an intermediate result."""

    claimed: frozenset[str]
    bindings: _Bindings


@dataclass(frozen=True, slots=True)
class _Search:
    """Search for matches, with memoisation because nested alternatives repeat sub-searches.

    producers: the node that computes a value, by the value's name.
    repeated: patterns that occur more than once and must match the same value or intermediate
        result (term) each time.
    known: the memoised results of `match`."""

    producers: Mapping[str, Node]
    repeated: frozenset[Pattern]
    known: dict[tuple[Pattern, _Term, _Bindings], tuple[_Match, ...]] = field(
        default_factory=dict[tuple[Pattern, _Term, _Bindings], tuple[_Match, ...]]
    )

    def match(self, pattern: Pattern, term: _Term, bindings: _Bindings) -> tuple[_Match, ...]:
        """Return the distinct matches of `pattern` whose result is `term`; () if there are none.

        The matches are in the order in which the pattern lists its alternatives.

        term: a value, or an intermediate result within a node.
        bindings: for each repeated pattern that has matched before, the pair of this pattern and
            the term that it must match again."""
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

    def _first_match(self, pattern: Pattern, term: _Term, bindings: _Bindings) -> Iterator[_Match]:
        """Yield the matches of `pattern` whose result is `term`.

        Requires that `bindings` has no entry for `pattern`.  If `pattern` is one of `repeated`,
        each match yielded binds it to `term`, because its other occurrences must match the same
        term."""
        binding: _Bindings = frozenset({(pattern, term)} if pattern in self.repeated else ())
        for found in self._matches(pattern, term, bindings):
            yield replace(found, bindings=found.bindings | binding)

    def _matches(self, pattern: Pattern, term: _Term, bindings: _Bindings) -> Iterator[_Match]:
        match pattern:
            case Wildcard() if term.whole:
                yield _Match(frozenset(), bindings)
            case Constant() if term.constant:
                yield _Match(frozenset(), bindings)
            case Either(first, second):
                yield from self.match(first, term, bindings)
                yield from self.match(second, term, bindings)
            case Having(inner, attributes):
                node = self.producers.get(term.name)
                if node is not None and has_attributes(node, attributes):
                    yield from self.match(inner, term, bindings)
            case Operator():
                yield from self._operator_matches(pattern, term, bindings)
            case _:
                return

    def _operator_matches(
        self, pattern: Operator, term: _Term, bindings: _Bindings
    ) -> Iterator[_Match]:
        """Yield the matches of `pattern` with an operator of the node that computes `term`.

        A node may compute several operators in sequence, such as a convolution and a clamp.  The
        search tries the operator whose result is `term`, and then each earlier one, because a
        pattern need not name the last operators of a node."""
        node = self.producers.get(term.name)
        if node is None:
            return
        found = _Match(frozenset({node.name}), bindings)
        meaning = meanings()[pattern.name]
        for stage in _stages(node)[term.depth :]:
            if not meaning.fits(node, stage.kind):
                continue
            if pattern.arguments is None:
                yield found
                continue
            for operands in stage.arguments:
                yield from self._argument_matches(pattern, operands, found)

    def _argument_matches(
        self, pattern: Operator, operands: tuple[_Term, ...], found: _Match
    ) -> Iterable[_Match]:
        """Return the extensions of `found` in which `operands` match the arguments of `pattern`.

        Relay's quantised operators ("qnn.") take scales and zero points as their last arguments.
        penstock stores these in tensor types, not as operands.  For such patterns, placeholder
        constants are therefore appended to `operands`, until there is one for each argument.

        found: the match of the operator without its operands, and the bindings so far."""
        patterns = pattern.arguments or ()
        if pattern.name.startswith("qnn."):
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


def _repeated_patterns(pattern: Pattern) -> frozenset[Pattern]:
    """Return the pattern objects that may occur more than once in a match of `pattern`.

    A match uses only one of two alternatives (`|`), so one occurrence in each is not a
    repetition."""
    counts: dict[Pattern, Counter[Pattern]] = {}

    def count(one: Pattern) -> Counter[Pattern]:
        if one not in counts:
            match one:
                case Either(first, second):
                    inner = count(first) | count(second)
                case Having(wrapped):
                    inner = count(wrapped)
                case Operator(_, arguments) if arguments:
                    inner = sum(map(count, arguments), Counter[Pattern]())
                case _:
                    inner = Counter[Pattern]()
            counts[one] = inner + Counter((one,))
        return counts[one]

    return frozenset(one for one, times in count(pattern).items() if times > 1)


def _stages(node: Node) -> tuple[_Stage, ...]:
    """Return the operators that a node computes in sequence, the last one first.

    For a layer, they are clamp, requantisation and bias, if present, then the layer's own
    operator."""
    found: list[_Stage] = []

    def wrap(kind: Kind, *others: _Term) -> None:
        found.append(_Stage(kind, ((_Term(node.name, len(found) + 1), *others),)))

    op = node.op
    activation = getattr(op, "activation", Activation.NONE)
    if activation is not Activation.NONE and not isinstance(op, Relu):
        wrap(Relu)
    operands = tuple(map(_Term.of, node.inputs))
    forms = [operands]
    bias = op.BIAS_INPUT
    if bias is not None:
        wrap(Fused.REQUANTISE)
        wrap(Fused.BIAS_ADD, operands[bias])
        forms.append(operands[:bias] + operands[bias + 1 :])
    if op.COMMUTATIVE:
        forms.append(operands[::-1])
    return (*found, _Stage(type(op), tuple(forms)))
