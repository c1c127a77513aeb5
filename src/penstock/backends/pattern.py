"""Pattern: the language in which an accelerator describes the subgraphs that it runs (UMA).

>>> conv = is_op("nn.conv2d")(wildcard(), is_constant())
>>> print(is_op("nn.bias_add")(conv, wildcard()).optional(lambda x: is_op("nn.relu")(x)))
nn.relu(nn.bias_add(nn.conv2d(*, constant), *)) | nn.bias_add(nn.conv2d(*, constant), *)

A layer is one node in penstock, including its bias, requantisation and clamp.  For patterns, it is
the chain of Relay operators `nn.relu(qnn.requantize(nn.bias_add(nn.conv2d(x, w), b)))`.  A pattern
may name any inner part of the chain: `nn.conv2d` alone also matches a convolution with bias and
clamp.  The accelerator must still compute the parts that the pattern does not name.  To exclude
layers with a clamp, use `has_attr({"activation": "NONE"})`, a predicate or a constraint.  A pattern
of only fused parts, such as `nn.relu` of a wildcard, does not match a layer, because a node cannot
be divided.

A pattern object that occurs twice within a pattern must match the same value both times.

Source: TVM RFC 0060 (UMA), `_register_pattern`; TVM `relay/dataflow_pattern` (names and meaning).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from enum import Enum

import numpy as np

from penstock.backends.description import backend_code, name_of
from penstock.backends.operator_names import (
    Attributes,
    Fused,
    argument_counts,
    attribute_members,
    attribute_names,
    kind_name,
    meaning,
    meanings,
)
from penstock.errors import BackendError, did_you_mean
from penstock.frozen import frozen
from penstock.ir.tensor import Array, DType, TensorType
from penstock.ops.registry import operators

# Conditions of patterns on tensors: element types, shapes, and the elements of constants.


Predicate = Callable[[Array], bool]  # A predicate of the elements of a constant.
# The extent of an axis: a number, a predicate, or None for any extent.
Extent = int | Callable[[int], bool] | None


@frozen
class ConstantTest:
    """A condition on the elements of a constant.

    text: the condition as patterns print it.
    holds: the condition as a predicate of the elements."""

    text: str
    holds: Predicate

    @staticmethod
    def of(value: float | Array | Predicate) -> ConstantTest:
        """Return the condition that `value` states.

        value: a number that every element equals, an array that equals the constant, or a predicate
            of the constant's elements."""
        if callable(value):
            return ConstantTest(f"that passes {name_of(value)}", value)
        wanted = np.asarray(value)
        if wanted.ndim == 0:
            return ConstantTest(str(value), lambda found: bool((found == wanted).all()))
        text = f"equal to an array of shape {list(wanted.shape)}"
        return ConstantTest(text, lambda found: np.array_equal(found, wanted))

    def accepts(self, elements: Array) -> bool:
        """Return whether the elements of a constant satisfy the condition.

        Raises BackendError if the predicate raises an exception."""
        with backend_code("predicate of a constant", "is_constant(..)"):
            return bool(self.holds(elements))


def element_type(dtype: str | DType) -> DType:
    """Return the element type of a name, such as "int8".  Raises BackendError for other names."""
    names = {each.name.lower(): each for each in DType}
    if isinstance(dtype, DType):
        return dtype
    if dtype in names:
        return names[dtype]
    raise BackendError(
        "backend-062",
        f"there is no element type {dtype!r}",
        where=f"has_dtype({dtype!r})",
        why=f"the element types are {', '.join(names)}",
        help=f"{did_you_mean(dtype, names)}write it in lower-case letters",
    )


