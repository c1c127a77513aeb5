"""Names by which patterns and strategies refer to operators: penstock's, TFLite's and Relay's.

"Conv2D", "CONV_2D" and "qnn.conv2d" denote the same operator; "nn.conv2d" denotes it and the one on
real numbers.  A name may also select nodes by the value of a field of the operator, as "RELU6" and
"LESS" do.  Each operator declares its names (`ir.op.Op`); this module resolves them.  Source of the
Relay names: TVM 0.12, `relay/op`, and `relay/frontend/tflite.py` for the mapping from TFLite to
Relay.

Relay's bias_add and requantize after a layer are not nodes in penstock: the bias is an input of the
layer's node, and the type of the node's output determines the requantisation.  The names "bias_add"
and "requantize" therefore denote a part of what the layer's node computes (`Fused`).
"""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Callable, Collection, Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import cache
from pathlib import Path
from typing import get_type_hints

from penstock.backends.description import backend_code
from penstock.errors import BackendError
from penstock.frozen import frozen
from penstock.ir.graph import Node
from penstock.ir.op import Op
from penstock.ops.registry import operator_files, operators

Attributes = tuple[tuple[str, object], ...]  # Pairs of an attribute name and a value.
# Names denote layers whose multipliers are those of the scales, as backends compute them.
_OF_SCALES: Attributes = (("stated", None),)


BATCH_NORM = "nn.batch_norm"
"""In Relay, it has the operands data, gamma, beta, mean and variance, of which a node has factors
and offsets instead; its result is the first item of a tuple."""


class Fused(Enum):
    """A Relay operator that penstock fuses into a layer's node: bias addition or requantisation."""

    BIAS_ADD = "nn.bias_add"
    REQUANTISE = "qnn.requantize"


# Operators of Relay of which no node is one, and what importers make of them.
#
# Backends may name them: such a pattern matches nothing, and a message says why.
_PLANES = "operators on images, one for each plane of the window, and sums or extremes of these"
_MOMENTS = "sums, differences, products and a square root"
REWRITTEN: Mapping[str, str] = {
    "nn.conv3d": _PLANES,
    "nn.conv3d_transpose": _PLANES,
    "nn.max_pool3d": _PLANES,
    "nn.avg_pool3d": _PLANES,
    "nn.layer_norm": _MOMENTS,
    "nn.instance_norm": _MOMENTS,
    "nn.group_norm": _MOMENTS,
    "nn.lrn": _MOMENTS,
    "nn.dropout": "nothing, since it changes nothing in inference",
    "stack": "reshapes and a concatenation",
}

# What a node or a part of a node computes: an operator class, or a fused Relay operator.
Kind = type[Op] | Fused


@frozen
class Sense:
    """An operator that a name denotes, and restrictions on the nodes to which the name applies.

    kind: the class of the operator, or an operator that penstock fuses into layers (`Fused`).
    attributes: (name, value) pairs of attributes that the node's operator must have.
    condition: a further predicate; None for no condition.  Its arguments are the node's operator
        and `Site`, which holds the types and constants of the operands."""

    kind: Kind
    attributes: Attributes = ()
    condition: Callable[..., bool] | None = None

    def fits(self, node: Node, kind: Kind) -> bool:
        """Return whether this sense of a name denotes the operator `kind` of a node.

        The result is True if `kind` is the operator of this sense, and if `node` satisfies the
        restrictions of the sense.

        kind: the operator of `node`, or an operator fused into it, such as a bias addition."""
        return (
            kind is self.kind
            and has_attributes(node, self.attributes)
            and (self.condition is None or self.condition(node.op, node.site))
        )


@frozen
class Meaning:
    """All operators that a name denotes; "image.resize2d", for example, denotes two.

    senses: these operators, each with restrictions on the nodes to which the name applies.
    rewritten: what importers make of the operator, if no node is one; else ""."""

    senses: tuple[Sense, ...]
    rewritten: str = ""

    @property
    def kinds(self) -> tuple[Kind, ...]:
        return tuple(sense.kind for sense in self.senses)

    def fits(self, node: Node, kind: Kind) -> bool:
        """Return whether a name with this meaning denotes the operator `kind` of a node.

        The result is True if `kind` is one of the operators that the name denotes, and if `node`
        satisfies the restrictions for this operator.

        kind: the operator of `node`, or an operator fused into it, such as a bias addition."""
        return any(sense.fits(node, kind) for sense in self.senses)


