"""Patterns: sub-graphs that an accelerator takes, in the language of UMA.

>>> conv = is_op("nn.conv2d")(wildcard(), is_constant())
>>> print(is_op("nn.bias_add")(conv, wildcard()).optional(lambda x: is_op("nn.relu")(x)))
nn.relu(nn.bias_add(nn.conv2d(*, constant), *)) | nn.bias_add(nn.conv2d(*, constant), *)

A layer of ours is one node with its bias, its requantisation and its clamp; a pattern sees it as
the chain that Relay makes of it, `nn.relu(qnn.requantize(nn.bias_add(nn.conv2d(x, w), b)))`, of
which it may name as much as it likes: `nn.conv2d` alone matches a convolution with bias and clamp,
too, since there is no other.  What a pattern does not name the accelerator must still compute;
`has_attr({"activation": "NONE"})`, a predicate or a constraint refuses it.  A pattern that names
only what is fused (`nn.relu` of anything) does not match: nothing can be cut out of a node.

A pattern that stands twice in a pattern, as one object, must match the same value twice.

Source: TVM RFC 0060 (UMA), `_register_pattern`; TVM `relay/dataflow_pattern` (names, meaning).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from penstock.backends.operator_names import (
    BIAS_ADD,
    CLAMP,
    COMMUTATIVE,
    REQUANTISE,
    WITH_BIAS,
    Attributes,
    arguments,
    attribute_names,
    has_attributes,
    meaning,
    meanings,
)
from penstock.errors import BackendError
from penstock.ir.graph import Node, Value


class Pattern:
    """A pattern of nodes: a frozen value, made by `is_op`, `wildcard` and `is_constant`."""

    __slots__ = ()

    def __or__(self, other: Pattern) -> Pattern:
        """What one of the two matches.

        >>> print(is_op("nn.max_pool2d")(wildcard()) | is_op("nn.avg_pool2d")(wildcard()))
        nn.max_pool2d(*) | nn.avg_pool2d(*)
        """
        return Either(self, _pattern(other, "the right side of |"))

    def optional(self, wrapped: Callable[[Pattern], Pattern]) -> Pattern:
        """This pattern, and what is built around it where that is there, too.

        >>> print(is_op("Pad")(wildcard()).optional(lambda x: is_op("Conv2D")(x, wildcard())))
        Conv2D(Pad(*), *) | Pad(*)
        """
        return Either(_pattern(wrapped(self), "what optional(..) is given returns"), self)

    def has_attr(self, attributes: Mapping[str, object]) -> Pattern:
        """What the pattern matches where the fields of its last operator have these values.

        Fields are those of our operators; members of enumerations go by name, fields of a field by
        a dotted name.  Raises BackendError where there is no such field.

        >>> print(is_op("Conv2D")(wildcard(), wildcard()).has_attr({"rows.stride": 1}))
        Conv2D(*, *){rows.stride=1}
        >>> is_op("Conv2D").has_attr({"strides": [1, 1]})  # doctest: +ELLIPSIS
        Traceback (most recent call last):
        penstock.errors.BackendError: error[backend-005]: Conv2D has no attribute "strides"
        ...
        """
        _check_attributes(self, attributes)
        return Having(self, tuple(attributes.items()))


@dataclass(frozen=True, slots=True)
class Wildcard(Pattern):
    """Any value."""

    def __str__(self) -> str:
        return "*"


@dataclass(frozen=True, slots=True)
class Constant(Pattern):
    """Any constant."""

    def __str__(self) -> str:
        return "constant"


@dataclass(frozen=True, slots=True)
class Operator(Pattern):
    """A node of that name, its arguments as the patterns say; None: whatever they are."""

    name: str
    arguments: tuple[Pattern, ...] | None = None

    def __call__(self, *patterns: Pattern) -> Operator:
        """The operator with its arguments, constants among them.

        A bias may be named or not.  Sums and the like match in either order of arguments.

        >>> print(is_op("add")(is_op("nn.conv2d")(wildcard(), wildcard()), wildcard()))
        add(nn.conv2d(*, *), *)
        >>> is_op("nn.conv2d")(wildcard())  # doctest: +ELLIPSIS
        Traceback (most recent call last):
        penstock.errors.BackendError: error[backend-003]: nn.conv2d takes 2 or 3 arguments, not 1
        ...
        """
        _check_arguments(self.name, patterns)
        return replace(self, arguments=patterns)

    def __str__(self) -> str:
        told = "" if self.arguments is None else f"({', '.join(map(str, self.arguments))})"
        return self.name + told


@dataclass(frozen=True, slots=True)
class Either(Pattern):
    """What one of the two matches."""

    first: Pattern
    second: Pattern

    def __str__(self) -> str:
        return f"{self.first} | {self.second}"


@dataclass(frozen=True, slots=True)
class Having(Pattern):
    """What a pattern matches, made by an operator with these attributes."""

    pattern: Pattern
    attributes: Attributes

    def __str__(self) -> str:
        told = ", ".join(f"{name}={value}" for name, value in self.attributes)
        pattern = f"({self.pattern})" if isinstance(self.pattern, Either) else str(self.pattern)
        return f"{pattern}{{{told}}}"


def wildcard() -> Pattern:
    """Any value: computed, constant or an input of the network.

    >>> print(wildcard())
    *
    """
    return Wildcard()


def is_constant() -> Pattern:
    """Any constant, such as weights.

    >>> print(is_op("Add")(wildcard(), is_constant()))
    Add(*, constant)
    """
    return Constant()


def is_op(name: str) -> Operator:
    """A node of that operator; called with patterns, one of such arguments.

    Names are ours, TFLite's or Relay's.  Raises BackendError where there is no such operator.

    >>> print(is_op("nn.softmax")(wildcard()), is_op("Concatenation"))
    nn.softmax(*) Concatenation
    >>> is_op("nn.sofmax")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    penstock.errors.BackendError: error[backend-001]: there is no operator "nn.sofmax"
    ...
    """
    meaning(name, f'is_op("{name}")')
    return Operator(name)


def matches(
    pattern: Pattern, node: Node, producers: Mapping[str, Node]
) -> tuple[frozenset[str], ...]:
    """Names of the nodes of each match that ends with `node`, the largest matches first; of equal
    ones in the order of alternatives.

    `producers`: by name of a computed value, its node.
    """
    search = _Search(producers, _twice_in(pattern))
    found = search.match(pattern, _Term.of(node.output), frozenset())
    claims = dict.fromkeys(one.claimed for one in found if node.name in one.claimed)
    return tuple(sorted(claims, key=len, reverse=True))


def last_operators(pattern: Pattern) -> Iterator[Pattern]:
    """What may stand for the last node of a match: operators, wildcards, constants.

    >>> [str(p) for p in last_operators(is_op("Add")(wildcard(), wildcard()) | wildcard())]
    ['Add(*, *)', '*']
    """
    match pattern:
        case Either(first, second):
            yield from last_operators(first)
            yield from last_operators(second)
        case Having(inner):
            yield from last_operators(inner)
        case _:
            yield pattern


@dataclass(frozen=True, slots=True)
class _Term:
    """A value by name; within a node with `depth` outer layers taken off."""

    name: str
    depth: int = 0
    constant: bool = False

    @staticmethod
    def of(value: Value) -> _Term:
        return _Term(value.name, constant=value.data is not None)

    @property
    def whole(self) -> bool:
        return self.depth == 0


_NUMBER = _Term("", constant=True)
"""A scale or a zero point."""

_Bound = frozenset[tuple[int, _Term]]
"""By identity of a pattern that stands twice, the term that it has matched."""


@dataclass(frozen=True, slots=True)
class _Layer:
    """What a node does, outermost first: a kind, and its arguments in each way to write them."""

    kind: str
    arguments: tuple[tuple[_Term, ...], ...]


@dataclass(frozen=True, slots=True)
class _Found:
    """A match so far: names of its nodes."""

    claimed: frozenset[str]
    bound: _Bound


@dataclass(frozen=True, slots=True)
class _Search:
    """Matches of patterns with terms, each found once: options of options meet the same again."""

    producers: Mapping[str, Node]
    twice: frozenset[int]
    known: dict[tuple[int, _Term, _Bound], tuple[_Found, ...]] = field(
        default_factory=dict[tuple[int, _Term, _Bound], tuple[_Found, ...]]
    )

    def match(self, pattern: Pattern, term: _Term, bound: _Bound) -> tuple[_Found, ...]:
        """Every way in which the pattern matches the term, each once, in order."""
        key = id(pattern), term, bound
        if key not in self.known:
            ways = self._matched_before(pattern, term, bound)
            if ways is None:
                ways = self._matched(pattern, term, bound)
            self.known[key] = tuple(dict.fromkeys(ways))
        return self.known[key]

    def _matched_before(
        self, pattern: Pattern, term: _Term, bound: _Bound
    ) -> tuple[_Found, ...] | None:
        """The match of a pattern that has matched already, the same term again."""
        other = dict(bound).get(id(pattern))
        if other is None:
            return None
        return (_Found(frozenset(), bound),) if other == term else ()

    def _matched(self, pattern: Pattern, term: _Term, bound: _Bound) -> Iterator[_Found]:
        mine: _Bound = frozenset({(id(pattern), term)} if id(pattern) in self.twice else ())
        for found in self._ways(pattern, term, bound):
            yield replace(found, bound=found.bound | mine)

    def _ways(self, pattern: Pattern, term: _Term, bound: _Bound) -> Iterator[_Found]:
        match pattern:
            case Wildcard() if term.whole:
                yield _Found(frozenset(), bound)
            case Constant() if term.constant:
                yield _Found(frozenset(), bound)
            case Either(first, second):
                yield from self.match(first, term, bound)
                yield from self.match(second, term, bound)
            case Having(inner, attributes):
                node = self.producers.get(term.name)
                if node is not None and has_attributes(node, attributes):
                    yield from self.match(inner, term, bound)
            case Operator():
                yield from self._operator(pattern, term, bound)
            case _:
                return

    def _operator(self, pattern: Operator, term: _Term, bound: _Bound) -> Iterator[_Found]:
        """Matches of an operator with the node of the term: with any of its layers, outer ones
        being left out."""
        node = self.producers.get(term.name)
        if node is None:
            return
        found = _Found(frozenset({node.name}), bound)
        meant = meanings()[pattern.name]
        for layer in _layers(node)[term.depth :]:
            if not meant.fits(node, layer.kind):
                continue
            if pattern.arguments is None:
                yield found
                continue
            for operands in layer.arguments:
                yield from self._all(pattern, operands, found)

    def _all(
        self, pattern: Operator, operands: tuple[_Term, ...], found: _Found
    ) -> Iterable[_Found]:
        """Matches of every argument; scales and zero points stand after the others."""
        patterns = pattern.arguments or ()
        if pattern.name.startswith("qnn."):
            operands += (_NUMBER,) * (len(patterns) - len(operands))
        if len(patterns) != len(operands):
            return ()
        ways = {found: None}
        for wanted, operand in zip(patterns, operands, strict=True):
            ways = {
                _Found(way.claimed | more.claimed, more.bound): None
                for way in ways
                for more in self.match(wanted, operand, way.bound)
            }
        return ways


def _twice_in(pattern: Pattern) -> frozenset[int]:
    """Identities of the patterns that stand more than once in the pattern, whatever alternatives
    are taken; those must match one value."""
    counts: dict[int, Counter[int]] = {}

    def count(one: Pattern) -> Counter[int]:
        if id(one) not in counts:
            match one:
                case Either(first, second):
                    inner = count(first) | count(second)
                case Having(wrapped):
                    inner = count(wrapped)
                case Operator(_, arguments) if arguments:
                    inner = sum(map(count, arguments), Counter[int]())
                case _:
                    inner = Counter[int]()
            counts[id(one)] = inner + Counter((id(one),))
        return counts[id(one)]

    return frozenset(which for which, times in count(pattern).items() if times > 1)


def _layers(node: Node) -> tuple[_Layer, ...]:
    """What a node does, outermost first; the last is its operator."""
    found: list[_Layer] = []

    def wrap(kind: str, *others: _Term) -> None:
        found.append(_Layer(kind, ((_Term(node.name, len(found) + 1), *others),)))

    op: Any = node.op
    activation = getattr(op, "activation", None)
    if activation is not None and activation.name != "NONE" and node.kind != CLAMP:
        wrap(CLAMP)
    operands = tuple(map(_Term.of, node.inputs))
    written = [operands]
    if node.kind in WITH_BIAS:
        wrap(REQUANTISE)
        wrap(BIAS_ADD, operands[2])
        written.append(operands[:2])
    if node.kind in COMMUTATIVE:
        written.append(operands[::-1])
    return (*found, _Layer(node.kind, tuple(written)))


def _pattern(found: object, where: str) -> Pattern:
    """What the author wrote where a pattern must stand."""
    if isinstance(found, Pattern):
        return found
    raise BackendError(
        "backend-002",
        f"{found!r} is not a pattern",
        where=where,
        why="patterns are made of patterns",
        help='write wildcard(), is_constant() or is_op("..")(..) there',
    )


def _check_arguments(name: str, patterns: tuple[object, ...]) -> None:
    """Raises BackendError unless the operator can have such arguments."""
    where = f'is_op("{name}")'
    for found in patterns:
        _pattern(found, where)
    counts = arguments(name)
    if counts is not None and len(patterns) not in counts:
        allowed = " or ".join(map(str, sorted(counts)))
        many = "s" if counts != frozenset({1}) else ""
        raise BackendError(
            "backend-003",
            f"{name} takes {allowed} argument{many}, not {len(patterns)}",
            where=where,
            why="a pattern with other arguments would match nothing",
            help="shapes, axes, windows and the like are fields here: ask for them with "
            f'has_attr; is_op("{name}") without arguments matches whatever they are',
        )
    if BIAS_ADD in meanings()[name].kinds:
        _check_layer(patterns[0], where)


def _check_layer(pattern: object, where: str) -> None:
    """Raises BackendError unless the pattern can be a layer with bias."""
    assert isinstance(pattern, Pattern)
    last = [p.name for p in last_operators(pattern) if isinstance(p, Operator)]
    if any(not WITH_BIAS.isdisjoint(meanings()[name].kinds) for name in last):
        return
    raise BackendError(
        "backend-004",
        f"{where} of {pattern} matches nothing",
        where=where,
        why=f"a bias is an input of its layer ({', '.join(sorted(WITH_BIAS))}), no node",
        help="name the layer as its first argument",
    )


def _check_attributes(pattern: Pattern, attributes: Mapping[str, object]) -> None:
    """Raises BackendError unless each is an attribute of what the pattern ends with."""
    last = tuple(last_operators(pattern))
    if not all(isinstance(p, Operator) for p in last):
        return
    names = [p.name for p in last if isinstance(p, Operator)]
    kinds = dict.fromkeys(k for n in names for k in meanings()[n].kinds)
    known = [name for kind in kinds for name in attribute_names(kind)]
    for name in attributes:
        if name not in known:
            raise BackendError(
                "backend-005",
                f'{" and ".join(kinds)} has no attribute "{name}"',
                where=f"has_attr of {pattern}",
                why="attributes are the fields of penstock's operators",
                help=f"it has {', '.join(known)}" if known else "it has none at all",
            )