def extents(shape: Sequence[Extent]) -> tuple[Extent, ...]:
    """Return the shape as a tuple of extents, one for each axis.

    An extent is a number of at least 1, a predicate of a number, or None for any number.  Raises
    BackendError if an element of `shape` is anything else."""
    for extent in shape:
        if extent is not None and not callable(extent) and (type(extent) is not int or extent < 1):
            raise BackendError(
                "backend-063",
                f"{extent!r} is not an extent",
                where=f"has_shape({list(shape)!r:.60})",
                why="an extent is a number of at least 1, None, or a predicate of a number",
                help="write None for an axis that may have any extent",
            )
    return tuple(shape)


def shape_problem(wanted: Sequence[Extent], found: tuple[int, ...]) -> str:
    """Return why a shape does not have the wanted extents; "" if it has.

    >>> shape_problem((1, None), (2, 3)), shape_problem((1, None), (1, 3))
    ('axis 0 is 2, must be 1', '')
    """
    if len(wanted) != len(found):
        return f"the rank is {len(found)}, must be {len(wanted)}"
    for axis, (extent, actual) in enumerate(zip(wanted, found, strict=True)):
        if callable(extent):
            with backend_code("predicate of an extent", "has_shape(..)"):
                accepted = bool(extent(actual))
            if not accepted:
                return f"axis {axis} is {actual}, which {name_of(extent)} rejects"
        elif extent is not None and extent != actual:
            return f"axis {axis} is {actual}, must be {extent}"
    return ""


def type_problem(dtype: DType | None, shape: tuple[Extent, ...] | None, type: TensorType) -> str:
    """Return how `type` differs from the wanted element type and shape; "" if it has both.

    dtype: the wanted element type; None for any.
    shape: the wanted extents; None for any shape."""
    if dtype is not None and type.dtype is not dtype:
        return f"the element type is {type.dtype.name.lower()}, must be {dtype.name.lower()}"
    return "" if shape is None else shape_problem(shape, type.shape)


class Pattern:
    """Immutable pattern of nodes, built from `is_op`, `wildcard` and `is_constant`.

    If one object occurs twice within a pattern, both occurrences must match the same value.
    Patterns therefore compare by identity."""

    __slots__ = ()

    def __or__(self, other: Pattern) -> Pattern:
        """Return a pattern that matches whatever one of the operands matches.

        >>> print(is_op("nn.max_pool2d")(wildcard()) | is_op("nn.avg_pool2d")(wildcard()))
        nn.max_pool2d(*) | nn.avg_pool2d(*)
        """
        return Either(self, checked_pattern(other, "the right side of |"))

    def optional(self, wrapped: Callable[[Pattern], Pattern]) -> Pattern:
        """Return a pattern that matches `wrapped(self)` or, if that does not match, `self`.

        >>> print(is_op("Pad")(wildcard()).optional(lambda x: is_op("Conv2D")(x, wildcard())))
        Conv2D(Pad(*), *) | Pad(*)
        """
        return Either(checked_pattern(wrapped(self), "what optional(..) is given returns"), self)

    def has_attr(self, attributes: Mapping[str, object]) -> Pattern:
        """Return this pattern, restricted to matches whose last operator has these attributes.

        Attributes are fields of penstock's operators; nested ones have dotted names.  A required
        value may be the name of an enumeration member, or a predicate of the field's value.
        Raises BackendError for an unknown attribute or member.

        >>> print(is_op("Conv2D")(wildcard(), wildcard()).has_attr({"rows.stride": 1}))
        Conv2D(*, *){rows.stride=1}
        >>> is_op("Conv2D").has_attr({"strides": [1, 1]})  # doctest: +ELLIPSIS
        Traceback (most recent call last):
        penstock.errors.BackendError: error[backend-005]: Conv2D has no attribute "strides"
        ...
        """
        _check_attributes(self, attributes)
        return Having(self, tuple(attributes.items()))

    def has_dtype(self, dtype: str | DType) -> Pattern:
        """Return this pattern, restricted to matches whose result has elements of this type.

        Raises BackendError if there is no such type.

        >>> print(is_op("Add")(wildcard(), wildcard().has_dtype("int16")))
        Add(*, *: int16)
        """
        return Typed(self, dtype=element_type(dtype))

    def has_shape(self, shape: Sequence[Extent]) -> Pattern:
        """Return this pattern, restricted to matches whose result has this shape.

        shape: for each axis its extent, None for any extent, or a predicate of the extent.

        >>> print(is_op("Softmax")(wildcard()).has_shape((1, None)))
        Softmax(*): [1, ?]
        """
        return Typed(self, shape=extents(shape))

    def dominates(self, parent: Pattern, path: Pattern | None = None) -> Pattern:
        """Return a pattern of a sub-graph that begins with `parent` and ends with this pattern.

        As in TVM, `parent` must dominate the last node: all paths from the last node upstream
        (towards the network's inputs) must pass through the same match of `parent`.  All nodes
        between these two must match `path`.  In the example below, a match is a Conv2D,
        an Add, and the ReLUs between them.

        path: a pattern of a single node; None for any node.

        >>> relu = is_op("nn.relu")(wildcard())
        >>> print(is_op("Add")(wildcard(), wildcard()).dominates(is_op("Conv2D"), relu))
        Add(*, *) dominated by Conv2D through nn.relu(*)
        """
        above = checked_pattern(parent, "the first argument of dominates")
        between = Wildcard() if path is None else checked_pattern(path, "the path of dominates")
        return AllPaths(self, above, between)


