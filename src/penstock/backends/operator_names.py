"""Names of operators: ours ("Conv2D"), TFLite's ("CONV_2D"), and Relay's ("nn.conv2d").

A name of ours or of TFLite stands for the operator that understands it; one that says more than its
operator ("RELU6", "LESS") for the nodes whose field says so.  The names of Relay, which UMA's users
write, are a table.  Source: TVM 0.12, `relay/op` (names), `relay/frontend/tflite.py` (which TFLite
operator becomes which).

Relay's bias_add and requantize after a layer are no nodes of ours, but inputs and types of the
layer; they have the kinds `BIAS_ADD` and `REQUANTISE`.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, fields, is_dataclass
from enum import Enum
from functools import cache
from typing import Any, get_type_hints

from penstock.errors import BackendError
from penstock.ir.graph import Node
from penstock.ops.registry import operator_files, operators

BIAS_ADD = "BiasAdd"
REQUANTISE = "Requantise"
CLAMP = "Relu"
WITH_BIAS = frozenset({"Conv2D", "DepthwiseConv2D", "FullyConnected", "TransposeConv"})
"""Operators whose input 2 is the bias."""
COMMUTATIVE = frozenset({"Add", "Maximum", "Minimum", "Mul", "SquaredDifference"})
VARIADIC = frozenset({"Concatenation"})

Attributes = tuple[tuple[str, object], ...]


@dataclass(frozen=True, slots=True)
class Meaning:
    """What a name stands for: nodes of one of `kinds` whose fields are as `attributes` say and for
    which `holds`."""

    kinds: tuple[str, ...]
    attributes: Attributes = ()
    holds: Callable[[Node], bool] | None = None

    def fits(self, node: Node, kind: str) -> bool:
        """Whether the node, or what is fused into it as `kind`, has the name."""
        return (
            kind in self.kinds
            and has_attributes(node, self.attributes)
            and (self.holds is None or self.holds(node))
        )


def _along_one_axis(node: Node) -> bool:
    """Whether rows or columns are one, and the window there, too."""
    _, height, width, _ = node.inputs[0].type.shape
    op: Any = node.op
    return (height, op.rows.size) == (1, 1) or (width, op.columns.size) == (1, 1)


def _of_a_whole_image(node: Node) -> bool:
    """Whether rows and columns become one element."""
    x, y = node.inputs[0].type, node.output.type
    op: Any = node.op
    if node.kind != "Mean":
        return x.shape[1:3] == (op.rows.size, op.columns.size) and y.shape[1:3] == (1, 1)
    return x.rank == 4 and op.axes == (1, 2)


def _kinds(*kinds: str, **attributes: object) -> Meaning:
    return Meaning(kinds, tuple(attributes.items()))


_RELAY: Mapping[str, Meaning] = {
    "abs": _kinds("Abs"),
    "add": _kinds("Add"),
    "argmax": _kinds("ArgMax"),
    "argmin": _kinds("ArgMin"),
    "clip": _kinds(CLAMP),
    "concatenate": _kinds("Concatenation"),
    "equal": _kinds("Compare", relation="EQUAL"),
    "exp": _kinds("Exp"),
    "expand_dims": _kinds("Reshape"),
    "greater": _kinds("Compare", relation="GREATER"),
    "greater_equal": _kinds("Compare", relation="GREATER_EQUAL"),
    "image.resize2d": _kinds("ResizeBilinear", "ResizeNearest"),
    "less": _kinds("Compare", relation="LESS"),
    "less_equal": _kinds("Compare", relation="LESS_EQUAL"),
    "max": _kinds("ReduceMax"),
    "maximum": _kinds("Maximum"),
    "mean": _kinds("Mean"),
    "min": _kinds("ReduceMin"),
    "minimum": _kinds("Minimum"),
    "multiply": _kinds("Mul"),
    "nn.avg_pool2d": _kinds("AveragePool2D"),
    "nn.batch_flatten": _kinds("Reshape"),
    "nn.batch_matmul": _kinds("BatchMatmul"),
    "nn.batch_to_space_nd": _kinds("BatchToSpace"),
    "nn.bias_add": _kinds(BIAS_ADD),
    "nn.conv1d": Meaning(("Conv2D",), holds=_along_one_axis),
    "nn.conv2d": _kinds("Conv2D"),
    "nn.conv2d_transpose": _kinds("TransposeConv"),
    "nn.dense": _kinds("FullyConnected"),
    "nn.depth_to_space": _kinds("DepthToSpace"),
    "nn.depthwise_conv2d": _kinds("DepthwiseConv2D"),
    "nn.global_avg_pool2d": Meaning(("AveragePool2D", "Mean"), holds=_of_a_whole_image),
    "nn.global_max_pool2d": Meaning(("MaxPool2D",), holds=_of_a_whole_image),
    "nn.leaky_relu": _kinds("LeakyRelu"),
    "nn.log_softmax": _kinds("LogSoftmax"),
    "nn.max_pool2d": _kinds("MaxPool2D"),
    "nn.mirror_pad": _kinds("MirrorPad"),
    "nn.pad": _kinds("Pad"),
    "nn.prelu": _kinds("Prelu"),
    "nn.relu": _kinds(CLAMP, activation="RELU"),
    "nn.softmax": _kinds("Softmax"),
    "nn.space_to_batch_nd": _kinds("SpaceToBatch"),
    "nn.space_to_depth": _kinds("SpaceToDepth"),
    "not_equal": _kinds("Compare", relation="NOT_EQUAL"),
    "reshape": _kinds("Reshape"),
    "rsqrt": _kinds("Rsqrt"),
    "sigmoid": _kinds("Logistic"),
    "squeeze": _kinds("Reshape"),
    "strided_slice": _kinds("Slice"),
    "subtract": _kinds("Sub"),
    "sum": _kinds("Sum"),
    "take": _kinds("Gather"),
    "tanh": _kinds("Tanh"),
    "tile": _kinds("Tile"),
    "transpose": _kinds("Transpose"),
    "where": _kinds("Select"),
}

_QUANTISED = {
    "qnn.abs": "abs",
    "qnn.add": "add",
    "qnn.avg_pool2d": "nn.avg_pool2d",
    "qnn.batch_matmul": "nn.batch_matmul",
    "qnn.concatenate": "concatenate",
    "qnn.conv1d": "nn.conv1d",
    "qnn.conv2d": "nn.conv2d",
    "qnn.conv2d_transpose": "nn.conv2d_transpose",
    "qnn.dense": "nn.dense",
    "qnn.depthwise_conv2d": "nn.depthwise_conv2d",
    "qnn.exp": "exp",
    "qnn.leaky_relu": "nn.leaky_relu",
    "qnn.mul": "multiply",
    "qnn.rsqrt": "rsqrt",
    "qnn.sigmoid": "sigmoid",
    "qnn.softmax": "nn.softmax",
    "qnn.subtract": "subtract",
    "qnn.tanh": "tanh",
}
"""Relay's operators on quantised tensors, and their twins.  Their arguments for scales and zero
points, which our types hold, may be given or not."""


@cache
def meanings() -> Mapping[str, Meaning]:
    """Every name that a pattern or a strategy may say, and what it stands for.

    >>> meanings()["CONV_2D"] == meanings()["Conv2D"] == meanings()["nn.conv2d"]
    True
    >>> meanings()["RELU6"]
    Meaning(kinds=('Relu',), attributes=(('activation', 'RELU6'),), holds=None)
    """
    found = {"qnn.requantize": Meaning(("Quantize", REQUANTISE)), **_RELAY}
    found |= {name: _RELAY[twin] for name, twin in _QUANTISED.items()}
    for kind, op in operators().items():
        found[kind] = Meaning((kind,))
        found |= {name: Meaning((kind,), _said_by(name, op)) for name in op.FOREIGN}
    return found


def _said_by(name: str, op: type) -> Attributes:
    """The field that a name of a model format speaks of, where one of its values has that name."""
    types = field_types(op)
    return tuple(
        (field, name)
        for field, type in types.items()
        if issubclass(type, Enum) and name in type.__members__
    )


def meaning(name: str, where: str, also: Collection[str] = ()) -> Meaning:
    """What a name stands for.  Raises BackendError, `where` being what the author wrote; `also`:
    what else it might have been meant to be.

    >>> meaning("RELU", 'is_op("RELU")') == meaning("nn.relu", 'is_op("nn.relu")')
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