@cache
def meanings() -> Mapping[str, Meaning]:
    """Return what each name denotes, for all names by which backends may refer to operators.

    The result maps a name to its `Meaning`: one or several operators, with restrictions.

    >>> meanings()["CONV_2D"] == meanings()["Conv2D"]
    True
    >>> [kind_name(kind) for kind in meanings()["nn.conv2d"].kinds]
    ['Conv2D', 'PlainConv2D']
    >>> (relu6,) = meanings()["RELU6"].senses
    >>> kind_name(relu6.kind), relu6.attributes
    ('Relu', (('activation', 'RELU6'),))
    """
    found: dict[str, list[Sense]] = {fused.value: [Sense(fused)] for fused in Fused}
    for name, op in operators().items():
        of_scales = _OF_SCALES if "stated" in field_types(op) else ()
        found.setdefault(name, []).append(Sense(op, of_scales))
        for tflite in op.TFLITE:
            sense = Sense(op, (*of_scales, *_selected_field(tflite, op)))
            found.setdefault(tflite, []).append(sense)
        for relay in op.RELAY:
            sense = Sense(op, (*of_scales, *relay.attributes), relay.condition)
            found.setdefault(relay.name, []).append(sense)
    every = {name: Meaning(tuple(senses)) for name, senses in found.items()}
    return {**{name: Meaning((), text) for name, text in REWRITTEN.items()}, **every}


def _selected_field(name: str, op: type[Op]) -> Attributes:
    """The operator's fields whose value a TFLite name determines, as (field, value) pairs."""
    # For "RELU6" they are (("activation", "RELU6"),).  Most names determine no field.
    return tuple(
        (field, name)
        for field, type in field_types(op).items()
        if issubclass(type, Enum) and name in type.__members__
    )


def meaning(name: str, where: str, also: Collection[str] = ()) -> Meaning:
    """Return the operators that a name denotes, with restrictions on the nodes to which it applies.

    also: further names that the error may suggest, such as names of patterns.

    Raises BackendError for an unknown name, with suggestions of similar names.

    >>> meaning("CONV_2D", 'is_op("CONV_2D")') == meaning("Conv2D", 'is_op("Conv2D")')
    True
    """
    if name in meanings():
        return meanings()[name]
    near = difflib.get_close_matches(str(name), (*also, *meanings()), 3, 0.5)
    hint = f"did you mean {', '.join(near)}? " if near else ""
    raise BackendError(
        "backend-001",
        f'there is no operator "{name}"',
        where=where,
        why="operators have the names of penstock, of TFLite and of Relay",
        help=f"{hint}`penstock ops` lists the operators",
    )


def node_kinds(name: str, where: str, also: Collection[str] = ()) -> tuple[Kind, ...]:
    """Return the operators of nodes that a name denotes.

    also: as in `meaning`.

    Raises BackendError for an unknown name, and for an operator that importers rewrite, so that no
    node is one."""
    found = meaning(name, where, also)
    if found.rewritten:
        raise BackendError(
            "backend-100",
            f'no operator of penstock is a "{name}"',
            where=where,
            why=f"importers make of it {found.rewritten}",
            help="match the operators that it becomes: `penstock show MODEL --nodes` lists them",
        )
    return found.kinds


def is_called(name: str, node: Node) -> bool:
    """Return whether `name` denotes the operator of `node` itself, not a part fused into it."""
    return name in meanings() and meanings()[name].fits(node, type(node.op))


def argument_counts(name: str) -> frozenset[int] | None:
    """Return the permitted numbers of arguments of an operator in a pattern; None for any number.

    >>> sorted(argument_counts("nn.conv2d")), argument_counts("CONCATENATION")
    ([2, 3], None)
    >>> argument_counts("nn.bias_add")
    frozenset({2})
    """
    kinds = meanings()[name].kinds
    variadic = any(not isinstance(kind, Fused) and kind.VARIADIC for kind in kinds)
    if name.startswith("qnn.") or variadic or name == BATCH_NORM or not kinds:
        return None
    return frozenset(count for kind in kinds for count in _operand_counts(kind))


@frozen
class _KernelFacts:
    """Of an operator: numbers of operands; names of the parameters and tables of its kernels."""

    operands: tuple[int, ...] = ()
    parameters: tuple[str, ...] = ()
    tables: tuple[str, ...] = ()


@cache
def _kernel_facts() -> Mapping[str, _KernelFacts]:
    text = Path(__file__).with_name("operator_facts.toml").read_text("utf-8")
    rows = tomllib.loads(text).items()
    return {
        op: _KernelFacts(**{key: tuple(names) for key, names in row.items()}) for op, row in rows
    }


def _operand_counts(kind: Kind) -> frozenset[int]:
    if isinstance(kind, Fused):
        return frozenset({2 if kind is Fused.BIAS_ADD else 1})
    counts = _kernel_facts()[kind.__name__].operands
    without_bias = () if kind.BIAS_INPUT is None else (count - 1 for count in counts)
    return frozenset({*counts, *without_bias})


def kind_name(kind: Kind) -> str:
    """Return the name of an operator, or of an operator fused into layers, for messages.

    >>> kind_name(Fused.BIAS_ADD)
    'nn.bias_add'
    """
    return kind.value if isinstance(kind, Fused) else kind.__name__