@frozen(eq=False)
class Wildcard(Pattern):
    """Matches any value."""

    def __str__(self) -> str:
        return "*"


@frozen(eq=False)
class Constant(Pattern):
    """Matches constants: all, or those whose elements pass a test."""

    test: ConstantTest | None = None

    def __str__(self) -> str:
        return "constant" if self.test is None else f"constant {self.test.text}"


@frozen(eq=False)
class Operator(Pattern):
    """Matches an operator by its name, if its operands match `arguments`.

    name: the operator's name in penstock, TFLite or Relay.
    arguments: a pattern for each operand; None accepts any operands."""

    name: str
    arguments: tuple[Pattern, ...] | None = None

    def __call__(self, *patterns: Pattern) -> Operator:
        """Return this operator with a pattern for each of its operands, constants included.

        A layer's bias may be omitted.  Operands of commutative operators match in both orders.

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
        shown = "" if self.arguments is None else f"({', '.join(map(str, self.arguments))})"
        return self.name + shown


@frozen(eq=False)
class Either(Pattern):
    """Matches whatever `first` or `second` matches."""

    first: Pattern
    second: Pattern

    def __str__(self) -> str:
        return f"{self.first} | {self.second}"


@frozen(eq=False)
class Having(Pattern):
    """Matches what `pattern` matches if the match's last operator has these attribute values.

    attributes: (name, value) pairs; nested attributes have dotted names ("rows.stride")."""

    pattern: Pattern
    attributes: Attributes

    def __str__(self) -> str:
        shown = ", ".join(f"{n}={name_of(v) if callable(v) else v}" for n, v in self.attributes)
        pattern = f"({self.pattern})" if isinstance(self.pattern, Either) else str(self.pattern)
        return f"{pattern}{{{shown}}}"


@frozen(eq=False)
class Typed(Pattern):
    """Matches what `pattern` matches if the result has this element type and this shape.

    dtype: None for any element type.  shape: None for any shape."""

    pattern: Pattern
    dtype: DType | None = None
    shape: tuple[Extent, ...] | None = None

    def __str__(self) -> str:
        types = () if self.dtype is None else (self.dtype.name.lower(),)
        if self.shape is not None:
            shown = ("?" if e is None else "f(?)" if callable(e) else str(e) for e in self.shape)
            types = (*types, f"[{', '.join(shown)}]")
        return f"{self.pattern}: {' '.join(types)}"


@frozen(eq=False)
class AllPaths(Pattern):
    """Matches `child` if all paths upstream lead, by nodes that match `path`, to one `parent`."""

    child: Pattern
    parent: Pattern
    path: Pattern

    def __str__(self) -> str:
        return f"{self.child} dominated by {self.parent} through {self.path}"


@frozen(eq=False)
class TuplePattern(Pattern):
    """Matches all operands of a variadic operator, each by its entry in `fields` (None: any)."""

    fields: tuple[Pattern, ...] | None

    def __str__(self) -> str:
        return "(..)" if self.fields is None else f"({', '.join(map(str, self.fields))})"


@frozen(eq=False)
class TupleItem(Pattern):
    """Matches an item of the tuple that `pattern` matches; `index` None: any item."""

    pattern: Pattern
    index: int | None = None

    def __str__(self) -> str:
        return f"{self.pattern}[{'?' if self.index is None else self.index}]"


def wildcard() -> Pattern:
    """Return a pattern that matches any value: constant, computed, or an input of the network.

    >>> print(wildcard())
    *
    """
    return Wildcard()


def is_constant(value: float | Array | Predicate | None = None) -> Pattern:
    """Return a pattern that matches constants, such as weights.

    value: the elements as they are stored, that is, quantised: a number that all of them equal, an
        array, or a predicate of the array.  None for any elements.

    >>> print(is_op("Add")(wildcard(), is_constant()), is_constant(0))
    Add(*, constant) constant 0
    """
    return Constant(None if value is None else ConstantTest.of(value))


def is_tuple(fields: Sequence[Pattern] | None = None) -> Pattern:
    """Return a pattern for all operands of a variadic operator, such as concatenation.

    fields: a pattern for each operand; None for any number of any operands.

    >>> print(is_op("concatenate")(is_tuple([is_op("Conv2D"), wildcard()])))
    concatenate((Conv2D, *))
    """
    if fields is None:
        return TuplePattern(None)
    return TuplePattern(tuple(checked_pattern(field, "a field of is_tuple") for field in fields))


def is_tuple_get_item(tuple_value: Pattern, index: int | None = None) -> Pattern:
    """Return a pattern for an item of an operator with several results, such as split.

    penstock has a node for each result: the item of a split is a slice.  An operator with one
    result, such as a batch normalisation, has the item 0 only.

    tuple_value: the pattern of the operator.  If it occurs in several items, its operands are the
        same in each.
    index: the number of the item; None for any item.

    >>> halves = is_op("split")(wildcard())
    >>> print(is_op("add")(is_tuple_get_item(halves, 0), is_tuple_get_item(halves, 1)))
    add(split(*)[0], split(*)[1])
    """
    return TupleItem(checked_pattern(tuple_value, "is_tuple_get_item"), index)


def is_op(name: str) -> Operator:
    """Return a pattern that matches an operator with any operands.

    Call the result with patterns to restrict the operands.  `name` is the operator's name in
    penstock, TFLite or Relay.  Raises BackendError for an unknown name.

    >>> print(is_op("nn.softmax")(wildcard()), is_op("Concatenation"))
    nn.softmax(*) Concatenation
    >>> is_op("nn.sofmax")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    penstock.errors.BackendError: error[backend-001]: there is no operator "nn.sofmax"
    ...
    """
    meaning(name, f'is_op("{name}")')
    return Operator(name)


def last_operators(pattern: Pattern) -> Iterator[Pattern]:
    """Yield the sub-patterns with which a match can end, one for each alternative (`|`).

    Each is an operator, a wildcard or a constant.

    >>> [str(p) for p in last_operators(is_op("Add")(wildcard(), wildcard()) | wildcard())]
    ['Add(*, *)', '*']
    """
    match pattern:
        case Either(first, second):
            yield from last_operators(first)
            yield from last_operators(second)
        case Having(inner) | Typed(inner) | AllPaths(inner) | TupleItem(inner):
            yield from last_operators(inner)
        case _:
            yield pattern


def checked_pattern(found: object, where: str) -> Pattern:
    """Return `found` if it is a pattern; otherwise raise BackendError with `where` as location."""
    if isinstance(found, Pattern):
        return found
    raise BackendError(
        "backend-002",
        f"{found!r} is not a pattern",
        where=where,
        why="the arguments of a pattern are patterns",
        help='use wildcard(), is_constant() or is_op("..")(..)',
    )


def _check_arguments(name: str, patterns: tuple[object, ...]) -> None:
    """Raise BackendError unless the operator `name` can have operands that match `patterns`."""
    where = f'is_op("{name}")'
    for found in patterns:
        checked_pattern(found, where)
    counts = argument_counts(name)
    if counts is not None and len(patterns) not in counts:
        allowed = " or ".join(map(str, sorted(counts)))
        many = "s" if counts != frozenset({1}) else ""
        raise BackendError(
            "backend-003",
            f"{name} takes {allowed} argument{many}, not {len(patterns)}",
            where=where,
            why="a pattern with other arguments would match nothing",
            help="shapes, axes and windows are attributes, not arguments: test them with "
            f'has_attr; is_op("{name}") without arguments matches any arguments',
        )
    if Fused.BIAS_ADD in meanings()[name].kinds:
        _check_biased(patterns[0], where)


def _check_biased(pattern: object, where: str) -> None:
    """Raise BackendError unless `pattern`, the first argument of bias_add, can match a layer."""
    # A layer is an operator with a bias input, such as Conv2D.  penstock has no separate node for
    # the addition of a bias, so bias_add of any other operator matches nothing.
    assert isinstance(pattern, Pattern)
    biased = {name: op for name, op in operators().items() if op.BIAS_INPUT is not None}
    last = [p.name for p in last_operators(pattern) if isinstance(p, Operator)]
    if any(op in meanings()[name].kinds for name in last for op in biased.values()):
        return
    raise BackendError(
        "backend-004",
        f"{where} of {pattern} matches nothing",
        where=where,
        why=f"a bias is an input of its layer ({', '.join(sorted(biased))}), not a node",
        help="pass the layer as its first argument",
    )


def _check_attributes(pattern: Pattern, attributes: Mapping[str, object]) -> None:
    """Raise BackendError if `pattern.has_attr(attributes)` has an unknown attribute or value."""
    # Attributes belong to the last operator of a match.  If alternatives (`|`) end with different
    # operators, it suffices that one operator has the attribute.  If a match can end with a
    # wildcard or a constant, nothing is checked.  The value of an enumeration attribute must be a
    # member, the name of one, or a predicate.
    last = tuple(last_operators(pattern))
    if not all(isinstance(p, Operator) for p in last):
        return
    names = [p.name for p in last if isinstance(p, Operator)]
    if any(meanings()[name].rewritten for name in names):
        return
    kinds = dict.fromkeys(k for n in names for k in meanings()[n].kinds)
    known = list(dict.fromkeys(name for kind in kinds for name in attribute_names(kind)))
    has = "has" if len(kinds) == 1 else "have"
    for name, value in attributes.items():
        if name not in known:
            raise BackendError(
                "backend-005",
                f'{" and ".join(map(kind_name, kinds))} {has} no attribute "{name}"',
                where=f"has_attr of {pattern}",
                why="attributes are the fields of penstock's operators",
                help=f"its attributes are: {', '.join(known)}" if known else "it has no attributes",
            )
        members = [member for kind in kinds for member in attribute_members(kind, name)]
        given = isinstance(value, Enum) or callable(value)
        if members and value not in members and not given:
            raise BackendError(
                "backend-005",
                f'attribute "{name}" is {value!r}, must be one of {", ".join(members)}',
                where=f"has_attr of {pattern}",
                help=f"for example has_attr({{{name!r}: {members[0]!r}}})",
            )
