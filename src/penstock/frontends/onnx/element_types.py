"""The element type of each tensor of an ONNX model, by the schemas of its operators.

The element type decides the domain of a tensor: floating-point types are real numbers, all others
are integer elements.  Every floating-point type counts as float32 (`file.decode`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import onnx

from penstock.errors import ModelError
from penstock.frontends.onnx.file import REALS, File, FileNode
from penstock.frontends.onnx.operators import DEQUANTISE, QUANTISE, operator_schema
from penstock.ir.foreign import MALFORMED, Attribute
from penstock.opkit.requantise import SHIFT

REAL = "float32"


def element_types(file: File) -> Mapping[str, str]:
    """The element type of every tensor, by name; a tensor of real numbers has type `REAL`."""
    found = {"": REAL, **{name: _normal(x.dtype.name) for name, x in file.constants.items()}}
    found |= {border.name: _normal(border.dtype) for border in file.inputs}
    for node in file.nodes:
        for k, name in enumerate(node.outputs):
            found[name] = _normal(_output_type(node, k, file.opset, found))
    return found


def operand_positions(node: FileNode, opset: int) -> tuple[int, ...]:
    """Positions of the inputs that have the element type of output 0 by definition, such as the
    data and the bounds of a Clip, but not the pads of a Pad."""
    schema = operator_schema(node.name, opset)
    if schema is None:
        return tuple(range(len(node.inputs)))
    wanted = _formal(schema.outputs, 0)
    return tuple(k for k in range(len(node.inputs)) if _formal(schema.inputs, k) == wanted)


def _normal(dtype: str) -> str:
    return REAL if dtype in REALS else dtype


def _output_type(node: FileNode, k: int, opset: int, found: Mapping[str, str]) -> str:
    stated = _stated_type(node)
    if stated is not None:
        return stated
    schema = operator_schema(node.name, opset)
    first = found[node.x] if node.inputs else REAL
    if schema is None and node.name == QUANTISE:  # onnxruntime's own, before opset 10
        return found[node.inputs[2]]
    if schema is None:
        return REAL if node.name == DEQUANTISE else first
    wanted = _formal(schema.outputs, k)
    alike = (n for p, n in enumerate(node.inputs) if n and _formal(schema.inputs, p) == wanted)
    name = next(alike, None)
    if name is not None:
        return found[name]
    allowed = list(_allowed(schema, wanted))
    return first if first in allowed or not allowed else allowed[0]


def _stated_type(node: FileNode) -> str | None:
    """The type that an attribute, a tensor attribute or a default of the operator states."""
    if SHIFT in node.attributes:  # sums that the node requantises
        return REAL
    if node.name == QUANTISE and not any(node.inputs[2:]):
        return _by_code(node.attributes.get("output_dtype") or onnx.TensorProto.UINT8)
    if node.name == "Cast":
        return _by_code(node.attributes.get("to"))
    if node.name == "CastLike":
        return None
    value = node.tensors.get("value")
    if value is None and node.name == "ConstantOfShape":
        return REAL
    return None if value is None else value.dtype.name


def _by_code(code: object) -> str:
    """Name of an element type by its number in `onnx.proto`; `REAL` if there is none."""
    try:
        return onnx.helper.tensor_dtype_to_np_dtype(code if isinstance(code, int) else 1).name
    except (KeyError, ValueError):
        return REAL


def _formal(formals: Sequence[onnx.defs.OpSchema.FormalParameter], k: int) -> str:
    """Type, or type parameter, of a formal input or output; the last one may be variadic."""
    return formals[min(k, len(formals) - 1)].type_str if formals else ""


def _allowed(schema: onnx.defs.OpSchema, wanted: str) -> Iterator[str]:
    listed = {c.type_param_str: c.allowed_type_strs for c in schema.type_constraints}
    for written in listed.get(wanted, [wanted]):
        inner = written.removeprefix("tensor(").removesuffix(")")
        inner = {"float": "float32", "double": "float64"}.get(inner, inner)
        if inner in (*REALS, "bool") or hasattr(np, inner):
            yield _normal(inner)


# Attributes have the kinds that ONNX's definitions of operators state.


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
