"""attribute_kinds: attributes have the kinds that ONNX's definitions of operators state."""

from __future__ import annotations

import onnx

from penstock.errors import ModelError
from penstock.frontends.onnx.element_types import operator_schema
from penstock.frontends.onnx.file import File
from penstock.ir.foreign import MALFORMED, Attribute

_KINDS = onnx.defs.OpSchema.AttrType
_SCALARS = {
    _KINDS.INT: ("an integer", int),
    _KINDS.FLOAT: ("a number", float),
    _KINDS.STRING: ("text", str),
}
_LISTS = {
    _KINDS.INTS: ("a list of integers", int),
    _KINDS.FLOATS: ("a list of numbers", float),
    _KINDS.STRINGS: ("a list of texts", str),
}
_WORDS = {kind: words for kind, (words, _) in (_SCALARS | _LISTS).items()}


def check_attribute_kinds(file: File) -> None:
    """Raises ModelError if an attribute of a standard operator is of another kind than defined."""
    for node in file.nodes:
        schema = operator_schema(node.name, file.opset)
        for name, value in node.attributes.items():
            formal = schema.attributes.get(name) if schema else None
            if formal is not None and not _is_of(value, formal.type):
                raise ModelError(
                    "model-011",
                    f"attribute {name} is {value!r:.60}, must be {_WORDS[formal.type]}",
                    where=node.where,
                    help=MALFORMED,
                )


def _is_of(value: Attribute, kind: onnx.defs.OpSchema.AttrType) -> bool:
    if kind in _SCALARS:
        return type(value) is _SCALARS[kind][1]
    if kind in _LISTS:
        return isinstance(value, tuple) and all(type(v) is _LISTS[kind][1] for v in value)
    return True  # tensors and graphs are not kept as attributes