@cache
def field_types(record: type) -> Mapping[str, type]:
    """Return the class of each field of a dataclass, by field name.

    `object` stands for types that are not classes, such as unions and generic types.  The result is
    empty if `record` is not a dataclass."""
    if not is_dataclass(record):
        return {}
    hints = get_type_hints(record)
    return {
        f.name: hints[f.name] if isinstance(hints[f.name], type) else object for f in fields(record)
    }


def attribute_names(kind: Kind) -> tuple[str, ...]:
    """Return the attributes of an operator that `has_attr` accepts; nested ones have dotted names.

    >>> from penstock.ops.pool import MaxPool2D
    >>> attribute_names(MaxPool2D)[:3]
    ('rows', 'rows.size', 'rows.stride')
    """
    found: list[str] = []
    for name, type in ({} if isinstance(kind, Fused) else field_types(kind)).items():
        found += [name, *(f"{name}.{inner}" for inner in field_types(type))]
    return tuple(found)


def attribute_members(kind: Kind, name: str) -> tuple[str, ...]:
    """Return the names of the members of an enumeration attribute; () for other attributes.

    >>> from penstock.ops.unary import Logistic
    >>> attribute_members(Logistic, "numerics"), attribute_members(Logistic, "alpha")
    (('TFLITE', 'REAL'), ())
    """
    type = object if isinstance(kind, Fused) else field_types(kind).get(name, object)
    return tuple(type.__members__) if issubclass(type, Enum) else ()


def has_attributes(node: Node, attributes: Attributes) -> bool:
    """Return whether the node's operator has all these attribute values.

    attributes: pairs (name, required value).  The names of nested attributes are dotted
        ("rows.stride").  The required value may be a member of an enumeration or its name, a list
        instead of a tuple, or a predicate of the value.  For a member of an enumeration, the
        predicate receives its name.
    """
    return all(has_attribute(node.op, name, value) for name, value in attributes)


def has_attribute(op: object, name: str, wanted: object) -> bool:
    """Return whether an operator has the attribute `name`, with the wanted value.

    name: the name of the attribute, dotted if it is nested ("rows.stride").
    wanted: a value, the name of an enumeration member, or a predicate (`has_attributes`)."""
    try:
        found = get_attribute(op, name)
    except KeyError:
        return False
    if callable(wanted):
        with backend_code("predicate of an attribute", f'has_attr({{"{name}": ..}})'):
            return bool(wanted(found.name if isinstance(found, Enum) else found))
    if isinstance(found, Enum) and isinstance(wanted, str):
        return found.name == wanted
    return found == (tuple(wanted) if isinstance(wanted, list) else wanted)


def get_attribute(op: object, name: str) -> object:
    """Return the value of an attribute, whose name may be dotted; raises KeyError if there is
    none."""
    found = op
    for part in name.split("."):
        if not is_dataclass(found) or part not in {f.name for f in fields(found)}:
            raise KeyError(name)
        found = getattr(found, part)
    return found


# OperatorFacts: the names by which backends refer to an operator and to its properties.


@frozen
class OperatorFacts:
    """An operator's definition, and the names that a backend may use for it and its properties.

    operator: the name in penstock.
    definition: what the operator computes, and the shapes and types of its tensors, as text.
    names: names that `is_op` and strategies accept.
    attributes: attributes that `has_attr` accepts.
    parameters: names of its integer parameters, the keys of `Offloaded.parameters`.
    tables: names of its array parameters, the keys of `Offloaded.tables`."""

    operator: str
    definition: str
    names: tuple[str, ...]
    attributes: tuple[str, ...]
    parameters: tuple[str, ...]
    tables: tuple[str, ...]


def operator_facts(name: str, where: str) -> tuple[OperatorFacts, ...]:
    """Return the facts about each operator that `name` denotes.

    Raises BackendError for an unknown name, with `where` as the location.

    >>> pool, _ = operator_facts("nn.avg_pool2d", "an example")  # of int8, and of real numbers
    >>> pool.names[:3], pool.parameters[:3], pool.tables
    (('AVERAGE_POOL_2D', 'AveragePool2D', 'nn.adaptive_avg_pool2d'), ('in_h', 'in_w', 'in_c'), ())
    """
    return tuple(map(_facts, node_kinds(name, where)))


def _facts(kind: Kind) -> OperatorFacts:
    name = kind_name(kind)
    written = _kernel_facts().get(name, _KernelFacts())
    return OperatorFacts(
        name,
        next((file.definition(kind) for file in operator_files() if kind in file.ops), name),
        tuple(sorted(name for name, found in meanings().items() if kind in found.kinds)),
        attribute_names(kind),
        written.parameters,
        written.tables,
    )
