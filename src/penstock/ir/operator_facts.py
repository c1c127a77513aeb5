"""The facts about an operator that its class variables state: its names.

Front ends, patterns and reports query them through `ops/registry.py`, the only list of operators.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from enum import Enum

from penstock.frozen import frozen
from penstock.ir.tensor import Quantisation

# StatedAttribute: an attribute of an operator, as reports state it.


MOST_NUMBERS = 8  # Longest tuple of numbers that is stated.


@frozen
class StatedAttribute:
    """An attribute in words, such as ("stride", "2 × 2")."""

    name: str
    words: str


def stated_fields(record: object) -> Iterator[StatedAttribute]:
    """Yield the fields of a record that hold numbers or names and differ from their defaults."""
    assert is_dataclass(record), f"{type(record).__name__} is no record"
    for field in fields(record):
        value = getattr(record, field.name)
        words = _words(value)
        if words is not None and value != field.default:
            yield StatedAttribute(field.name.replace("_", " "), words)


def _words(value: object) -> str | None:
    """Return a number, a name or a short tuple of numbers as text; None for other values."""
    match value:
        case bool():
            return "yes" if value else "no"
        case Enum():
            return value.name.replace("_", " ").lower()
        case int() | str():
            return str(value)
        case float():
            return f"{value:.6g}"
        case tuple():
            return _numbers(value)  # pyright: ignore[reportUnknownArgumentType]
        case _:
            return None


def _numbers(values: tuple[object, ...]) -> str | None:
    numbers = [f"{value:.6g}" for value in values if type(value) in (int, float)]
    fits = len(numbers) == len(values) <= MOST_NUMBERS
    return ", ".join(numbers) if fits and numbers else None


class AxisOrder(Enum):
    """The order of axes in which an ONNX operator takes its tensors."""

    CHANNELS_LAST = "channels last"
    """Axis 1 of the model's input 0 and output is last: (N, C, H, W) is stored as (N, H, W, C)."""
    ALIKE = "alike"
    """Any order, the same for all tensors, which have one rank; `OnnxNode.order` states it."""
    VECTORS = "vectors"
    """As ALIKE, with the axis that the attribute `axis` names last."""
    ROWS = "rows"
    """Input 0 in the model's order, or the tensor that it is flattened from; `OnnxNode.columns`
    then maps columns of the flattened matrix."""
    MODEL = "as in the model"
    """The model's order for all tensors, which may have different ranks."""


@frozen
class OnnxName:
    """How an ONNX operator of some name is presented to `from_onnx`.

    `axes`: order of the axes of its tensors.
    `carries`: every output element is an element of an input of the output's type (moved, chosen
        or clamped), so rounding commutes with the operator, output and inputs may share a scale,
        and integers are selected as real numbers are; or for which attributes that is so.
    `fixed`: scale and zero point of the output where the model states none and its range is known.
    `real_inputs`: positions of the states of a recurrent layer.  States and outputs are real
        numbers (float32) where the model states no quantisation.
    `floats`: inputs and outputs may be real numbers without quantisation, float32 in the graph.
    `integers`: the output holds plain integers, which have no quantisation.  They depend on the
        order of the inputs' elements only, so that integers are compared as real numbers are.
    `plain`: inputs of integers have their own element type, without quantisation.
    `only_reals`: the operator computes real numbers only, so that functions of a quantised tensor
        are tables.
    """

    axes: AxisOrder
    carries: bool | Callable[[Mapping[str, object]], bool] = False
    fixed: Quantisation | None = None
    real_inputs: tuple[int, ...] = ()
    floats: bool = False
    integers: bool = False
    plain: bool = False
    only_reals: bool = False

    def carries_in(self, attributes: Mapping[str, object]) -> bool:
        """Whether a node with these attributes carries elements."""
        return self.carries(attributes) if callable(self.carries) else self.carries


REALS = OnnxName(AxisOrder.ALIKE, floats=True)
"""Presentation of operators on tensors of one axis order, which may hold real numbers."""
CARRIED = OnnxName(AxisOrder.ALIKE, carries=True, floats=True)
"""Of those whose output elements are elements of an input."""


PLAIN = OnnxName(AxisOrder.ALIKE, floats=True, plain=True)
"""Of those on tensors without quantisation: float32, integers, bool."""
PLAIN_MODEL = OnnxName(AxisOrder.MODEL, floats=True, plain=True)
"""The same, with the axes of the model."""
FUNCTION = OnnxName(AxisOrder.ALIKE, floats=True, plain=True, only_reals=True)
"""Of element-wise functions of real numbers."""


@frozen
class RelayName:
    """A name of the operator in TVM's Relay, by which UMA patterns and strategies refer to it.

    `attributes`: field values that a node must have to bear the name; enumeration members by name.
    `condition`: predicate that it must satisfy besides, called with the operator and its `Site`.
    """

    name: str
    attributes: tuple[tuple[str, object], ...] = ()
    condition: Callable[..., bool] | None = None


def relay(*names: str) -> tuple[RelayName, ...]:
    """Relay names that every node of the operator bears.

    >>> relay("add", "qnn.add")[1].name
    'qnn.add'
    """
    return tuple(map(RelayName, names))


def onnx(presentation: OnnxName, *names: str) -> dict[str, OnnxName]:
    """ONNX names of an operator, all presented alike.

    >>> sorted(onnx(OnnxName(AxisOrder.ALIKE), "Add", "Sum"))
    ['Add', 'Sum']
    """
    return dict.fromkeys(names, presentation)
