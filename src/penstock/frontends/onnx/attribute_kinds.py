"""attribute_kinds: attributes have the kinds that ONNX's definitions of operators state."""

from __future__ import annotations

import onnx

from penstock.errors import ModelError
from penstock.frontends.onnx.element_types import operator_schema
from penstock.frontends.onnx.file import File
from penstock.ir.foreign import MALFORMED, Attribute

_KINDS = onnx.defs.OpSchema.AttrType
_NAMES = {
    _KINDS.INT: "an integer",
    _KINDS.FLOAT: "a number",
    _KINDS.STRING: "text",
    _KINDS.INTS: "a list of integers",
    _KINDS.FLOATS: "a list of numbers",
    _KINDS.STRINGS: "a list of texts",
}


def check_attribute_kinds(file: File) -> None:
    """Raises ModelError if an attribute of a standard operator is of another kind than defined."""
    for node in file.nodes:
        schema = operator_schema(node.name, file.opset)
        for name, value in node.attributes.items():
            formal = schema.attributes.get(name) if schema else None
            if formal is not None and not _is_of(value, formal.type):
                raise ModelError(
                    "model-011",
                    f"attribute {name} is {value!r:.60}, must be {_NAMES[formal.type]}",
                    where=node.where,
                    help=MALFORMED,
                )


def _is_of(value: Attribute, kind: onnx.defs.OpSchema.AttrType) -> bool:
    scalars = {_KINDS.INT: int, _KINDS.FLOAT: float, _KINDS.STRING: str}
    lists = {_KINDS.INTS: int, _KINDS.FLOATS: float, _KINDS.STRINGS: str}
    if kind in scalars:
        return isinstance(value, scalars[kind])
    if kind in lists:
        return isinstance(value, tuple) and all(type(v) is lists[kind] for v in value)
    return True  # tensors and graphs are not kept as attributes