def is_called(name: str, node: Node) -> bool:
    """Whether the node's operator, without what is fused into it, has the name."""
    return name in meanings() and meanings()[name].fits(node, node.kind)


def arguments(name: str) -> frozenset[int] | None:
    """How many arguments the name takes in a pattern; None: as many as one likes.

    >>> sorted(arguments("nn.conv2d")), arguments("CONCATENATION"), arguments("nn.bias_add")
    ([2, 3], None, frozenset({2}))
    """
    counts = _inputs() | {BIAS_ADD: frozenset({2}), REQUANTISE: frozenset({1})}
    kinds = meanings()[name].kinds
    if name.startswith("qnn.") or not VARIADIC.isdisjoint(kinds):
        return None
    return frozenset[int]().union(*(counts[kind] for kind in kinds))


@cache
def _inputs() -> dict[str, frozenset[int]]:
    """By kind, how many inputs its samples have; a bias may be left out."""
    found: dict[str, set[int]] = {kind: set() for kind in operators()}
    for file in operator_files():
        for sample in getattr(file.module, "SAMPLES", ()):
            kind, count = type(sample.op).__name__, len(sample.site.inputs)
            found[kind] |= {count, count - (kind in WITH_BIAS)}
    return {kind: frozenset(counts) for kind, counts in found.items()}


@cache
def field_types(record: type) -> Mapping[str, type]:
    """By field of a frozen record, its type; of unions and generics, object."""
    if not is_dataclass(record):
        return {}
    hints = get_type_hints(record)
    return {
        f.name: hints[f.name] if isinstance(hints[f.name], type) else object for f in fields(record)
    }


def attribute_names(kind: str) -> tuple[str, ...]:
    """What has_attr may ask an operator for.

    >>> attribute_names("MaxPool2D")[:3], attribute_names("Softmax")
    (('rows', 'rows.size', 'rows.stride'), ('beta',))
    """
    found: list[str] = []
    for name, type in field_types(operators()[kind]).items() if kind in operators() else ():
        found += [name, *(f"{name}.{inner}" for inner in field_types(type))]
    return tuple(found)


def has_attributes(node: Node, attributes: Attributes) -> bool:
    """Whether the node's operator has each attribute, nested ones by a dotted name, and of that
    value; members of enumerations go by their name, lists for tuples."""
    return all(_has(node.op, name, value) for name, value in attributes)


def _has(op: object, name: str, wanted: object) -> bool:
    found = op
    for part in name.split("."):
        if not is_dataclass(found) or part not in {f.name for f in fields(found)}:
            return False
        found = getattr(found, part)
    if isinstance(found, Enum) and isinstance(wanted, str):
        return found.name == wanted
    return found == (tuple(wanted) if isinstance(wanted, list) else wanted)
